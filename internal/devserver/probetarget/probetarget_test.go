package probetarget_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/devserver/probetarget"
)

func start(t *testing.T, dir string) *probetarget.Target {
	t.Helper()
	target, err := probetarget.Start(dir, "127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		target.Close(ctx)
	})
	return target
}

// client trusts the CA in the file and nobody else.
func client(t *testing.T, caFile string) *http.Client {
	t.Helper()
	ca, err := os.ReadFile(caFile)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		t.Fatalf("%s holds no certificate", caFile)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 10 * time.Second}
}

func TestVerifiedRequest(t *testing.T) {
	t.Parallel()
	target := start(t, filepath.Join(t.TempDir(), "probe"))
	res, err := client(t, target.CAFile()).Get("https://" + target.Addr() + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != http.StatusOK || string(body) != probetarget.Body {
		t.Errorf("got %s with %q", res.Status, body)
	}
}

func TestAnotherCAIsNotTrusted(t *testing.T) {
	t.Parallel()
	target, stranger := start(t, t.TempDir()), start(t, t.TempDir())
	res, err := client(t, stranger.CAFile()).Get("https://" + target.Addr() + "/")
	if err == nil {
		_ = res.Body.Close()
		t.Fatal("a target with another CA was trusted")
	}
	if !strings.Contains(err.Error(), "certificate") {
		t.Errorf("got error %v", err)
	}
}

func TestCAStaysOverRestarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := start(t, dir)
	before, err := os.ReadFile(first.CAFile())
	if err != nil {
		t.Fatal(err)
	}
	first.Close(t.Context())
	second := start(t, dir)
	after, err := os.ReadFile(second.CAFile())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(before, after) {
		t.Error("the CA has changed")
	}
}

func TestKeyIsPrivate(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "probe")
	start(t, dir)
	for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, "ca-key.pem"): 0o600} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", path, got, want)
		}
	}
}

func TestUnfinishedCAIsMadeAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := start(t, dir)
	first.Close(t.Context())
	if err := os.Remove(first.CAFile()); err != nil {
		t.Fatal(err)
	}
	start(t, dir)
}

func TestDamagedCAIsAnError(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start(t, dir).Close(t.Context())
	if err := os.WriteFile(probetarget.CAFile(dir), []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := probetarget.Start(dir, "127.0.0.1:0", nil)
	if err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("got error %v, want one that names %s", err, dir)
	}
}

func TestPortInUse(t *testing.T) {
	t.Parallel()
	first := start(t, t.TempDir())
	if _, err := probetarget.Start(t.TempDir(), first.Addr(), nil); err == nil {
		t.Error("two targets on one address")
	}
}
