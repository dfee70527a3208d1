package kubernetes

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// programmedConfig is a kubeconfig whose credentials a shell script gives.
func programmedConfig(t *testing.T, server, script string) Options {
	t.Helper()
	dir := t.TempDir()
	program, file := filepath.Join(dir, "give-credentials"), filepath.Join(dir, "kubeconfig")
	for path, text := range map[string]string{
		program: "#!/bin/sh\ncd " + dir + "\n" + script,
		file: fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, insecure-skip-tls-verify: true}}]
users: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: %q, interactiveMode: Never}}}]
contexts: [{name: one, context: {cluster: c, user: u}}]
current-context: one
`, server, program),
	} {
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil { //nolint:gosec // it has to run
			t.Fatal(err)
		}
	}
	return Options{Kubeconfig: file}
}

const execCredential = `echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"'$token'"}}'` + "\n"

// answering is a server of one answer. The client library shows credentials of a
// kubeconfig under TLS only.
func answering(t *testing.T, answer http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(answer)
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // of connections that are cut off
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// certificateOf is a file with the certificate of a server.
func certificateOf(t *testing.T, s *httptest.Server) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func writeStatus(w http.ResponseWriter, code int32, reason metav1.StatusReason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(code))
	_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: typeMeta("Status"), Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message})
}

// A program that does not end holds nobody longer than the deadline, and not
// more and more callers.
func TestProgramThatHangs(t *testing.T) {
	t.Parallel()
	s := newServer(t, true)
	o := programmedConfig(t, s.URL, "while [ ! -e go ]; do sleep 0.02; done\ntoken=t-1\n"+execCredential)
	p := open(t, o, nil)
	var wg sync.WaitGroup
	try := func() {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := p.List(ctx, provider.Selector{})
		// On a busy machine the second is over before a request is begun.
		begun := provider.ReasonOf(err) == provider.ReasonUnauthorized && strings.Contains(err.Error(), "does not end")
		if provider.ClassOf(err) != provider.Transient || !begun && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("while the program runs: %v", err)
		}
	}
	start := time.Now()
	for range 3 * maxAbandoned {
		wg.Go(try)
	}
	wg.Wait()
	try()
	if d := time.Since(start); d > 20*time.Second {
		t.Errorf("it took %v to give up", d)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(o.Kubeconfig), "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); ; {
		err := list0(t, p)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after the program has ended: %v", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// What a program gives, and what it says in place of that, is in no error.
func TestProgramSecrets(t *testing.T) {
	t.Parallel()
	echo := answering(t, func(w http.ResponseWriter, r *http.Request) {
		writeStatus(w, 500, metav1.StatusReasonInternalError, "you have sent "+r.Header.Get("Authorization"))
	})
	for name, tc := range map[string]struct{ script, want string }{
		"repeated by the server": {"token=hush-hush\n" + execCredential, "you have sent Bearer [redacted]"},
		"no JSON":                {"echo hush-hush\n", "gives no credentials: want an ExecCredential"},
		"wrong JSON":             {`echo '{"status":"hush-hush"}'` + "\n", "gives no credentials: want an ExecCredential"},
		"no token":               {`echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{}}'` + "\n", "gives no credentials"},
		"it fails":               {"echo hush-hush\nexit 3\n", "failed with exit code 3"},
	} {
		err := list0(t, open(t, programmedConfig(t, echo.URL, tc.script), nil))
		if provider.ClassOf(err) != provider.Transient || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", name, err)
		}
		if name != "repeated by the server" && provider.ReasonOf(err) != provider.ReasonUnauthorized {
			t.Errorf("%s: reason %q", name, provider.ReasonOf(err))
		}
	}
}

// Credentials that end while nobody looks are read anew, and nobody hears of it.
func TestEndedCredentialsAreReadAnew(t *testing.T) {
	t.Parallel()
	var valid atomic.Value
	valid.Store("Bearer t-1")
	var asked atomic.Int32
	s := answering(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.Header.Get("Authorization") != valid.Load() {
			writeStatus(w, 401, metav1.StatusReasonUnauthorized, "Unauthorized")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"PodList","metadata":{"resourceVersion":"1"}}`)
	})
	dir := t.TempDir()
	tokenFile := filepath.Join(dir, "token")
	write := func(token string) {
		if err := os.WriteFile(tokenFile, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("t-1")
	byFile := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(byFile, []byte(fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, insecure-skip-tls-verify: true}}]
users: [{name: u, user: {tokenFile: %q}}]
contexts: [{name: one, context: {cluster: c, user: u}}]
current-context: one
`, s.URL, tokenFile)), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]*Provider{
		"a token file": open(t, Options{Kubeconfig: byFile}, nil),
		"a program":    open(t, programmedConfig(t, s.URL, "token=$(cat "+tokenFile+")\n"+execCredential), nil),
	} {
		valid.Store("Bearer t-1")
		write("t-1")
		if err := list0(t, p); err != nil {
			t.Errorf("%s: at first: %v", name, err)
		}
		valid.Store("Bearer t-2")
		write("t-2")
		if err := list0(t, p); err != nil {
			t.Errorf("%s: after it was changed: %v", name, err)
		}
		before := asked.Load()
		valid.Store("Bearer t-3")
		if err := list0(t, p); provider.ClassOf(err) != provider.Permanent || provider.ReasonOf(err) != provider.ReasonUnauthorized {
			t.Errorf("%s: without a new one: %v", name, err)
		}
		if n := asked.Load() - before; n != 2 {
			t.Errorf("%s: %d requests with what has ended, want 2", name, n)
		}
	}
}

// A gateway's log-in page is no API server's answer, and gets no credentials.
func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	var visited atomic.Int32
	page := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		visited.Add(1)
		_, _ = io.WriteString(w, `{"kind":"Status","status":"Success"}`)
	})
	s := answering(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, page.URL+"/login", http.StatusFound) })
	p := open(t, Options{Server: s.URL, Token: "t", CAFile: certificateOf(t, s)}, func(c *provider.Config) {
		c.Secret = func(context.Context, string) (provider.Sensitive, error) {
			return provider.NewSensitive([]byte("one")), nil
		}
	})
	id := provider.InstanceID("kubernetes/egress/proxy-a/0d0e-1/none")
	for what, err := range map[string]error{"list": list0(t, p), "delete": p.Delete(t.Context(), id)} {
		if provider.ClassOf(err) != provider.Transient || !strings.Contains(err.Error(), "status 302") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if n := visited.Load(); n != 0 {
		t.Errorf("the page was visited %d times", n)
	}
}

// A file with certificates is read again when it changes, like the kubeconfig
// that names it.
func TestRotatedCertificates(t *testing.T) {
	t.Parallel()
	s := newServer(t, true)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	s.kubeconfig(t, file, "a-token")
	ca := filepath.Join(filepath.Dir(file), "ca.pem")
	right, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(ca, strangeCertificate(t), 0o600); err != nil {
		t.Fatal(err)
	}
	p := open(t, Options{Kubeconfig: file, Context: "one"}, nil)
	if err := list0(t, p); provider.ClassOf(err) != provider.Transient || !strings.Contains(err.Error(), "x509") {
		t.Errorf("with another's certificate: %v", err)
	}
	if err := os.WriteFile(ca, right, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := list0(t, p); err != nil {
		t.Errorf("with the right one: %v", err)
	}
}

func strangeCertificate(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// How late a Pod is goes by the clock that has written its times.
func TestOverdueByTheServersClock(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		ahead time.Duration // the server's clock
		late  time.Duration
		force bool
	}{
		"a server that is behind, in time": {-time.Hour, -10 * time.Second, false},
		"a server that is behind, late":    {-time.Hour, 2 * time.Minute, true},
		"a server that is ahead, in time":  {time.Hour, -10 * time.Second, false},
		"a server that is ahead, late":     {time.Hour, 2 * time.Minute, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			forced := false
			s := answering(t, func(w http.ResponseWriter, r *http.Request) {
				var opts metav1.DeleteOptions
				_ = json.NewDecoder(r.Body).Decode(&opts)
				forced = forced || opts.GracePeriodSeconds != nil && *opts.GracePeriodSeconds == 0
				now := time.Now().Add(tc.ahead)
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("Date", now.UTC().Format(http.TimeFormat))
				_ = json.NewEncoder(w).Encode(corev1.Pod{TypeMeta: typeMeta(kindPod), ObjectMeta: metav1.ObjectMeta{
					Name: "proxy-a", UID: "0d0e-1", DeletionTimestamp: ptr(metav1.NewTime(now.Add(-tc.late)))}})
			})
			p := open(t, Options{Server: s.URL, Token: "t", CAFile: certificateOf(t, s), ForceDeleteAfter: time.Minute}, func(c *provider.Config) {
				c.Secret = func(context.Context, string) (provider.Sensitive, error) {
					return provider.NewSensitive([]byte("one")), nil
				}
			})
			if err := p.Delete(t.Context(), "kubernetes/egress/proxy-a/0d0e-1/none"); err != nil {
				t.Fatal(err)
			}
			if forced != tc.force {
				t.Errorf("forced: %t, want %t", forced, tc.force)
			}
		})
	}
}

// Credentials in the address of a server are shown nowhere.
func TestServerWithCredentials(t *testing.T) {
	t.Parallel()
	s := newServer(t, false)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	host := strings.TrimPrefix(s.URL, "http://")
	if err := os.WriteFile(file, []byte(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://anna:hush-hush@`+host+`"}}]
contexts: [{name: one, context: {cluster: c}}]
current-context: one
`), 0o600); err != nil {
		t.Fatal(err)
	}
	st := open(t, Options{Kubeconfig: file}, nil).Check(t.Context())[0]
	if text := fmt.Sprint(st); strings.Contains(text, "hush") || !strings.Contains(st.Details["server"], host) {
		t.Errorf("the check says %s", text)
	}
}

// Requests that wait for a program that nobody waits for any more are few.
func TestAbandonedRequestsAreFew(t *testing.T) {
	t.Parallel()
	begun, free := make(chan struct{}, 100), make(chan struct{})
	w := &programmed{program: "x", base: roundTrip(func(*http.Request) (*http.Response, error) {
		begun <- struct{}{}
		<-free
		return nil, errors.New("too late")
	})}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	var wg sync.WaitGroup
	for range maxAbandoned {
		wg.Go(func() {
			_, err := w.RoundTrip(httptest.NewRequestWithContext(gone, http.MethodGet, "/", nil))
			var access *errAccess
			if !errors.As(err, &access) || !errors.Is(err, context.Canceled) {
				t.Errorf("a request that was left: %v", err)
			}
		})
	}
	wg.Wait()
	if _, err := w.RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)); err == nil || !strings.Contains(err.Error(), "does not end") {
		t.Errorf("one more: %v", err)
	}
	if n := len(begun); n != maxAbandoned {
		t.Errorf("%d requests were begun, want %d", n, maxAbandoned)
	}
	close(free)
}
