//go:build openstack

package openstack_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/openstack/cloud"
	"github.com/tollgate-dev/tollgate/internal/openstack/cloudtest"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacksim"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacktest"
	"github.com/tollgate-dev/tollgate/internal/provider/providertest"
)

// realBackend is a project of its own in the real cloud, with faults between the
// driver and the services.
type realBackend struct {
	*cloudtest.Project
	*openstacksim.Faults
	transport http.RoundTripper
}

func newReal(tb testing.TB) *realBackend {
	tb.Helper()
	b := &realBackend{Project: cloudtest.New(tb), Faults: &openstacksim.Faults{}}
	b.transport = b.Faults.Transport(http.DefaultTransport.(*http.Transport).Clone())
	return b
}

// open builds a provider for the project. Its user has the credential as
// password.
func (b *realBackend) open(tb testing.TB, cfg provider.Config, credential string, change func(*openstack.Options)) *openstack.Provider {
	tb.Helper()
	b.Member(tb, credential)
	cfg.Decode = func(into any) error {
		o := openstack.Options{
			Access: cloud.Access{Auth: cloud.Auth{URL: b.Identity, Username: b.Name, Project: b.Name, Password: "cloud-password"}},
			Flavor: "m1.tiny", Image: "cirros", Network: "shared", Poll: 500 * time.Millisecond, WaitLimit: 4 * time.Minute, PageSize: 4,
		}
		if change != nil {
			change(&o)
		}
		*into.(*openstack.Options) = o
		return nil
	}
	cfg.Transport = func(http.RoundTripper, string) http.RoundTripper { return b.transport }
	p, err := openstack.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// quota sets limits of the project.
func (b *realBackend) quota(tb testing.TB, service string, limits map[string]any) {
	tb.Helper()
	url, key := b.URLs[service]+"/os-quota-sets/"+b.ID, "quota_set"
	if service == "network" {
		url, key = b.URLs[service]+"/v2.0/quotas/"+b.ID, "quota"
	}
	b.Do(tb, "PUT", url, map[string]any{key: limits}, nil)
}

type credential struct{ ID, Secret string }

// applicationCredential makes one as the project's user.
func (b *realBackend) applicationCredential(tb testing.TB, password string) credential {
	tb.Helper()
	as := b.As(tb, b.Name, password)
	var made struct {
		Cred credential `json:"application_credential"`
	}
	for i := range 10 { // one whose answer was a server error may have been made, and its secret is lost
		status, raw := as.Once(tb, "POST", b.Identity+"/users/"+b.Member(tb, "")+"/application_credentials", map[string]any{
			"application_credential": map[string]any{"name": fmt.Sprintf("tollgate-%d", i), "roles": []any{map[string]any{"name": "member"}}}})
		if status == http.StatusCreated && json.Unmarshal(raw, &made) == nil {
			return made.Cred
		}
	}
	tb.Fatal("no application credential can be made")
	return credential{}
}

func (b *realBackend) revokeCredential(tb testing.TB, id string) {
	tb.Helper()
	as := b.As(tb, b.Name, "correct")
	as.Do(tb, "DELETE", b.Identity+"/users/"+b.Member(tb, "")+"/application_credentials/"+id, nil, nil)
}

type realServer struct {
	ID, Name, Status string
	Metadata         map[string]string
	UserData         string `json:"OS-EXT-SRV-ATTR:user_data"`
}

func (b *realBackend) servers(tb testing.TB) []realServer {
	tb.Helper()
	var doc struct{ Servers []realServer }
	b.Do(tb, "GET", b.URLs["compute"]+"/servers/detail?sort_key=created_at&sort_dir=asc", nil, &doc)
	return doc.Servers
}

// Things implements providertest.Backend.
func (b *realBackend) Things(tb testing.TB) []providertest.Thing {
	tb.Helper()
	var out []providertest.Thing
	for _, s := range b.servers(tb) {
		m, managed := provider.MarksFromLabels(s.Metadata)
		out = append(out, providertest.Thing{Kind: providertest.KindInstance, ID: s.ID, Name: s.Name, Marks: m, Managed: managed})
	}
	type text struct{ ID, Name, Description string }
	var net struct {
		Ports       []text
		Floatingips []text
	}
	of := "?project_id=" + b.ID
	b.Do(tb, "GET", b.URLs["network"]+"/v2.0/ports"+of, nil, &net)
	b.Do(tb, "GET", b.URLs["network"]+"/v2.0/floatingips"+of, nil, &net)
	for kind, all := range map[string][]text{"port": net.Ports, "floating_ip": net.Floatingips} {
		for _, x := range all {
			_, m, managed := openstacktest.Label(x.Description)
			if kind == "port" && !managed {
				continue // of a server that was placed, and a part of it
			}
			out = append(out, providertest.Thing{Kind: kind, ID: x.ID, Name: x.Name, Marks: m, Managed: managed})
		}
	}
	var vol struct{ Volumes []realServer }
	b.Do(tb, "GET", b.URLs["volumev3"]+"/volumes/detail", nil, &vol)
	for _, v := range vol.Volumes {
		m, managed := provider.MarksFromLabels(v.Metadata)
		out = append(out, providertest.Thing{Kind: "volume", ID: v.ID, Name: v.Name, Marks: m, Managed: managed})
	}
	sortThings(out)
	return out
}

func (b *realBackend) named(tb testing.TB, name string) realServer {
	tb.Helper()
	for _, s := range b.servers(tb) {
		if s.Name == name {
			return s
		}
	}
	tb.Fatalf("no server is named %s", name)
	return realServer{}
}
