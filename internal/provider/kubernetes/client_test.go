package kubernetes

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// server answers every request with an empty list, and keeps what it was asked.
type server struct {
	*httptest.Server
	mu   sync.Mutex
	seen []http.Header
}

func newServer(t *testing.T, tls bool) *server {
	t.Helper()
	s := &server{}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.seen = append(s.seen, r.Header.Clone())
		s.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(corev1.PodList{TypeMeta: typeMeta(kindPodList), ListMeta: metav1.ListMeta{ResourceVersion: "1"}})
	})
	if tls {
		s.Server = httptest.NewTLSServer(handler)
	} else {
		s.Server = httptest.NewServer(handler)
	}
	t.Cleanup(s.Close)
	return s
}

// credentials are those that were shown so far.
func (s *server) credentials() (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.seen {
		out = append(out, h.Get("Authorization"))
	}
	return out
}

func (s *server) kubeconfig(t *testing.T, file, token string) {
	t.Helper()
	ca := ""
	if cert := s.Certificate(); cert != nil {
		path := filepath.Join(filepath.Dir(file), "ca.pem")
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}), 0o600); err != nil {
			t.Fatal(err)
		}
		ca = ", certificate-authority: ca.pem"
	}
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q%s}}]
users: [{name: u, user: {token: %s}}, {name: other, user: {token: other-token}}]
contexts: [{name: one, context: {cluster: c, user: u}}, {name: two, context: {cluster: c, user: other}}]
current-context: one
`, s.URL, ca, token)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, o Options, change func(*provider.Config)) *Provider {
	t.Helper()
	o.Namespace = "egress"
	cfg := provider.Config{Name: "cluster", Installation: "acme", Decode: func(into any) error { *into.(*Options) = o; return nil }}
	if change != nil {
		change(&cfg)
	}
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func list0(t *testing.T, p *Provider) error {
	t.Helper()
	_, err := p.List(t.Context(), provider.Selector{})
	return err
}

func TestKubeconfig(t *testing.T) {
	t.Parallel()
	s := newServer(t, true)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	p := open(t, Options{Kubeconfig: file, Context: "one"}, nil)
	// Missing at the start, it is waited for.
	err := list0(t, p)
	if provider.ClassOf(err) != provider.Transient || provider.ReasonOf(err) != provider.ReasonUnauthorized {
		t.Errorf("without the file: %v", err)
	}
	if st := p.Check(t.Context())[0]; st.Ready || st.Reason != provider.ReasonUnauthorized || !strings.Contains(st.Message, "kubeconfig: ") {
		t.Errorf("the check without the file: %+v", st)
	}
	s.kubeconfig(t, file, "first-token")
	if err := list0(t, p); err != nil {
		t.Fatal(err)
	}
	s.kubeconfig(t, file, "another-token") // of another length, so that the file differs on any clock
	if err := list0(t, p); err != nil {
		t.Fatal(err)
	}
	if err := list0(t, open(t, Options{Kubeconfig: file, Context: "two"}, nil)); err != nil {
		t.Fatal(err)
	}
	if got, want := s.credentials(), []string{"Bearer first-token", "Bearer another-token", "Bearer other-token"}; !slices.Equal(got, want) {
		t.Errorf("credentials %q, want %q", got, want)
	}
	// The current context is whatever somebody has worked with last.
	err = list0(t, open(t, Options{Kubeconfig: file}, nil))
	if provider.ReasonOf(err) != provider.ReasonUnauthorized || !strings.Contains(err.Error(), "context: is required") || !strings.Contains(err.Error(), "want one of one, two") {
		t.Errorf("several contexts and none chosen: %v", err)
	}
	for what, change := range map[string]func() Options{
		"context": func() Options { return Options{Kubeconfig: file, Context: "three"} },
		"text": func() Options {
			if err := os.WriteFile(file, []byte("token: first-token\n\tnonsense"), 0o600); err != nil {
				t.Fatal(err)
			}
			return Options{Kubeconfig: file}
		},
	} {
		err := list0(t, open(t, change(), nil))
		if provider.ReasonOf(err) != provider.ReasonUnauthorized || !strings.Contains(err.Error(), "is not usable") || strings.Contains(err.Error(), "first-token") {
			t.Errorf("a kubeconfig with a wrong %s: %v", what, err)
		}
	}
}

func TestUnverifiedServerIsWarnedOf(t *testing.T) {
	t.Parallel()
	s := newServer(t, true)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	s.kubeconfig(t, file, "a-token")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text = []byte(strings.Replace(string(text), "certificate-authority: ca.pem", "insecure-skip-tls-verify: true", 1))
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	p := open(t, Options{Kubeconfig: file, Context: "one"}, func(c *provider.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	for range 2 {
		if err := list0(t, p); err != nil {
			t.Error(err)
		}
	}
	if strings.Count(log.String(), "level=WARN msg=\"the certificate of the API server is not verified\"") != 1 {
		t.Errorf("the log is %q", log.String())
	}
}

// The account of the Pod is used in a cluster, and none outside.
func TestInCluster(t *testing.T) {
	t.Setenv(envInCluster, "127.0.0.1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "1")
	err := list0(t, open(t, Options{}, nil))
	if provider.ReasonOf(err) != provider.ReasonUnauthorized || !strings.Contains(err.Error(), "service account: ") {
		t.Errorf("without a token of a Pod: %v", err)
	}
}

func TestTokenIsReadForEachRequest(t *testing.T) {
	t.Parallel()
	s := newServer(t, false)
	token := "one\n"
	var fail error
	p := open(t, Options{Server: s.URL, Token: "the-secret"}, func(c *provider.Config) {
		c.Secret = func(_ context.Context, name string) (provider.Sensitive, error) {
			if name != "the-secret" {
				t.Errorf("asked for %q", name)
			}
			return provider.NewSensitive([]byte(token)), fail
		}
	})
	for _, token = range []string{"one\n", " two "} {
		if err := list0(t, p); err != nil {
			t.Error(err)
		}
	}
	if got, want := s.credentials(), []string{"Bearer one", "Bearer two"}; !slices.Equal(got, want) {
		t.Errorf("credentials %q, want %q", got, want)
	}
	for _, token = range []string{"", "a b", "a\x00b"} {
		if err := list0(t, p); provider.ReasonOf(err) != provider.ReasonUnauthorized || !strings.Contains(err.Error(), `"the-secret" holds no token`) {
			t.Errorf("token %q: %v", token, err)
		}
	}
	token, fail = "one", errors.New("no such file")
	if err := list0(t, p); provider.ClassOf(err) != provider.Transient || provider.ReasonOf(err) != provider.ReasonUnauthorized {
		t.Errorf("a secret that cannot be read: %v", err)
	}
}

// The request budget counts each request once, below the credentials, by which
// it tells accounts apart, and what it refuses was never sent.
func TestBudget(t *testing.T) {
	t.Parallel()
	s := newServer(t, false)
	var counted []string
	refuse := false
	p := open(t, Options{Server: s.URL, Token: "the-secret"}, func(c *provider.Config) {
		c.Secret = func(context.Context, string) (provider.Sensitive, error) {
			return provider.NewSensitive([]byte("one")), nil
		}
		c.Transport = func(base http.RoundTripper, account string) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				counted = append(counted, account+r.Header.Get("Authorization"))
				if refuse {
					return nil, provider.WithRetryAfter(provider.WithReason(provider.Wrap(provider.RateLimited, provider.OpList, "", "", errors.New("used up")), provider.ReasonThrottled), time.Minute)
				}
				return base.RoundTrip(r)
			})
		}
	})
	if err := list0(t, p); err != nil {
		t.Fatal(err)
	}
	refuse = true
	err := list0(t, p)
	if !provider.NotSent(err) || provider.ClassOf(err) != provider.RateLimited || provider.RetryAfterOf(err) != time.Minute {
		t.Errorf("refused by the budget: %v", err)
	}
	if want := []string{"Bearer one", "Bearer one"}; !slices.Equal(counted, want) || len(s.credentials()) != 1 {
		t.Errorf("counted %q, want %q; %d arrived", counted, want, len(s.credentials()))
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Answers that are well-formed and not what was asked for.
func TestNonsense(t *testing.T) {
	t.Parallel()
	var body string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	p := open(t, Options{Server: s.URL, Token: "t"}, func(c *provider.Config) {
		c.Secret = func(context.Context, string) (provider.Sensitive, error) {
			return provider.NewSensitive([]byte("one")), nil
		}
	})
	id, alone := provider.InstanceID("kubernetes/egress/proxy-a/0d0e-1/s"), provider.InstanceID("kubernetes/egress/proxy-a/0d0e-1/none")
	for _, body = range []string{
		``, `{}`, `null`, `[]`, `"x"`, `{"kind":"Status","status":"Success"}`, `{"kind":"Pod"}`, `{"kind":"Pod","metadata":{"name":"proxy-b","uid":"1"}}`,
		`{"kind":"PodList","items":[]}`, `{"kind":"PodList","metadata":{"resourceVersion":"1"},"items":[{}]}`, `{"kind":"Pod","metadata":{"name":7}}`, `{"kind":"Pod"`,
	} {
		in, err := p.Get(t.Context(), id)
		if provider.ClassOf(err) != provider.Transient || in != (provider.Instance{}) {
			t.Errorf("get answered with %q: %+v, %v", body, in, err)
		}
		all, err := p.List(t.Context(), provider.Selector{})
		if provider.ClassOf(err) != provider.Transient || len(all) > 0 {
			t.Errorf("list answered with %q: %v, %v", body, all, err)
		}
		if err := p.Delete(t.Context(), id); err == nil {
			t.Errorf("delete answered with %q succeeded", body)
		}
		if err := p.Delete(t.Context(), alone); err == nil && !strings.Contains(body, `"Success"`) {
			t.Errorf("delete without parts answered with %q succeeded", body)
		}
	}
}

// A wait is in seconds, or a moment as gateways say it, and has an end.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	var header string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", header)
		http.Error(w, "no", http.StatusTooManyRequests)
	}))
	t.Cleanup(s.Close)
	p := open(t, Options{Server: s.URL, Token: "t"}, func(c *provider.Config) {
		c.Secret = func(context.Context, string) (provider.Sensitive, error) {
			return provider.NewSensitive([]byte("one")), nil
		}
	})
	for _, tc := range []struct {
		header      string
		least, most time.Duration
	}{
		{"7", 7 * time.Second, 7 * time.Second}, {"-7", 0, 0}, {"soon", 0, 0}, {"86400", time.Hour, time.Hour}, {"99999999999", time.Hour, time.Hour},
		{time.Now().Add(30 * time.Minute).UTC().Format(http.TimeFormat), 20 * time.Minute, 30 * time.Minute},
		{time.Now().Add(-time.Minute).UTC().Format(http.TimeFormat), 0, 0},
	} {
		header = tc.header
		err := list0(t, p)
		if d := provider.RetryAfterOf(err); d < tc.least || d > tc.most || provider.ClassOf(err) != provider.RateLimited {
			t.Errorf("Retry-After %q: %v after %v", tc.header, err, d)
		}
	}
}
