//go:build openstack

package openstack_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/openstack/cloud"
	"github.com/tollgate-dev/tollgate/internal/openstack/cloudtest"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacktest"
	"github.com/tollgate-dev/tollgate/internal/provider/providertest"
)

func sortThings(all []providertest.Thing) {
	slices.SortFunc(all, func(a, b providertest.Thing) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID)) })
}

// TestContractOnTheRealServices runs the conformance kit against the real control
// plane, with a floating IP for each instance. Each clause has a project of its
// own.
func TestContractOnTheRealServices(t *testing.T) {
	t.Parallel()
	providertest.Run(t, providertest.Harness{
		Profile:    openstack.Type().Profile,
		NewBackend: func(tb testing.TB) providertest.Backend { return newReal(tb) },
		Open: func(tb testing.TB, b providertest.Backend, o providertest.OpenOptions) provider.Provider {
			return b.(*realBackend).open(tb, o.Config(), string(o.Credential.Reveal()), func(o *openstack.Options) { o.FloatingNetwork = "public" })
		},
		Hooks:   openstacktest.Hooks(),
		Checker: true, Companions: true,
		Placement:    provider.Placement{MachineType: "m1.tiny", Image: "cirros"},
		BadPlacement: provider.Placement{MachineType: "m1.gigantic", Image: "cirros"},
		Settle:       4 * time.Second, Poll: 500 * time.Millisecond, Patience: 5 * time.Minute, Prompt: 5 * time.Second,
	})
}

// Volumes beside a server, and under it, come and go with it, and a volume that is
// taken away from a running server is deleted.
func TestVolumesOnTheRealServices(t *testing.T) {
	t.Parallel()
	for name, volume := range map[string]openstack.Volume{"second disk": {SizeGB: 1}, "root disk": {SizeGB: 1, Boot: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newReal(t)
			p := b.open(t, provider.Config{Name: "cloud", Installation: "acme", Secret: newVault("correct").read}, "correct",
				func(o *openstack.Options) { o.Volume = volume })
			req := request("proxy-a")
			id := create(t, p, req)
			cloudtest.Until(t, "the server runs", func() bool {
				in, err := p.Get(t.Context(), id)
				return err == nil && in.State == provider.StateRunning
			})
			all, err := p.ListCompanions(t.Context(), provider.Selector{UID: req.Marks.UID})
			if err != nil || len(all) != 2 {
				t.Fatalf("companions %+v, %v; want a port and a volume", all, err)
			}
			for _, c := range all {
				if c.AttachedTo != id || c.CreatedAt.IsZero() {
					t.Errorf("%+v, want it attached to %s", c, id)
				}
				if c.Kind == openstack.KindVolume && !volume.Boot {
					if err := p.DeleteCompanion(t.Context(), c); err != nil {
						t.Error(err)
					}
				}
			}
			if err := p.Delete(t.Context(), id); err != nil {
				t.Error(err)
			}
			cloudtest.Until(t, "nothing is left", func() bool { return len(b.Things(t)) == 0 })
		})
	}
}

// An application credential logs in, is told apart from a policy when it is
// revoked, and what was made stays known.
func TestApplicationCredentialOnTheRealServices(t *testing.T) {
	t.Parallel()
	b := newReal(t)
	user := b.open(t, provider.Config{Name: "cloud", Installation: "acme", Secret: newVault("correct").read}, "correct", nil)
	id := create(t, user, request("proxy-a"))
	app := b.applicationCredential(t, "correct")
	p := b.open(t, provider.Config{Name: "cloud", Installation: "acme", Secret: newVault(app.Secret).read}, "correct", func(o *openstack.Options) {
		o.Auth = cloud.Auth{URL: o.Auth.URL, ApplicationCredentialID: app.ID, ApplicationCredentialSecret: "cloud-password"}
	})
	if _, err := p.Get(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	b.revokeCredential(t, app.ID)
	var last error
	cloudtest.Until(t, "the revoked credential is refused", func() bool { // the services believe a token for ten seconds
		if _, last = p.Get(t.Context(), id); provider.ClassOf(last) == provider.NotFound {
			t.Fatalf("a revoked credential reads as gone: %v", last)
		}
		return provider.ReasonOf(last) == provider.ReasonUnauthorized
	})
	if err := user.Delete(t.Context(), id); err != nil {
		t.Error(err)
	}
}

// Each quota has an answer of its own, and the class is the same; nothing is left
// of ten creates that failed.
func TestQuotasOnTheRealServices(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]struct{ service, key string }{
		"instances":    {"compute", "instances"},
		"cores":        {"compute", "cores"},
		"ports":        {"network", "port"},
		"floating IPs": {"network", "floatingip"},
		"volumes":      {"volumev3", "volumes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newReal(t)
			p := b.open(t, provider.Config{Name: "cloud", Installation: "acme", Secret: newVault("correct").read}, "correct", everything)
			b.quota(t, limit.service, map[string]any{limit.key: 0})
			for i := range 10 {
				_, err := p.Create(t.Context(), request("proxy-"+string(rune('a'+i))))
				if provider.ClassOf(err) != provider.QuotaExceeded {
					t.Errorf("create %d: %v", i, err)
					break
				}
			}
			if left := b.Things(t); len(left) != 0 {
				t.Errorf("ten failed creates left %v", left)
			}
		})
	}
}

// A build that fails later is Stopped, with nova's own words, and goes with all
// that belongs to it.
func TestFaultOnTheRealServices(t *testing.T) {
	t.Parallel()
	b := newReal(t)
	b.Order(func(s map[string]any) { s["metadata"].(map[string]any)["fake_spawn_error"] = "no room for it" })
	p := b.open(t, provider.Config{Name: "cloud", Installation: "acme", Secret: newVault("correct").read}, "correct", everything)
	id := create(t, p, request("proxy-a"))
	cloudtest.Until(t, "the server is in error", func() bool {
		in, err := p.Get(t.Context(), id)
		if err == nil && in.State == provider.StateStopped {
			if !strings.HasPrefix(in.RawState, "ERROR: Build of instance ") || !strings.HasSuffix(in.RawState, "no room for it") {
				t.Errorf("raw state %q", in.RawState)
			}
			return true
		}
		return false
	})
	if err := p.Delete(t.Context(), id); err != nil {
		t.Error(err)
	}
	cloudtest.Until(t, "nothing is left", func() bool { return len(b.Things(t)) == 0 })
}
