package gardener_test

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tollgate-dev/tollgate/internal/gardener"
	"github.com/tollgate-dev/tollgate/internal/gardener/gardenersim"
	"github.com/tollgate-dev/tollgate/internal/gardener/gardenertest"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
	source_gardener "github.com/tollgate-dev/tollgate/internal/source/gardener"
	"github.com/tollgate-dev/tollgate/internal/source/sourcetest"
)

const (
	pageSize = 5
	// acme is the namespace of the project of that name.
	acme, nobodys = "garden-k7x2p", "garden-acme"
)

// platform is a simulated Gardener that misbehaves on demand towards the source,
// which is the one that shows a credential.
type platform struct {
	*gardenersim.Sim
	gardenertest.Cluster
	url string
	ca  []byte

	mu     sync.Mutex
	skew   time.Duration
	reads  int
	fault  func(w http.ResponseWriter, r *http.Request) bool
	during func()
	// n is how many shoots were made, shown how many of them when the source asked
	// for something last.
	n, shown int
}

func newPlatform(tb testing.TB) *platform {
	tb.Helper()
	p := &platform{Sim: gardenersim.New(map[string]string{"acme": acme})}
	p.Sim.Now = func() time.Time {
		p.mu.Lock()
		defer p.mu.Unlock()
		return time.Now().Add(p.skew)
	}
	p.Bare(nobodys)
	// Credentials are shown over TLS only.
	srv := httptest.NewTLSServer(p)
	tb.Cleanup(func() { p.Sim.Close(); srv.Close() })
	p.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	c, err := gardener.NewClient(&rest.Config{Host: srv.URL, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: p.ca}})
	if err != nil {
		tb.Fatal(err)
	}
	p.Cluster, p.url = gardenertest.Cluster{Client: c, Now: p.Sim.Now}, srv.URL
	return p
}

// ServeHTTP implements http.Handler.
func (p *platform) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") == "" {
		p.Sim.ServeHTTP(w, r)
		return
	}
	p.mu.Lock()
	p.reads++
	p.shown = p.n
	fault, during := p.fault, p.during
	p.during = nil
	p.mu.Unlock()
	if fault == nil || !fault(w, r) {
		p.Sim.ServeHTTP(w, r)
	}
	if during != nil {
		during()
	}
}

func (p *platform) kubeconfig(token string) []byte {
	return fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: x, clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}],
		contexts: [{name: x, context: {cluster: c, user: u}}], users: [{name: u, user: {token: %q}}]}`, p.url, base64.StdEncoding.EncodeToString(p.ca), token)
}

// source opens the source over the platform.
func (p *platform) source(tb testing.TB, cfg source.Config) *source_gardener.Source {
	tb.Helper()
	if cfg.Secret == nil {
		cfg.Secret = func(context.Context, string) (provider.Sensitive, error) {
			return provider.NewSensitive(p.kubeconfig("test")), nil
		}
	}
	if cfg.Account == "" {
		cfg.Account = sourcetest.Account
	}
	if cfg.Name == "" {
		cfg.Name = "garden"
	}
	cfg.Decode = func(into any) error {
		o := into.(*source_gardener.Options)
		o.Kubeconfig, o.Wait, o.QPS = "kubeconfig", 5*time.Millisecond, 5000
		return nil
	}
	s, err := source_gardener.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	s.Small(pageSize, 3, time.Millisecond)
	return s
}

func harness() sourcetest.Harness {
	return sourcetest.Harness{
		Type:       source_gardener.Type(),
		NewBackend: func(tb testing.TB) sourcetest.Backend { return newPlatform(tb) },
		Open: func(tb testing.TB, b sourcetest.Backend, o sourcetest.OpenOptions) source.Source {
			p := b.(*platform)
			return p.source(tb, source.Config{Name: o.Name, Logger: o.Logger,
				Secret: func(context.Context, string) (provider.Sensitive, error) {
					return provider.NewSensitive(p.kubeconfig(string(o.Credential.Reveal()))), nil
				}})
		},
		Hooks: []sourcetest.Hook{
			sourcetest.HookBegin, sourcetest.HookLose, sourcetest.HookDuring, sourcetest.HookForget, sourcetest.HookFail, sourcetest.HookHang,
			sourcetest.HookSkew, sourcetest.HookRepeat, sourcetest.HookPoison, sourcetest.HookList, sourcetest.HookSpoil,
		},
	}
}

func TestContract(t *testing.T) { sourcetest.Run(t, harness()) }

func (p *platform) shoot(namespace string) *corev1beta1.Shoot {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n++
	return gardenertest.Shoot(namespace, name(p.n))
}

func name(n int) string { return fmt.Sprintf("shoot-%03d", n) }

func eventID(s *corev1beta1.Shoot, change string) string {
	return event.ID(event.Gardener, gardener.Account(sourcetest.Account, "acme"), gardener.Resource(s), change)
}

// Change implements sourcetest.Backend.
func (p *platform) Change(tb testing.TB) []string {
	return []string{eventID(p.Created(tb, p.shoot(acme)), event.ChangeCreate)}
}

// PageSize implements sourcetest.Backend.
func (p *platform) PageSize(testing.TB) int { return pageSize }

// Begin implements sourcetest.Starter.
func (p *platform) Begin(tb testing.TB) func() []string {
	s := p.Make(tb, p.shoot(acme))
	p.Operation(tb, s, corev1beta1.LastOperationTypeCreate, corev1beta1.LastOperationStateProcessing)
	return func() []string {
		s := p.Operation(tb, s, corev1beta1.LastOperationTypeCreate, corev1beta1.LastOperationStateSucceeded)
		return []string{eventID(s, event.ChangeCreate)}
	}
}

// Lose implements sourcetest.Loser.
func (p *platform) Lose(testing.TB) {
	p.Vanish(func(s *corev1beta1.Shoot) bool { return !gardener.Created(s) })
}

// During implements sourcetest.Interposer.
func (p *platform) During(_ testing.TB, f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.during = f
}

// Forget implements sourcetest.Forgetter: what nobody has seen was made and
// deleted, and the API server no longer has that time.
func (p *platform) Forget(testing.TB) {
	p.mu.Lock()
	shown := p.shown
	p.mu.Unlock()
	p.Vanish(func(s *corev1beta1.Shoot) bool { return s.Name > name(shown) })
}

// Repeat implements sourcetest.Repeater.
func (p *platform) Repeat(testing.TB) { p.SetRepeat(true) }

// Poison implements sourcetest.Poisoner: a shoot that is in no project.
func (p *platform) Poison(tb testing.TB) { p.Created(tb, p.shoot(nobodys)) }

// Skew implements sourcetest.Skewer.
func (p *platform) Skew(_ testing.TB, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.skew = d
}

// later moves the platform's clock on.
func (p *platform) later(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.skew += d
}

// Fail implements sourcetest.Faulter.
func (p *platform) Fail(_ testing.TB, kind sourcetest.FaultKind, read int, echo string) func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := p.reads + read
	p.fault = func(w http.ResponseWriter, r *http.Request) bool {
		p.mu.Lock()
		early := p.reads < first
		p.mu.Unlock()
		if early {
			return false
		}
		breakDown(w, r, kind, echo)
		return true
	}
	return p.heal
}

func (p *platform) heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = nil
}

func breakDown(w http.ResponseWriter, _ *http.Request, kind sourcetest.FaultKind, echo string) {
	code, reason := http.StatusInternalServerError, metav1.StatusReasonInternalError
	switch kind {
	case sourcetest.FaultUnauthorized:
		code, reason = http.StatusUnauthorized, metav1.StatusReasonUnauthorized
	case sourcetest.FaultThrottled:
		code, reason = http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests
	case sourcetest.FaultTruncated:
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte(`{"kind":"ShootList","apiVersion":"core.gardener.cloud/v1beta1","items":[{"meta`)) // the rest never comes
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q,"message":%q}`, code, reason, "no: "+echo)
}

// Hang implements sourcetest.Hanger.
func (p *platform) Hang(testing.TB) func() {
	released := make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = func(_ http.ResponseWriter, r *http.Request) bool {
		select {
		case <-released:
		case <-r.Context().Done():
		}
		return false
	}
	return func() { p.heal(); close(released) }
}

// Exists implements sourcetest.Keeper.
func (p *platform) Exists(testing.TB) (ids []string) {
	for _, s := range p.Sim.Shoots() {
		if !strings.HasPrefix(s.Namespace, nobodys) {
			ids = append(ids, gardener.UID(s))
		}
	}
	return ids
}

// Remove implements sourcetest.Keeper.
func (p *platform) Remove(tb testing.TB) { p.Deleted(tb, p.Sim.Shoots()[0]) }

// Spoil implements sourcetest.Spoiler.
func (p *platform) Spoil(testing.TB) { p.Sim.Spoil(p.Sim.Shoots()[0]) }
