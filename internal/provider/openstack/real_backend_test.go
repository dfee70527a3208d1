//go:build openstack

package openstack_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/openstack/cloud"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacksim"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacktest"
	"github.com/tollgate-dev/tollgate/internal/provider/providertest"
)

// realCloud is the control plane that deploy/dev/openstack runs, as its openrc
// names it.
type realCloud struct{ identity, password, state string }

func real(tb testing.TB) realCloud {
	tb.Helper()
	c := realCloud{os.Getenv("TOLLGATE_OPENSTACK"), os.Getenv("TOLLGATE_OPENSTACK_PASSWORD"), filepath.Dir(os.Getenv("OS_CLIENT_CONFIG_FILE"))}
	if c.identity == "" || c.password == "" {
		tb.Fatal("TOLLGATE_OPENSTACK is not set: run make test-openstack, or make dev-openstack and source its openrc")
	}
	return c
}

// realBackend is a project of its own in the real cloud, with faults between the
// driver and the services.
type realBackend struct {
	realCloud
	*openstacksim.Faults
	transport http.RoundTripper
	project   string // name and user
	projectID string
	token     string // of an administrator, in the project
	urls      map[string]string
	user      sync.Once
	userID    string
}

// newReal makes the project.
func newReal(tb testing.TB) *realBackend {
	tb.Helper()
	b := &realBackend{realCloud: real(tb), Faults: &openstacksim.Faults{}, urls: map[string]string{}}
	b.transport = b.Faults.Transport(http.DefaultTransport.(*http.Transport).Clone())
	b.project = fmt.Sprintf("test-%d", time.Now().UnixNano())
	b.logIn(tb, "admin")
	b.projectID = b.make(tb, "project", map[string]any{"name": b.project, "domain_id": "default"})
	tb.Cleanup(func() { // after all that the kit cleans up as the user
		b.logIn(tb, "admin")
		if b.userID != "" {
			b.do(tb, "DELETE", b.identity+"/users/"+b.userID, nil, nil)
		}
		b.do(tb, "DELETE", b.identity+"/projects/"+b.projectID, nil, nil)
	})
	var roles struct{ Roles []struct{ ID string } }
	b.do(tb, "GET", b.identity+"/roles?name=admin", nil, &roles)
	var users struct{ Users []struct{ ID string } }
	b.do(tb, "GET", b.identity+"/users?name=admin", nil, &users)
	b.do(tb, "PUT", b.identity+"/projects/"+b.projectID+"/users/"+users.Users[0].ID+"/roles/"+roles.Roles[0].ID, nil, nil)
	b.logIn(tb, b.project)
	return b
}

// logIn gets the administrator's token for a project, and the catalogue.
func (b *realBackend) logIn(tb testing.TB, project string) {
	tb.Helper()
	b.logInAs(tb, "admin", project)
}

func (b *realBackend) logInAs(tb testing.TB, user, project string) {
	tb.Helper()
	domain := map[string]any{"id": "default"}
	body, _ := json.Marshal(map[string]any{"auth": map[string]any{
		"identity": map[string]any{"methods": []string{"password"}, "password": map[string]any{"user": map[string]any{
			"name": user, "domain": domain, "password": b.password}}},
		"scope": map[string]any{"project": map[string]any{"name": project, "domain": domain}}}})
	resp, err := http.Post(b.identity+"/auth/tokens", "application/json", bytes.NewReader(body))
	if err != nil {
		tb.Fatal(err)
	}
	defer resp.Body.Close()
	var doc struct {
		Token struct {
			Catalog []struct {
				Type      string
				Endpoints []struct{ Interface, URL string }
			}
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&doc); err != nil || resp.StatusCode != http.StatusCreated {
		tb.Fatalf("login: %d, %v", resp.StatusCode, err)
	}
	b.token = resp.Header.Get("X-Subject-Token")
	for _, c := range doc.Token.Catalog {
		for _, e := range c.Endpoints {
			if e.Interface == "public" {
				b.urls[c.Type] = strings.TrimRight(e.URL, "/")
			}
		}
	}
}

// do makes a request past the driver. 404 is an answer, every other refusal ends
// the test. SQLite is locked now and then, so that a server error is tried again.
func (b *realBackend) do(tb testing.TB, method, url string, body, into any) (found bool) {
	tb.Helper()
	var status int
	var raw []byte
	for range 10 {
		if status, raw = b.once(tb, method, url, body); status < 500 {
			break
		}
		time.Sleep(time.Second)
	}
	switch {
	case status == http.StatusNotFound:
		return false
	case status >= 300:
		tb.Fatalf("%s %s: %d %s", method, url, status, raw)
	case into != nil:
		if err := json.Unmarshal(raw, into); err != nil {
			tb.Fatalf("%s %s: %v in %s", method, url, err, raw)
		}
	}
	return true
}

func (b *realBackend) once(tb testing.TB, method, url string, body any) (int, []byte) {
	tb.Helper()
	sent, _ := json.Marshal(body)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), 2*time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(sent))
	if err != nil {
		tb.Fatal(err)
	}
	if body == nil {
		req.Body, req.ContentLength = http.NoBody, 0
	}
	req.Header.Set("X-Auth-Token", b.token)
	req.Header.Set("Content-Type", "application/json")
	if strings.HasPrefix(url, b.urls["compute"]) {
		req.Header.Set("OpenStack-API-Version", "compute 2.79")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		tb.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		tb.Fatal(err)
	}
	return resp.StatusCode, raw
}

// open builds a provider for the project. Its user has the credential as
// password.
func (b *realBackend) open(tb testing.TB, cfg provider.Config, credential string, change func(*openstack.Options)) *openstack.Provider {
	tb.Helper()
	b.user.Do(func() {
		admin := &realBackend{realCloud: b.realCloud, urls: map[string]string{}}
		admin.logIn(tb, "admin")
		b.userID = admin.make(tb, "user", map[string]any{"name": b.project, "domain_id": "default", "password": credential})
		var roles struct{ Roles []struct{ ID string } }
		admin.do(tb, "GET", b.identity+"/roles?name=member", nil, &roles)
		admin.do(tb, "PUT", b.identity+"/projects/"+b.projectID+"/users/"+b.userID+"/roles/"+roles.Roles[0].ID, nil, nil)
	})
	cfg.Decode = func(into any) error {
		o := openstack.Options{
			Access: cloud.Access{Auth: cloud.Auth{URL: b.identity, Username: b.project, Project: b.project, Password: "cloud-password"}},
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
	url, key := b.urls[service]+"/os-quota-sets/"+b.projectID, "quota_set"
	if service == "network" {
		url, key = b.urls[service]+"/v2.0/quotas/"+b.projectID, "quota"
	}
	b.do(tb, "PUT", url, map[string]any{key: limits}, nil)
}

type credential struct{ ID, Secret string }

// applicationCredential makes one as the project's user.
func (b *realBackend) applicationCredential(tb testing.TB, password string) credential {
	tb.Helper()
	as := &realBackend{realCloud: realCloud{b.identity, password, b.state}, urls: map[string]string{}}
	as.logInAs(tb, b.project, b.project)
	var made struct {
		Cred credential `json:"application_credential"`
	}
	for i := range 10 { // one whose answer was a server error may have been made, and its secret is lost
		status, raw := as.once(tb, "POST", b.identity+"/users/"+b.userID+"/application_credentials", map[string]any{
			"application_credential": map[string]any{"name": fmt.Sprintf("tollgate-%d", i), "roles": []any{map[string]any{"name": "member"}}}})
		if status == http.StatusCreated && json.Unmarshal(raw, &made) == nil {
			return made.Cred
		}
	}
	tb.Fatal("no application credential can be made")
	return credential{}
}

// make makes something of the identity service that has a name of its own. What
// was made although the answer was a server error is there at the next try.
func (b *realBackend) make(tb testing.TB, kind string, body map[string]any) string {
	tb.Helper()
	var made map[string]struct{ ID string }
	for range 10 {
		switch status, raw := b.once(tb, "POST", b.identity+"/"+kind+"s", map[string]any{kind: body}); {
		case status == http.StatusConflict:
			return b.id(tb, kind+"s", b.identity+"/"+kind+"s?name="+fmt.Sprint(body["name"]))
		case status == http.StatusCreated && json.Unmarshal(raw, &made) == nil:
			return made[kind].ID
		}
		time.Sleep(time.Second)
	}
	tb.Fatalf("no %s can be made", kind)
	return ""
}

func (b *realBackend) revokeCredential(tb testing.TB, id string) {
	tb.Helper()
	as := &realBackend{realCloud: realCloud{b.identity, "correct", b.state}, urls: map[string]string{}}
	as.logInAs(tb, b.project, b.project)
	as.do(tb, "DELETE", b.identity+"/users/"+b.userID+"/application_credentials/"+id, nil, nil)
}

type realServer struct {
	ID, Name, Status string
	Metadata         map[string]string
	UserData         string `json:"OS-EXT-SRV-ATTR:user_data"`
}

func (b *realBackend) servers(tb testing.TB) []realServer {
	tb.Helper()
	var doc struct{ Servers []realServer }
	b.do(tb, "GET", b.urls["compute"]+"/servers/detail?sort_key=created_at&sort_dir=asc", nil, &doc)
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
	of := "?project_id=" + b.projectID
	b.do(tb, "GET", b.urls["network"]+"/v2.0/ports"+of, nil, &net)
	b.do(tb, "GET", b.urls["network"]+"/v2.0/floatingips"+of, nil, &net)
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
	b.do(tb, "GET", b.urls["volumev3"]+"/volumes/detail", nil, &vol)
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

func (b *realBackend) id(tb testing.TB, kind, url string) string {
	tb.Helper()
	var doc map[string]json.RawMessage
	var all []struct{ ID string }
	b.do(tb, "GET", url, nil, &doc)
	if err := json.Unmarshal(doc[kind], &all); err != nil || len(all) != 1 {
		tb.Fatalf("%s: %d, %v", url, len(all), err)
	}
	return all[0].ID
}

// until waits for what the cloud does in its own time.
func until(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	for end := time.Now().Add(2 * time.Minute); !ok(); {
		if time.Now().After(end) {
			tb.Fatalf("waited two minutes until %s", what)
		}
		select {
		case <-tb.Context().Done():
		case <-time.After(300 * time.Millisecond):
		}
	}
}
