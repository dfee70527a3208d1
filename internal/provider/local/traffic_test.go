package local

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// through is a client that uses the instance as its proxy. Every request dials
// anew.
func through(ip netip.Addr, user *url.Userinfo, roots *x509.CertPool) *http.Client {
	proxy := &url.URL{Scheme: "http", Host: fmt.Sprintf("%s:%d", ip, testPort), User: user}
	return &http.Client{
		Timeout: 10 * time.Second,
		Transport: &http.Transport{
			Proxy: http.ProxyURL(proxy), DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots},
		},
	}
}

// fetchThrough fetches from an http and an https target n times each.
func fetchThrough(t *testing.T, ip netip.Addr, user *url.Userinfo, n int) error {
	t.Helper()
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Proxy-Authorization") != "" {
			http.Error(w, "the proxy handed on its credentials", http.StatusTeapot)
			return
		}
		_, _ = io.WriteString(w, "hello from "+r.Host)
	})
	plain, secure := httptest.NewServer(h), httptest.NewTLSServer(h)
	defer plain.Close()
	defer secure.Close()
	roots := x509.NewCertPool()
	roots.AddCert(secure.Certificate())
	client := through(ip, user, roots)
	for range n {
		for _, target := range []string{plain.URL, secure.URL} {
			resp, err := client.Get(target)
			if err != nil {
				return err
			}
			body, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if want := "hello from " + strings.SplitN(target, "//", 2)[1]; err != nil || resp.StatusCode != http.StatusOK || string(body) != want {
				return fmt.Errorf("%s: %s %q, %w", target, resp.Status, body, err)
			}
		}
	}
	return nil
}

func TestTraffic(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.open()
	in := f.running(p, f.create(p, request()))
	if err := fetchThrough(t, in.IP, nil, 2); err != nil {
		t.Error(err)
	}
}

func TestTrafficWithCredentials(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.open()
	req := request()
	req.Auth = &provider.BasicAuth{Username: "alice", Password: provider.NewSensitive([]byte("pass:word-sentinel"))}
	in := f.running(p, f.create(p, req))
	if err := fetchThrough(t, in.IP, url.UserPassword("alice", "pass:word-sentinel"), 2); err != nil {
		t.Error(err)
	}
	target := httptest.NewServer(http.NotFoundHandler())
	defer target.Close()
	for name, user := range map[string]*url.Userinfo{
		"none": nil, "wrong password": url.UserPassword("alice", "pass"), "wrong user": url.UserPassword("bob", "pass:word-sentinel"),
	} {
		resp, err := through(in.IP, user, nil).Get(target.URL)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusProxyAuthRequired || !strings.HasPrefix(resp.Header.Get("Proxy-Authenticate"), "Basic ") {
			t.Errorf("%s: %s with %q, want 407 and a challenge", name, resp.Status, resp.Header.Get("Proxy-Authenticate"))
		}
		if err := fetchTLS(in.IP, user, target.URL); err == nil || !strings.Contains(err.Error(), "Proxy Authentication Required") {
			t.Errorf("%s: CONNECT: %v, want a refusal for want of credentials", name, err)
		}
	}
	// Neither the files nor the command line hold the password.
	for _, name := range files(t, f.dir) {
		if b := read(t, f.dir+"/"+name); strings.Contains(b, "word-sentinel") {
			t.Errorf("%s holds the password", name)
		}
	}
	if b := read(t, fmt.Sprintf("/proc/%d/cmdline", f.pid(req.Name))); strings.Contains(b, "sentinel") {
		t.Error("the command line holds the password")
	}
}

// fetchTLS makes a CONNECT to the target, which need not speak TLS.
func fetchTLS(ip netip.Addr, user *url.Userinfo, target string) error {
	resp, err := through(ip, user, nil).Get("https" + strings.TrimPrefix(target, "http"))
	if err == nil {
		_ = resp.Body.Close()
	}
	return err
}

func TestTrafficToPortsThatAreNotAllowed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.open(func(o *Options) { o.AllowPorts = []int{443} })
	in := f.running(p, f.create(p, request()))
	target := httptest.NewServer(http.NotFoundHandler())
	defer target.Close()
	resp, err := through(in.IP, nil, nil).Get(target.URL)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("%s, want 403", resp.Status)
	}
	if err := fetchTLS(in.IP, nil, target.URL); err == nil || !strings.Contains(err.Error(), "Forbidden") {
		t.Errorf("CONNECT: %v, want Forbidden", err)
	}
}
