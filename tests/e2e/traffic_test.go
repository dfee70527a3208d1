//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// targets are what clients want to reach through a proxy.
type targets struct {
	http, https *httptest.Server
	roots       *x509.CertPool
}

func newTargets(t testing.TB) *targets {
	t.Helper()
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s", r.Method, r.URL.Path)
	})
	s := &targets{http: httptest.NewServer(h), https: httptest.NewTLSServer(h), roots: x509.NewCertPool()}
	s.roots.AddCert(s.https.Certificate())
	t.Cleanup(s.http.Close)
	t.Cleanup(s.https.Close)
	return s
}

// reach fetches a page of each target through the proxy, on new connections.
func (s *targets) reach(ctx context.Context, proxy string, user *url.Userinfo) error {
	through := &http.Transport{
		Proxy:           http.ProxyURL(&url.URL{Scheme: "http", Host: proxy, User: user}),
		TLSClientConfig: &tls.Config{RootCAs: s.roots},
	}
	defer through.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for _, base := range []string{s.http.URL, s.https.URL} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/page", nil)
		if err != nil {
			return err
		}
		resp, err := (&http.Client{Transport: through}).Do(req)
		if err != nil {
			return err
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || string(b) != "GET /page" {
			return fmt.Errorf("%s through %s: %s %q: %w", base, proxy, resp.Status, b, err)
		}
	}
	return nil
}

func endpoint(p api.Proxy) string { return fmt.Sprintf("%s:%d", p.Status.IP, p.Status.Port) }

// process is the one proxy process of an instance.
func (w *world) process(p api.Proxy) int {
	w.t.Helper()
	var found []int
	for _, pid := range w.processes() {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && strings.Contains(string(b), p.Status.InstanceName+"\x00") {
			found = append(found, pid)
		}
	}
	if len(found) != 1 {
		w.t.Fatalf("processes of %s: %v, want one", p.Status.InstanceName, found)
	}
	return found[0]
}

// fleet reads the status of the provider's fleet.
func (w *world) fleet() api.Fleet {
	w.t.Helper()
	var f api.Fleet
	w.eventually(30*time.Second, func() string {
		ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Second)
		defer cancel()
		v, err := w.client.QueryWorkflow(ctx, workflows.FleetID("local", 0), "", workflows.QueryStatus)
		if err == nil {
			err = v.Get(&f)
		}
		if err != nil {
			return err.Error()
		}
		return ""
	})
	return f
}

// rounds waits until n more listings and n more probe rounds were made: whoever
// wanted to act on what it sees had the chance to.
func (w *world) rounds(n int) {
	w.t.Helper()
	for range n {
		before := w.fleet().Status
		w.eventually(30*time.Second, func() string {
			now := w.fleet().Status
			if !now.Drift.ListedAt.After(before.Drift.ListedAt) || !now.Probe.At.After(before.Probe.At) {
				return fmt.Sprintf("no round since %s and %s", before.Drift.ListedAt, before.Probe.At)
			}
			return ""
		})
	}
}

// wantListed waits until the discovery API lists exactly these endpoints.
func (w *world) wantListed(limit time.Duration, want map[string]string) {
	w.t.Helper()
	w.eventually(limit, func() string {
		got, err := w.discovered()
		same := err == nil && len(got) == len(want)
		for name, at := range want {
			same = same && got[name] == "http://"+at
		}
		if !same {
			return fmt.Sprintf("discovery lists %v (%v), want %v", got, err, want)
		}
		return ""
	})
}

// wantNothing waits until no trace of any proxy is left.
func (w *world) wantNothing(limit time.Duration) {
	w.t.Helper()
	w.wantInstances(0, limit)
	w.wantListed(limit, nil)
	root := filepath.Join(w.dir, "state", "providers", "local")
	err := filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() && filepath.Base(path) != "allocate.lock" {
			w.t.Errorf("the file %s is left", path)
		}
		return err
	})
	if err != nil {
		w.t.Error(err)
	}
	if out := w.tollgate("proxy", "list").want(w.t, 0); out.stdout != "" || !strings.Contains(out.stderr, "no proxies in namespace default") {
		w.t.Errorf("proxy list says\n%s%s", out.stdout, out.stderr)
	}
}

func pidText(pid int) string { return strconv.Itoa(pid) }

func signalProcess(t testing.TB, pid int, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		t.Fatalf("signal %s to process %d: %v", s, pid, err)
	}
}

// metrics is what the worker's /metrics shows.
func (w *world) metrics() string {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, "http://"+w.metr+"/metrics", nil)
	if err != nil {
		w.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		w.t.Fatalf("metrics: %s %v", resp.Status, err)
	}
	return string(b)
}

// wantMetric waits until /metrics has the line.
func (w *world) wantMetric(line string) {
	w.t.Helper()
	w.eventually(15*time.Second, func() string {
		if !strings.Contains(w.metrics(), line+"\n") {
			return "the metrics lack " + line
		}
		return ""
	})
}
