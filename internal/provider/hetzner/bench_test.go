package hetzner_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/hetzner"
	"github.com/tollgate-dev/tollgate/internal/provider/hetzner/hetznersim"
	"github.com/tollgate-dev/tollgate/internal/provider/hetzner/hetznertest"
)

// bench is a driver over a simulator of its own.
type bench struct {
	*testing.T
	*hetznertest.Backend
	p   *hetzner.Provider
	log *logs
	n   int
}

type setup struct {
	sim    func(*hetznersim.Options)
	config func(*hetzner.Options)
}

func newBench(t *testing.T, s setup) *bench {
	t.Helper()
	var change []func(*hetznersim.Options)
	if s.sim != nil {
		change = append(change, s.sim)
	}
	b := &bench{T: t, Backend: hetznertest.NewBackend(t, change...), log: &logs{}}
	b.p = b.open("acme", s.config)
	return b
}

// open builds a driver of an installation.
func (b *bench) open(installation string, config func(*hetzner.Options)) *hetzner.Provider {
	b.Helper()
	return b.Backend.Open(b, provider.Config{Name: "cloud", Installation: installation,
		Logger: slog.New(slog.NewTextHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Secret: func(context.Context, string) (provider.Sensitive, error) {
			return provider.NewSensitive([]byte("token-sentinel")), nil
		}}, config)
}

// request asks for an instance of a new owner.
func (b *bench) request() provider.CreateRequest {
	b.n++
	uid := fmt.Sprintf("uid-%d", b.n)
	return provider.CreateRequest{Name: provider.InstanceName(uid, 0), Port: 3128,
		Marks:     provider.Marks{UID: uid, Installation: "acme", Namespace: "default", Proxy: fmt.Sprintf("p%d", b.n), SpecHash: "hash"},
		CloudInit: provider.NewSensitive([]byte("#cloud-config\n")),
	}
}

func (b *bench) create(req provider.CreateRequest) provider.InstanceID {
	b.Helper()
	id, err := b.p.Create(b.Context(), req)
	if err != nil {
		b.Fatal(err)
	}
	return id
}

// running creates an instance and waits until it runs.
func (b *bench) running(req provider.CreateRequest) provider.Instance {
	b.Helper()
	id := b.create(req)
	var in provider.Instance
	b.until("the instance runs", func() bool {
		var err error
		in, err = b.p.Get(b.Context(), id)
		return err == nil && in.State == provider.StateRunning
	})
	return in
}

func (b *bench) until(what string, ok func() bool) {
	b.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatalf("waited in vain until %s", what)
		}
	}
}

// calls are the requests since the last ForgetRequests, as "POST /servers".
func (b *bench) calls() []string {
	var out []string
	for _, r := range b.Requests() {
		out = append(out, r.Method+" "+r.Pattern)
	}
	return out
}

// writes are those of calls that can change anything.
func (b *bench) writes() []string {
	return slices.DeleteFunc(b.calls(), func(c string) bool { return strings.HasPrefix(c, "GET ") })
}

// kinds counts what exists, kind by kind.
func (b *bench) kinds() map[string]int {
	out := map[string]int{}
	for _, o := range b.Objects() {
		out[o.Kind]++
	}
	return out
}

func (b *bench) wantClass(what string, err error, want provider.Class) {
	b.Helper()
	if got := provider.ClassOf(err); got != want {
		b.Errorf("%s: class %q, want %q: %v", what, got, want, err)
	}
}

// logs keeps what the driver logs.
type logs struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
