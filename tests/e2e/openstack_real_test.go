//go:build e2e && openstack

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/devserver/simcloud"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// control is the real control plane, as an administrator of the project demo, and
// a proxy at the address of each server that runs: its hypervisor only pretends.
type control struct {
	t        *testing.T
	identity string
	password string
	project  string // its id
	urls     map[string]string
	machines *simcloud.OpenStackMachines
	token    string
}

func newControl(t *testing.T) *control {
	t.Helper()
	c := &control{t: t, identity: os.Getenv("TOLLGATE_OPENSTACK"), password: os.Getenv("TOLLGATE_OPENSTACK_PASSWORD"), urls: map[string]string{},
		machines: simcloud.NewOpenStackMachines(netip.MustParsePrefix("127.80.0.0/16"), slog.New(slog.DiscardHandler))}
	if c.identity == "" {
		t.Fatal("TOLLGATE_OPENSTACK is not set: run make test-openstack")
	}
	t.Cleanup(c.machines.Close)
	c.logIn("admin")
	c.join(t.Context(), "demo")
	c.logIn("demo")
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(done)
		c.emulate(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return c
}

// join gives the administrator a role in a project, to look at it from inside.
func (c *control) join(ctx context.Context, project string) {
	id := func(kind, name string) string {
		var doc map[string]json.RawMessage
		var all []struct{ ID string }
		if err := c.do(ctx, "GET", c.identity+"/"+kind+"?name="+name, nil, &doc); err != nil {
			c.t.Fatal(err)
		}
		if err := json.Unmarshal(doc[kind], &all); err != nil || len(all) != 1 {
			c.t.Fatalf("%s %s: %s", kind, name, doc[kind])
		}
		return all[0].ID
	}
	url := c.identity + "/projects/" + id("projects", project) + "/users/" + id("users", "admin") + "/roles/" + id("roles", "admin")
	if err := c.do(ctx, "PUT", url, nil, nil); err != nil {
		c.t.Fatal(err)
	}
}

func (c *control) logIn(project string) {
	domain := map[string]any{"id": "default"}
	body, _ := json.Marshal(map[string]any{"auth": map[string]any{
		"identity": map[string]any{"methods": []string{"password"}, "password": map[string]any{"user": map[string]any{
			"name": "admin", "domain": domain, "password": c.password}}},
		"scope": map[string]any{"project": map[string]any{"name": project, "domain": domain}}}})
	resp, err := http.Post(c.identity+"/auth/tokens", "application/json", bytes.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	var doc struct {
		Token struct {
			Project struct{ ID string }
			Catalog []struct {
				Type      string
				Endpoints []struct{ Interface, URL string }
			}
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&doc); err != nil || resp.StatusCode != http.StatusCreated {
		c.t.Fatalf("login: %d, %v", resp.StatusCode, err)
	}
	c.token, c.project = resp.Header.Get("X-Subject-Token"), doc.Token.Project.ID
	for _, s := range doc.Token.Catalog {
		for _, e := range s.Endpoints {
			if e.Interface == "public" {
				c.urls[s.Type] = strings.TrimRight(e.URL, "/")
			}
		}
	}
}

// do makes a request; a server error of the SQLite behind it is tried again.
func (c *control) do(ctx context.Context, method, url string, body, into any) error {
	var err error
	for range 5 {
		if err = c.once(ctx, method, url, body, into); err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(500 * time.Millisecond)
	}
	return err
}

func (c *control) once(ctx context.Context, method, url string, body, into any) error {
	raw, _ := json.Marshal(body)
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	if body == nil {
		req.Body, req.ContentLength = http.NoBody, 0
	}
	req.Header.Set("X-Auth-Token", c.token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode >= 300:
		return fmt.Errorf("%s %s: %d %s", method, url, resp.StatusCode, b)
	case into == nil:
		return nil
	}
	return json.Unmarshal(b, into)
}

type novaServer struct {
	ID, Name, Status string
	Addresses        map[string][]struct{ Addr string }
}

func (c *control) servers(ctx context.Context) ([]novaServer, error) {
	var doc struct{ Servers []novaServer }
	return doc.Servers, c.do(ctx, "GET", c.urls["compute"]+"/servers/detail", nil, &doc)
}

// emulate runs a proxy for each server that is ACTIVE, and only for those.
func (c *control) emulate(ctx context.Context) {
	up := map[string]netip.Addr{}
	for ctx.Err() == nil {
		var doc struct{ Servers []novaServer }
		if err := c.do(ctx, "GET", c.urls["compute"]+"/servers/detail", nil, &doc); err == nil {
			now := map[string]netip.Addr{}
			for _, s := range doc.Servers {
				for _, all := range s.Addresses {
					if a, err := netip.ParseAddr(all[0].Addr); err == nil && s.Status == "ACTIVE" {
						now[s.ID] = a
						_ = c.machines.Start(ctx, s.ID, s.Name, a) // tried again in the next round
					}
				}
			}
			for id, a := range up {
				if _, runs := now[id]; !runs {
					_ = c.machines.Stop(ctx, id, a)
					c.machines.Release(a)
				}
			}
			up = now
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// inventory counts what the project has and Tollgate has made.
func (c *control) inventory(ctx context.Context) (string, error) {
	servers, err := c.servers(ctx)
	if err != nil {
		return "", err
	}
	var net struct {
		Ports       []struct{ Description string }
		Floatingips []struct{ Description string }
	}
	var vol struct{ Volumes []struct{ ID string } }
	for _, q := range []struct {
		url  string
		into any
	}{{c.urls["network"] + "/v2.0/ports?project_id=" + c.project, &net},
		{c.urls["network"] + "/v2.0/floatingips?project_id=" + c.project, &net}, {c.urls["volumev3"] + "/volumes/detail", &vol}} {
		if err := c.do(ctx, "GET", q.url, nil, q.into); err != nil {
			return "", err
		}
	}
	ports, ips := 0, 0
	for _, p := range net.Ports {
		if strings.HasPrefix(p.Description, "tg1/") {
			ports++
		}
	}
	for _, f := range net.Floatingips {
		if strings.HasPrefix(f.Description, "tg1/") {
			ips++
		}
	}
	return fmt.Sprintf("%d servers, %d ports, %d floating IPs, %d volumes", len(servers), ports, ips, len(vol.Volumes)), nil
}

// TestOpenStackFleet is the life of thirty proxies in the real control plane: made
// three at a time, stopped, deleted and broken behind our back, replaced, deleted.
// In the end there is nothing. A collector, down while servers break and are
// replaced, has the events of all of it, once.
func TestOpenStackFleet(t *testing.T) {
	const fleet, atOnce = 30, 3
	cloud := newControl(t)
	w := newWorld(t, settings{
		extra: "  cloud: {env: E2E_CLOUD_PASSWORD}",
		env:   []string{"E2E_CLOUD_PASSWORD=" + cloud.password},
		providers: fmt.Sprintf(`
  - name: cloud
    type: openstack
    drift: {interval: 10s}
    openstack:
      auth: {url: %s, username: demo, project: demo, password: cloud}
      flavor: m1.tiny
      image: cirros
      network: loopback
      volume: {sizeGB: 1}
      poll: 1s`, cloud.identity),
	})
	ctx, cancel := context.WithTimeout(t.Context(), 28*time.Minute)
	defer cancel()
	if got, err := cloud.inventory(ctx); err != nil || got != "0 servers, 0 ports, 0 floating IPs, 0 volumes" {
		t.Fatalf("before: %s, %v", got, err)
	}
	began := time.Now().Truncate(time.Second)
	collector := &stock{}
	collector.collect(t, fmt.Sprintf(`    type: openstack
    openstack: {kinds: [server, volume], auth: {url: %q, username: demo, project: demo, password: cloud}}`, cloud.identity), cloud.password)
	var names []string
	slots := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i := range fleet {
		name := fmt.Sprintf("egress-%d", i)
		names = append(names, name)
		slots <- struct{}{}
		w.start(ctx, name, func(s *api.ProxySpec) { s.Provider = "cloud" })
		all.Go(func() {
			defer func() { <-slots }()
			for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
				if p, err := w.status(ctx, name); err == nil && running(p) {
					return
				}
			}
			t.Errorf("%s does not run", name)
		})
	}
	all.Wait()
	t.Logf("%d proxies run and are proven after %v", fleet, time.Since(began).Round(time.Second))

	collector.counts(t, began, map[string]int{"server.create.end": fleet, "volume.create.end": fleet})
	collector.killWorker()

	// Drift: what happens to servers behind our back.
	byName := map[string]string{}
	servers, err := cloud.servers(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range servers {
		byName[s.Name] = s.ID
	}
	before := map[string]string{}
	for i, harm := range []func(url string) error{
		func(u string) error { return cloud.do(ctx, "POST", u+"/action", map[string]any{"os-stop": nil}, nil) },
		func(u string) error { return cloud.do(ctx, "DELETE", u, nil, nil) },
		func(u string) error {
			return cloud.do(ctx, "POST", u+"/action", map[string]any{"os-resetState": map[string]any{"state": "error"}}, nil)
		},
	} {
		for _, n := range names[i*2 : i*2+2] {
			p, err := w.status(ctx, n)
			if err != nil {
				t.Fatal(err)
			}
			before[n] = p.Status.InstanceName
			if err := harm(cloud.urls["compute"] + "/servers/" + byName[p.Status.InstanceName]); err != nil {
				t.Fatal(err)
			}
		}
	}
	for n, old := range before {
		w.waitFor(n, 5*time.Minute, "running on another instance", func(p api.Proxy) bool { return running(p) && p.Status.InstanceName != old })
	}
	replaced := names[6]
	old := w.waitFor(replaced, time.Minute, "running", running).Status.InstanceName
	if err := w.update(ctx, replaced, workflows.UpdateReplace, api.ReplaceInput{}, nil); err != nil {
		t.Fatal(err)
	}
	w.waitFor(replaced, 5*time.Minute, "replaced", func(p api.Proxy) bool { return running(p) && p.Status.InstanceName != old })
	w.eventually(3*time.Minute, func() string {
		if got, err := cloud.inventory(ctx); err != nil || got != fmt.Sprintf("%d servers, %d ports, 0 floating IPs, %d volumes", fleet, fleet, fleet) {
			return fmt.Sprintf("there are %s, %v", got, err)
		}
		return ""
	})
	collector.startWorker()
	const ever = fleet + 7 // servers that ever were
	collector.counts(t, began, map[string]int{"server.create.end": ever, "server.delete.end": 7, "server.power_off.end": 2, "volume.create.end": ever})
	for _, n := range names[7:] {
		if p := w.waitFor(n, time.Minute, "running", running); p.Status.Replacements != 0 {
			t.Errorf("%s was replaced %d times and nothing had happened to it", n, p.Status.Replacements)
		}
	}

	var deleted callers
	for _, n := range names {
		deleted.call(n, func() error { return w.delete(ctx, n) })
	}
	deleted.wantOneEach(t, names)
	if got, err := cloud.inventory(ctx); err != nil || got != "0 servers, 0 ports, 0 floating IPs, 0 volumes" {
		t.Errorf("after: %s, %v", got, err)
	}
	collector.counts(t, began, map[string]int{"server.create.end": ever, "server.delete.end": ever, "server.power_off.end": 2, "volume.create.end": ever})
	// Everything would end at once: that is held until somebody says that it is so.
	collector.inventory(11, "Held")
	collector.inventory(0, "Repaired", "--max-ends", "100")
	collector.counts(t, began, map[string]int{"server.create.end": ever, "server.delete.end": ever, "server.power_off.end": 2,
		"volume.create.end": ever, "volume.delete.end": ever})
	sizes := map[string]int{}
	for _, e := range collector.eventsSince(began) {
		if e.Type.Effect() == event.Opens || e.Type.Effect() == event.Closes {
			raw, err := json.Marshal(e.Data.Size)
			if err != nil {
				t.Fatal(err)
			}
			sizes[string(raw)]++
		}
	}
	want := map[string]int{`{"disk_gb":1,"flavor":"m1.tiny","ram_gb":0.5,"vcpus":1}`: 2 * ever, `{"size_gb":1,"type":"__DEFAULT__"}`: 2 * ever}
	if !maps.Equal(sizes, want) {
		t.Errorf("sizes %v, want %v", sizes, want)
	}
	t.Logf("all of it took %v", time.Since(began).Round(time.Second))
}

// counts waits until the reference server has so many events of each type, and no
// others, of what was made since a time: the project may have a past.
func (s *stock) counts(t *testing.T, since time.Time, want map[string]int) {
	t.Helper()
	s.eventually(2*time.Minute, func() string {
		got := map[string]int{}
		for _, e := range s.eventsSince(since) {
			got[string(e.Type)]++
		}
		if !maps.Equal(got, want) {
			return fmt.Sprintf("there are %v, want %v", got, want)
		}
		return ""
	})
}

// eventsSince are those of what was made since a time.
func (s *stock) eventsSince(since time.Time) (out []event.Event) {
	all, made := s.events(), map[string]bool{}
	for _, e := range all {
		made[e.Subject] = made[e.Subject] || e.Type.Effect() == event.Opens && !e.Time.Before(since)
	}
	for _, e := range all {
		if made[e.Subject] {
			out = append(out, e)
		}
	}
	return out
}
