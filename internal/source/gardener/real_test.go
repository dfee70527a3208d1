//go:build gardener

package gardener_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/tollgate-dev/tollgate/internal/devserver/kubetest"
	"github.com/tollgate-dev/tollgate/internal/gardener"
	"github.com/tollgate-dev/tollgate/internal/gardener/gardenertest"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
	source_gardener "github.com/tollgate-dev/tollgate/internal/source/gardener"
)

func TestMain(m *testing.M) { os.Exit(kubetest.Main(m)) }

// real is a project of its own at the real API servers.
type real struct {
	gardenertest.Cluster
	k                  *kubetest.Cluster
	project, namespace string
	cfg                *rest.Config // of the source
}

var projects struct {
	sync.Mutex
	n int
}

func newReal(t *testing.T, k *kubetest.Cluster) *real {
	t.Helper()
	c, err := gardener.NewClient(k.Config(t))
	if err != nil {
		t.Fatal(err)
	}
	projects.Lock()
	projects.n++
	name := fmt.Sprintf("p%d", projects.n)
	projects.Unlock()
	r := &real{gardenertest.Cluster{Client: c}, k, name, "garden-of-" + name + "-k7x", k.Config(t)}
	r.Project(t, r.project, r.namespace, nil)
	return r
}

// receiver reads the shoots of the project.
func (r *real) receiver(t *testing.T, asked bool) *receiver {
	t.Helper()
	kubeconfig := asKubeconfig(t, r.cfg)
	return newReceiver(t, asked, func(cfg source.Config) *source_gardener.Source {
		cfg.Name, cfg.Account = "garden", "dev"
		cfg.Secret = func(context.Context, string) (provider.Sensitive, error) {
			return provider.NewSensitive(kubeconfig), nil
		}
		cfg.Decode = func(into any) error {
			o := into.(*source_gardener.Options)
			o.Kubeconfig, o.Namespace, o.Wait, o.QPS = "kubeconfig", r.namespace, time.Second, 1000
			return nil
		}
		s, err := source_gardener.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

// asKubeconfig writes a client's configuration as a file has it.
func asKubeconfig(t *testing.T, cfg *rest.Config) []byte {
	t.Helper()
	b, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"c": {Server: cfg.Host, CertificateAuthorityData: cfg.CAData}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"u": {ClientCertificateData: cfg.CertData, ClientKeyData: cfg.KeyData, Token: cfg.BearerToken,
			Impersonate: cfg.Impersonate.UserName}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (r *receiver) wantWhole(name string) {
	r.t.Helper()
	if diff := cmp.Diff(whole(), r.lines(name)); diff != "" {
		r.t.Errorf("(-want +got):\n%s", diff)
	}
	r.wantOnce()
	for _, e := range r.got {
		if e.Data.Resource.Name == name && !strings.HasPrefix(e.Data.Account, "dev/p") {
			r.t.Errorf("account %q", e.Data.Account)
		}
	}
}

// A life, read while it is lived and a life read at its end, by a process that
// lives on or by one that is new each time.
func TestRealLife(t *testing.T) {
	k := kubetest.Shared(t, kubetest.Gardener)
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart %v", restart), func(t *testing.T) {
			t.Parallel()
			g := newReal(t, k)
			r, late := g.receiver(t, false), g.receiver(t, false)
			r.read()
			late.read()
			play(t, g.Cluster, g.namespace, "shop", life(), func(moment) {
				if restart {
					r.restart()
				}
				r.read()
			})
			r.wantWhole("shop")
			late.restart()
			late.read()
			late.wantWhole("shop")
			if len(r.gaps)+len(late.gaps) > 0 {
				t.Errorf("gaps %v, %v", r.gaps, late.gaps)
			}
		})
	}
}

// The watch is cut every second, and between: the same events, once.
func TestRealWatchIsCut(t *testing.T) {
	t.Parallel()
	g := newReal(t, kubetest.Shared(t, kubetest.Gardener))
	proxy := g.k.Proxy(t)
	g.cfg = proxy.Config(t)
	r := g.receiver(t, false)
	r.read()
	proxy.CutEvery(t, 300*time.Millisecond)
	done := make(chan struct{})
	go func() {
		defer close(done)
		play(t, g.Cluster, g.namespace, "shop", life(), func(moment) { time.Sleep(150 * time.Millisecond) }) // so that cuts fall between them
	}()
	var failures int
	for deadline := time.Now().Add(2 * time.Minute); ; {
		p, err := r.s.Next(t.Context(), r.c)
		switch {
		case err != nil:
			if c := provider.ClassOf(err); c != provider.Transient {
				t.Fatalf("class %s: %v", c, err)
			}
			failures++
		default:
			r.take(p)
		}
		if got := r.types("shop"); slices.Contains(got, "delete.end") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("not read after two minutes: %v", r.lines("shop"))
		}
	}
	<-done
	r.wantWhole("shop")
	t.Logf("%d cuts, %d failed reads, %d pages", proxy.Cuts(), failures, r.pages)
	if proxy.Cuts() < 3 {
		t.Errorf("only %d cuts", proxy.Cuts())
	}
}

// The rights of the manifests are enough, and no others are there.
func TestRealRights(t *testing.T) {
	t.Parallel()
	g := newReal(t, kubetest.Shared(t, kubetest.Gardener))
	const dir = "../../../deploy/gardener/"
	g.k.Apply(t, dir+"rbac.yaml")
	g.cfg = g.k.As(t, "garden", "tollgate")
	g.Created(t, newborn(g.namespace, "before"))
	namespace := g.namespace
	g.namespace = "" // all projects are read
	r := g.receiver(t, true)
	r.read()
	g.Created(t, newborn(namespace, "after"))
	r.read()
	for _, name := range []string{"before", "after"} {
		if got := r.lines(name); !slices.Contains(got, "create.end to a=m1.large a=1 all=1") {
			t.Errorf("%s: %v", name, got)
		}
	}
	snap, err := r.s.List(t.Context())
	if err != nil || !slices.ContainsFunc(snap.Resources, func(x source.Existing) bool { return x.Resource.Name == "after" && x.Account == "dev/"+g.project }) {
		t.Errorf("list: %d shoots, %v", len(snap.Resources), err)
	}
	c, err := gardener.NewClient(g.cfg)
	if err != nil {
		t.Fatal(err)
	}
	for what, call := range map[string]func() error{
		"read a secret": func() error { _, err := c.Secret(t.Context(), namespace, "infrastructure"); return err },
		"read a binding": func() error {
			_, err := c.CredentialsBindings(namespace).Get(t.Context(), "infrastructure", metav1.GetOptions{})
			return err
		},
		"list namespaces": func() error { _, err := c.Namespaces().List(t.Context(), metav1.ListOptions{}); return err },
		"make a shoot": func() error {
			_, err := c.Shoots(namespace).Create(t.Context(), newborn(namespace, "not"), metav1.CreateOptions{})
			return err
		},
		"delete a shoot": func() error { return c.Shoots(namespace).Delete(t.Context(), "after", metav1.DeleteOptions{}) },
	} {
		if err := call(); provider.ReasonOf(gardener.Classify("call", "g", "", err)) != provider.ReasonForbidden {
			t.Errorf("%s: %v, want it to be forbidden", what, err)
		}
	}
	g.k.Apply(t, dir+"tenants.yaml")
	eventually(t, func() error {
		_, err := c.CredentialsBindings(namespace).Get(t.Context(), "infrastructure", metav1.GetOptions{})
		return err
	})
	if _, err := c.Secret(t.Context(), namespace, "infrastructure"); err == nil {
		t.Error("tenants.yaml lets secrets be read")
	}
	g.k.Apply(t, dir+"tenant-secrets.yaml")
	eventually(t, func() error { _, err := c.Secret(t.Context(), namespace, "infrastructure"); return err })
}

// eventually calls until it works: authorizers learn of rights a little later.
func eventually(t *testing.T, call func() error) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		err := call()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// Everything of all projects is listed, in pages.
func TestRealList(t *testing.T) {
	t.Parallel()
	g := newReal(t, kubetest.Shared(t, kubetest.Gardener))
	for i := range 7 {
		g.Created(t, newborn(g.namespace, fmt.Sprintf("s%d", i)))
	}
	g.Hibernate(t, newborn(g.namespace, "s0"), true)
	g.Make(t, newborn(g.namespace, "coming"))
	r := g.receiver(t, false)
	r.s.Small(2, 3, time.Millisecond)
	snap, err := r.s.List(t.Context())
	if err != nil || len(snap.Unreadable) > 0 {
		t.Fatalf("%v, unreadable %v", err, snap.Unreadable)
	}
	names := map[string]source.Existing{}
	for _, x := range snap.Resources {
		names[x.Resource.Name] = x
	}
	if len(names) != 8 {
		t.Errorf("%d shoots, want 8", len(names))
	}
	s0 := names["s0"]
	if s0.Account != "dev/"+g.project || s0.State != event.Active || s0.Values["hibernation_wanted"] != 1 || s0.Values["hibernated"] != 0 ||
		s0.Info["infrastructure"] != "openstack" || s0.Info["kubernetes_version"] != "1.33.4" || s0.Info["machine_type/a"] != "m1.large" ||
		s0.Values["worker_count/a"] != 1 || s0.Info["project"] != g.project || s0.Coming || s0.Leaving {
		t.Errorf("%+v", s0)
	}
	if !names["coming"].Coming {
		t.Error("what is being created is listed as if it were there")
	}
}
