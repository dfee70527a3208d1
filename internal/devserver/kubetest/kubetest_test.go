//go:build kubernetes

package kubetest_test

import (
	"errors"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/tollgate-dev/tollgate/internal/devserver/kubetest"
)

func TestMain(m *testing.M) { os.Exit(kubetest.Main(m)) }

func client(t *testing.T, cfg *rest.Config) *rest.RESTClient {
	t.Helper()
	cfg.APIPath, cfg.GroupVersion, cfg.NegotiatedSerializer = "/api", &corev1.SchemeGroupVersion, scheme.Codecs.WithoutConversion()
	c, err := rest.RESTClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func create(t *testing.T, c *rest.RESTClient, name string) *corev1.Namespace {
	t.Helper()
	var out corev1.Namespace
	err := c.Post().Resource("namespaces").Body(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}).Do(t.Context()).Into(&out)
	if err != nil {
		t.Fatal(err)
	}
	return &out
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}

func TestSharedIsShared(t *testing.T) {
	t.Parallel()
	a, b := kubetest.Shared(t, kubetest.Kubernetes), kubetest.Shared(t, kubetest.Kubernetes)
	if a != b {
		t.Error("two clusters")
	}
	if info, err := os.Stat(a.Kubeconfig); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("kubeconfig: %v, %v", info.Mode(), err)
	}
}

func TestProxyCuts(t *testing.T) {
	t.Parallel()
	p := kubetest.Shared(t, kubetest.Kubernetes).Proxy(t)
	c := client(t, p.Config(t))
	create(t, c, "proxy-cuts")
	w, err := c.Get().Resource("namespaces").VersionedParams(&metav1.ListOptions{Watch: true}, scheme.ParameterCodec).Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	<-w.ResultChan()
	p.Cut()
	eventually(t, "the watch ends", func() bool {
		select {
		case _, open := <-w.ResultChan():
			return !open
		default:
			return false
		}
	})
	p.SetDown(true)
	var refused *url.Error
	if err := c.Get().Resource("namespaces").MaxRetries(0).Do(t.Context()).Error(); !errors.As(err, &refused) {
		t.Errorf("while it is down: %v", err)
	}
	p.SetDown(false)
	if err := c.Get().Resource("namespaces").Do(t.Context()).Error(); err != nil {
		t.Error(err)
	}
	if p.Cuts() == 0 {
		t.Error("no cut was counted")
	}
}

// What was compacted is gone once the API server forgot it too, and stopping
// keeps the data.
func TestCompactAndRestart(t *testing.T) {
	t.Parallel()
	k := kubetest.Start(t, kubetest.Options{Kind: kubetest.Kubernetes})
	c := client(t, k.Config(t))
	first := create(t, c, "compact-1")
	create(t, c, "compact-2")
	k.Stop(t, kubetest.APIServer)
	k.Compact(t)
	k.Up(t)
	w, err := c.Get().Resource("namespaces").VersionedParams(&metav1.ListOptions{Watch: true, ResourceVersion: first.ResourceVersion}, scheme.ParameterCodec).Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if e := <-w.ResultChan(); !apierrors.IsResourceExpired(apierrors.FromObject(e.Object)) && !apierrors.IsGone(apierrors.FromObject(e.Object)) {
		t.Errorf("the watch from before the compaction begins with %v", e)
	}
	if err := c.Get().Resource("namespaces").Name("compact-2").Do(t.Context()).Error(); err != nil {
		t.Error(err)
	}
}

// A cluster ends with the process that it belongs to.
func TestOwner(t *testing.T) {
	t.Parallel()
	if dir := os.Getenv("KUBETEST_OWNER"); dir != "" {
		k := kubetest.Start(t, kubetest.Options{Kind: kubetest.Kubernetes})
		if err := os.WriteFile(filepath.Join(dir, "cluster"), []byte(k.Dir+"\n"+k.Config(t).Host), 0o600); err != nil {
			t.Fatal(err)
		}
		select {} // until it is killed
	}
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestOwner$")
	cmd.Env = append(os.Environ(), "KUBETEST_OWNER="+dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() { _ = cmd.Wait(); close(exited) }()
	var state []byte
	for deadline := time.Now().Add(2 * time.Minute); len(state) == 0; time.Sleep(50 * time.Millisecond) {
		select {
		case <-exited:
			t.Fatal("the owner ended")
		default:
		}
		if time.Now().After(deadline) {
			_ = cmd.Process.Kill()
			t.Fatal("no cluster")
		}
		state, _ = os.ReadFile(filepath.Join(dir, "cluster"))
	}
	run, host, _ := strings.Cut(string(state), "\n")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-exited
	eventually(t, "the API server ends", func() bool {
		conn, err := net.Dial("tcp", strings.TrimPrefix(host, "https://"))
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	eventually(t, "the run directory is removed", func() bool {
		_, err := os.Stat(run)
		return errors.Is(err, fs.ErrNotExist)
	})
}
