// Package cloudtest gives tests projects of their own in the real OpenStack control
// plane that deploy/dev/openstack runs, and a way past what is tested.
package cloudtest

import (
	"bytes"
	"cmp"
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
)

// Cloud is the control plane, as its openrc names it.
type Cloud struct {
	// Identity is the identity service, Password that of its administrator, and State
	// the folder of the development cloud.
	Identity, Password, State string
}

// Find finds it, or ends the test.
func Find(tb testing.TB) Cloud {
	tb.Helper()
	c := Cloud{os.Getenv("TOLLGATE_OPENSTACK"), os.Getenv("TOLLGATE_OPENSTACK_PASSWORD"), filepath.Dir(os.Getenv("OS_CLIENT_CONFIG_FILE"))}
	if c.Identity == "" || c.Password == "" {
		tb.Fatal("TOLLGATE_OPENSTACK is not set: run make test-openstack, or make dev-openstack and source its openrc")
	}
	return c
}

// Project is a project of its own, as an administrator is in it.
type Project struct {
	Cloud
	// Name is the project's, and the user's that Member makes; ID is the project's.
	Name, ID string
	// URLs are the services, by type, without a slash at the end.
	URLs map[string]string
	// Compute is the microversion of requests to the compute service, 2.79 if empty.
	Compute string

	token  string
	member sync.Once
	userID string
}

// New makes a project that ends with the test.
func New(tb testing.TB) *Project {
	tb.Helper()
	b := &Project{Cloud: Find(tb), URLs: map[string]string{}}
	b.Name = fmt.Sprintf("test-%d", time.Now().UnixNano())
	admin := administrator(tb, b.Cloud)
	b.ID = admin.make(tb, "project", map[string]any{"name": b.Name, "domain_id": "default"})
	tb.Cleanup(func() { // after all that the kit cleans up as the user
		admin := administrator(tb, b.Cloud)
		if b.userID != "" {
			admin.Do(tb, "DELETE", b.Identity+"/users/"+b.userID, nil, nil)
		}
		admin.Do(tb, "DELETE", b.Identity+"/projects/"+b.ID, nil, nil)
	})
	admin.Do(tb, "PUT", b.Identity+"/projects/"+b.ID+"/users/"+admin.admin+"/roles/"+admin.roles["admin"], nil, nil)
	b.logIn(tb, b.Name)
	return b
}

// administrators are those who make projects and users. All tests share one for each
// cloud: logging in is what the identity service takes longest for.
var administrators struct {
	sync.Mutex
	all map[Cloud]*administration
}

// administration is an administrator, its id and those of the roles, by name.
type administration struct {
	*Project
	admin string
	roles map[string]string
	since time.Time
}

// administrator is the one of a cloud, who logs in anew well before a token ends.
func administrator(tb testing.TB, c Cloud) *administration {
	tb.Helper()
	administrators.Lock()
	defer administrators.Unlock()
	if a := administrators.all[c]; a != nil && time.Since(a.since) < time.Minute {
		return a
	}
	a := &administration{Project: &Project{Cloud: c, URLs: map[string]string{}}, roles: map[string]string{}, since: time.Now()}
	a.logIn(tb, "admin")
	var doc struct{ Roles []struct{ ID, Name string } }
	a.Do(tb, "GET", c.Identity+"/roles", nil, &doc)
	for _, r := range doc.Roles {
		a.roles[r.Name] = r.ID
	}
	a.admin = a.IDOf(tb, "users", c.Identity+"/users?name=admin")
	if administrators.all == nil {
		administrators.all = map[Cloud]*administration{}
	}
	administrators.all[c] = a
	return a
}

// logIn gets the administrator's token for a project, and the catalogue.
func (b *Project) logIn(tb testing.TB, project string) {
	tb.Helper()
	b.logInAs(tb, "admin", project)
}

func (b *Project) logInAs(tb testing.TB, user, project string) {
	tb.Helper()
	domain := map[string]any{"id": "default"}
	body, _ := json.Marshal(map[string]any{"auth": map[string]any{
		"identity": map[string]any{"methods": []string{"password"}, "password": map[string]any{"user": map[string]any{
			"name": user, "domain": domain, "password": b.Password}}},
		"scope": map[string]any{"project": map[string]any{"name": project, "domain": domain}}}})
	resp, err := http.Post(b.Identity+"/auth/tokens", "application/json", bytes.NewReader(body))
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
				b.URLs[c.Type] = strings.TrimRight(e.URL, "/")
			}
		}
	}
}

// Do makes a request past the driver. 404 is an answer, every other refusal ends
// the test. SQLite is locked now and then, so that a server error is tried again.
func (b *Project) Do(tb testing.TB, method, url string, body, into any) (found bool) {
	tb.Helper()
	var status int
	var raw []byte
	for range 10 {
		if status, raw = b.Once(tb, method, url, body); status < 500 {
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

// Once makes a request once and gives status and body.
func (b *Project) Once(tb testing.TB, method, url string, body any) (int, []byte) {
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
	if strings.HasPrefix(url, b.URLs["compute"]) {
		req.Header.Set("OpenStack-API-Version", "compute "+cmp.Or(b.Compute, "2.79"))
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

// make makes something of the identity service that has a name of its own. What
// was made although the answer was a server error is there at the next try.
func (b *Project) make(tb testing.TB, kind string, body map[string]any) string {
	tb.Helper()
	var made map[string]struct{ ID string }
	for range 10 {
		switch status, raw := b.Once(tb, "POST", b.Identity+"/"+kind+"s", map[string]any{kind: body}); {
		case status == http.StatusConflict:
			return b.IDOf(tb, kind+"s", b.Identity+"/"+kind+"s?name="+fmt.Sprint(body["name"]))
		case status == http.StatusCreated && json.Unmarshal(raw, &made) == nil:
			return made[kind].ID
		}
		time.Sleep(time.Second)
	}
	tb.Fatalf("no %s can be made", kind)
	return ""
}

// IDOf is the id of the one thing that a list has under kind.
func (b *Project) IDOf(tb testing.TB, kind, url string) string {
	tb.Helper()
	var doc map[string]json.RawMessage
	var all []struct{ ID string }
	b.Do(tb, "GET", url, nil, &doc)
	if err := json.Unmarshal(doc[kind], &all); err != nil || len(all) != 1 {
		tb.Fatalf("%s: %d, %v", url, len(all), err)
	}
	return all[0].ID
}

// patience is how long the cloud may take. A server is there after seconds on a quiet
// machine, and after a minute when several tests share two busy cores.
const patience = 4 * time.Minute

// Until waits for what the cloud does in its own time.
func Until(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	for end := time.Now().Add(patience); !ok(); {
		if time.Now().After(end) {
			tb.Fatalf("waited %v until %s", patience, what)
		}
		select {
		case <-tb.Context().Done():
		case <-time.After(300 * time.Millisecond):
		}
	}
}

// LogIn is a project that exists already, as this user is in it: of a simulated
// cloud, or of the real one.
func LogIn(tb testing.TB, identity, user, password, project string) *Project {
	tb.Helper()
	b := &Project{Cloud: Cloud{Identity: identity, Password: password}, Name: project, URLs: map[string]string{}}
	b.logInAs(tb, user, project)
	return b
}

// As is the same project as another user is in it.
func (b *Project) As(tb testing.TB, user, password string) *Project {
	tb.Helper()
	as := &Project{Cloud: Cloud{b.Identity, password, b.State}, Name: b.Name, ID: b.ID, URLs: map[string]string{}, userID: b.userID}
	as.logInAs(tb, user, b.Name)
	return as
}

// Member makes, once, the project's user, whose name is the project's and who is a
// member, and returns its id.
func (b *Project) Member(tb testing.TB, password string) string {
	tb.Helper()
	b.member.Do(func() {
		admin := administrator(tb, b.Cloud)
		b.userID = admin.make(tb, "user", map[string]any{"name": b.Name, "domain_id": "default", "password": password})
		admin.Do(tb, "PUT", b.Identity+"/projects/"+b.ID+"/users/"+b.userID+"/roles/"+admin.roles["member"], nil, nil)
	})
	return b.userID
}
