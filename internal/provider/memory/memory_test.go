package memory_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/memory"
	"github.com/tollgate-dev/tollgate/internal/provider/memory/memorytest"
	"github.com/tollgate-dev/tollgate/internal/provider/providertest"
)

func TestContract(t *testing.T) {
	t.Parallel()
	providertest.Run(t, memorytest.Harness())
}

func open(t testing.TB, b *memory.Backend, installation string) *memory.Provider {
	t.Helper()
	p, err := memory.New(t.Context(), b, provider.Config{Name: "mem", Installation: installation})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func request(installation string, n int) provider.CreateRequest {
	uid := fmt.Sprintf("%s-%d", installation, n)
	return provider.CreateRequest{
		Name:      provider.InstanceName(uid, 0),
		Marks:     provider.Marks{UID: uid, Installation: installation, Namespace: "default", Proxy: "p", SpecHash: "s"},
		Placement: provider.Placement{Region: "north"}, Port: 3128,
	}
}

func create(t testing.TB, p *memory.Provider, req provider.CreateRequest) provider.InstanceID {
	t.Helper()
	id, err := p.Create(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// With no options an instance runs and goes at once: the base of benchmarks.
func TestImmediate(t *testing.T) {
	t.Parallel()
	b := memory.NewBackend(memory.Options{Address: func(int64) netip.Addr { return netip.MustParseAddr("127.0.0.1") }})
	p := open(t, b, "a")
	id := create(t, p, request("a", 1))
	if in, err := p.Get(t.Context(), id); err != nil || in.State != provider.StateRunning || in.IP.String() != "127.0.0.1" {
		t.Errorf("right after create: %+v, %v", in, err)
	}
	if err := p.Delete(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Get(t.Context(), id); provider.ClassOf(err) != provider.NotFound {
		t.Errorf("right after delete: %v", err)
	}
}

func TestTimePasses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := memory.NewBackend(memory.Options{BootTime: time.Minute, DeleteTime: 10 * time.Second})
		p := open(t, b, "a")
		id := create(t, p, request("a", 1))
		want := func(state provider.State) {
			t.Helper()
			if in, err := p.Get(t.Context(), id); err != nil || in.State != state {
				t.Errorf("state %s, %v; want %s", in.State, err, state)
			}
		}
		want(provider.StateProvisioning)
		time.Sleep(time.Minute)
		want(provider.StateRunning)
		if err := p.Delete(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		want(provider.StateTerminated)
		time.Sleep(10 * time.Second)
		if _, err := p.Get(t.Context(), id); provider.ClassOf(err) != provider.NotFound {
			t.Errorf("after the delete: %v", err)
		}
	})
}

// A context that ends on the way back loses the reply and not the server.
func TestLatency(t *testing.T) {
	t.Parallel()
	for what, tt := range map[string]struct {
		patience time.Duration
		made     int
		ok       bool
	}{"cut on the way there": {2 * time.Second, 0, false}, "cut on the way back": {7 * time.Second, 1, false}, "in time": {11 * time.Second, 1, true}} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := memory.NewBackend(memory.Options{})
				p := open(t, b, "a")
				b.SetLatency(memory.CallCreateServer, 10*time.Second)
				ctx, cancel := context.WithTimeout(t.Context(), tt.patience)
				defer cancel()
				_, err := p.Create(ctx, request("a", 1))
				if (err == nil) != tt.ok || len(b.Servers()) != tt.made {
					t.Errorf("got %v and %d servers, want success %v and %d", err, len(b.Servers()), tt.ok, tt.made)
				}
			})
		})
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	b := memory.NewBackend(memory.Options{})
	p := open(t, b, "a")
	list := func() error { _, err := p.List(t.Context(), provider.Selector{}); return err }
	b.Inject(memory.Fault{Calls: []memory.Call{memory.CallListServers}, Err: &memory.APIError{Status: 503}, Times: 2})
	for i, want := range []provider.Class{provider.Transient, provider.Transient, ""} {
		if got := provider.ClassOf(list()); got != want {
			t.Errorf("listing %d: %q, want %q", i+1, got, want)
		}
	}
	heal := b.Inject(memory.Fault{Err: memory.ErrReplyLost, AfterCommit: true})
	if err := list(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a lost reply: %v", err)
	}
	heal()
	heal() // twice is once
	if err := list(); err != nil {
		t.Errorf("after healing: %v", err)
	}
	if got := b.Calls(memory.CallListServers); got != 5 || b.TotalCalls() != 5 {
		t.Errorf("%d listings of %d calls counted, want 5", got, b.TotalCalls())
	}
}

func TestAccountLimits(t *testing.T) {
	t.Parallel()
	b := memory.NewBackend(memory.Options{Quota: 1, Credential: "open sesame"})
	cfg := provider.Config{Name: "mem", Installation: "a", Secret: func(context.Context, string) (provider.Sensitive, error) {
		return provider.NewSensitive([]byte("open sesame\n")), nil
	}}
	p, err := memory.New(t.Context(), b, cfg)
	if err != nil {
		t.Fatal(err)
	}
	create(t, p, request("a", 1))
	if _, err := p.Create(t.Context(), request("a", 2)); provider.ClassOf(err) != provider.QuotaExceeded || len(b.Addresses()) != 1 {
		t.Errorf("the second of one: %v, %d addresses", err, len(b.Addresses()))
	}
	if _, err := open(t, b, "a").List(t.Context(), provider.Selector{}); provider.ReasonOf(err) != provider.ReasonUnauthorized {
		t.Errorf("without the credential: %v", err)
	}
	cfg.Secret = func(context.Context, string) (provider.Sensitive, error) {
		return provider.Sensitive{}, errors.New("no such secret")
	}
	if _, err := memory.New(t.Context(), b, cfg); err == nil {
		t.Error("built without its secret")
	}
}

// Two installations share the account and see only their own.
func TestShared(t *testing.T) {
	t.Parallel()
	b := memory.NewBackend(memory.Options{})
	ours, theirs := open(t, b, "ours"), open(t, b, "theirs")
	id := create(t, ours, request("ours", 1))
	create(t, theirs, request("theirs", 1))
	all, err := ours.List(t.Context(), provider.Selector{Installation: "ours"})
	if err != nil || len(all) != 1 || all[0].ID != id {
		t.Errorf("listed %+v, %v", all, err)
	}
	b.Unlist(all[0].Name, true)
	if all, err := ours.List(t.Context(), provider.Selector{Installation: "ours"}); err != nil || len(all) != 0 {
		t.Errorf("an unlisted server is listed: %+v, %v", all, err)
	}
	if _, err := ours.Get(t.Context(), id); err != nil {
		t.Errorf("an unlisted server is not there: %v", err)
	}
}

// A burst on a large account stays cheap and loses nothing.
func TestBurst(t *testing.T) {
	t.Parallel()
	b := memory.NewBackend(memory.Options{PageSize: 500})
	for i := range 5000 {
		b.Place(memory.NewServer{Name: fmt.Sprintf("pet-%d", i)})
	}
	p := open(t, b, "a")
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			if _, err := p.Create(t.Context(), request("a", i)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	all, err := p.List(t.Context(), provider.Selector{Installation: "a"})
	if err != nil || len(all) != 200 {
		t.Errorf("%d listed, %v; want 200", len(all), err)
	}
}

func BenchmarkCreateDelete(b *testing.B) {
	p := open(b, memory.NewBackend(memory.Options{}), "a")
	for i := 0; b.Loop(); i++ {
		id := create(b, p, request("a", i))
		if err := p.Delete(b.Context(), id); err != nil {
			b.Fatal(err)
		}
	}
}
