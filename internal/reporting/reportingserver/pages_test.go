package reportingserver

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/tollgate-dev/tollgate/internal/reporting/api"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
)

// browser keeps cookies and follows redirects.
func (g *rig) browser() *http.Client {
	jar, err := cookiejar.New(nil)
	if err != nil {
		g.tb.Fatal(err)
	}
	return &http.Client{Jar: jar}
}

// visit opens a page and returns its status, path and HTML.
func (g *rig) visit(c *http.Client, path string) (int, string, string) {
	g.tb.Helper()
	resp, err := c.Get(g.url + path)
	if err != nil {
		g.tb.Fatal(err)
	}
	return g.page(resp)
}

func (g *rig) page(resp *http.Response) (int, string, string) {
	g.tb.Helper()
	b, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		g.tb.Fatal(err)
	}
	return resp.StatusCode, resp.Request.URL.RequestURI(), string(b)
}

var tags = regexp.MustCompile(`<[^>]*>`)

// words is the text of a page with single spaces.
func words(html string) string {
	return strings.Join(strings.Fields(tags.ReplaceAllString(html, " ")), " ")
}

// fill delivers what the pages show.
func (g *rig) fill() (acme, tenant api.Project) {
	g.tb.Helper()
	lived := on(event.ServerDelete, at("09:00:03"), "43", "delete", nil)
	lived.Data.UnknownSize = []string{event.VCPUs}
	ip := on(event.FloatingIPDelete, at("12:00"), "5", "delete", nil)
	before := at("11:50")
	ip.Data.Derived, ip.Data.NotBefore = event.FromInventory, &before
	slash := event.New(event.RepositoryPush, at("06:00"), event.Data{Platform: event.Harbor, Account: "team", Resource: event.Resource{Type: event.Repository, ID: "team/app?<b>"},
		Change: "push:1", Size: event.Size{event.StorageGB: event.Float(1.5)}, Counters: event.Size{"pushes": event.Int(1)}})
	off := on(event.ServerPowerOff, at("12:00"), "42", "action:2", nil)
	results := g.deliver(
		on(event.ServerCreate, at("06:00"), "42", "create", server(2)), on(event.ServerUpgrade, at("10:00"), "42", "action:1", server(4)), off,
		on(event.ServerCreate, at("09:00"), "43", "create", nil), lived,
		on(event.VolumeCreate, at("00:00"), "7", "create", gb(10)),
		on(event.FloatingIPCreate, at("00:00"), "5", "create", nil), ip,
		on(event.VolumeDelete, at("05:00"), "99", "delete", nil), slash,
	)
	if got := outcomes(results); strings.Contains(got, "rejected") {
		g.tb.Fatalf("outcomes %s: %+v", got, results)
	}
	acme, tenant = g.project("hetzner", "acme"), g.project("openstack", "shoot-abc")
	from := at("06:00")
	g.json(http.MethodPost, "/api/v1/projects/"+acme.ID+"/relations", api.RelationCreate{TargetID: tenant.ID, RelationType: "infrastructure_tenant",
		ValidFrom: &from, Metadata: &map[string]string{"shoot_name": "abc"}}, nil)
	return acme, tenant
}

func TestPagesShowEverything(t *testing.T) {
	t.Parallel()
	g := newRig(t, nil)
	acme, tenant := g.fill()
	team := g.project("harbor", "team")
	c := g.browser()
	for path, want := range map[string][]string{
		"/": {"hetzner acme Project acme 5 9 2026-11-03 00:00", "openstack shoot-abc"},
		"/projects/" + acme.ID + "?from=2026-11-02&to=2026-11-03": {
			"server active cx22 6 h", "vcpus 16", "server off cx22 12 h disk_gb 480", "server active 3 s 3 s: disk_gb, ram_gb, server_type, vcpus", "1 × end_without_start",
			"ended after 2026-11-02 11:50", "hetzner acme infrastructure_tenant openstack shoot-abc 2026-11-02 06:00 – open shoot_name abc",
			"server 42 name-42 off disk_gb 40 ram_gb 4 server_type cx22 vcpus 4", "server.power_off.end server/42 name-42 action:2", "from inventory",
			"← 2026-10", "unknown for 3 s: disk_gb, ram_gb, server_type, vcpus",
		},
		"/projects/" + acme.ID:                                    {"← 2026-10 November 2026 Month", "what has not ended counts until now, 2026-11-03 00:00"},
		"/projects/" + acme.ID + "?month=2026-10":                 {"← 2026-09 October 2026 2026-11 →", "Nothing existed in this period. The latest event that came is of 2026-11"},
		"/projects/" + tenant.ID:                                  {"Nothing existed in this period.", "hetzner acme infrastructure_tenant"},
		"/projects/" + acme.ID + "/events":                        {"server.upgrade.end server/42", "volume.create.end"},
		"/projects/" + acme.ID + "/events?type=volume.create.end": {"volume.create.end volume/7 name-7 size_gb 10 create"},
		"/projects/" + acme.ID + "/events?resource_type=server&resource_id=42&from=2026-11-03": {"No event is like that."},
		"/projects/" + acme.ID + "/resources/server/42":                                        {"2026-11-02 06:00 – still there", "2026-11-02 10:00 2026-11-02 12:00 active"},
		"/projects/" + acme.ID + "/resources/volume/99":                                        {"end_without_start", "No event says that it existed."},
		"/projects/" + team.ID + "?from=2026-11-02&to=2026-11-03":                              {"repository pushes 1", "team/app?&lt;b&gt;"},
	} {
		code, _, html := g.visit(c, path)
		text := words(html)
		for _, w := range want {
			if code != http.StatusOK || !strings.Contains(text, w) {
				t.Errorf("%s: status %d, lacks %q\n%s", path, code, w, text)
			}
		}
		if strings.Contains(html, "http://") || strings.Contains(html, "https://") || strings.Contains(html, "<script") {
			t.Errorf("%s has something from elsewhere", path)
		}
	}
	for path, want := range map[string]int{"/projects/none": 404, "/projects/" + acme.ID + "/resources/server/44": 404, "/nothing": 404,
		"/projects/" + acme.ID + "?from=tomorrow": 400, "/projects/" + acme.ID + "?from=2026-11-03&to=2026-11-02": 400,
		"/projects/" + acme.ID + "?month=2026-13": 400, "/projects/" + acme.ID + "/events?from=x": 400} {
		if code, _, _ := g.visit(c, path); code != want {
			t.Errorf("%s: status %d, want %d", path, code, want)
		}
	}
}

func TestEveryLinkOfThePagesLeadsSomewhere(t *testing.T) {
	t.Parallel()
	g := newRig(t, nil)
	g.fill()
	var many []event.Event
	for i := range 120 { // enough for further pages
		many = append(many, on(event.VolumeCreate, at("08:00"), "many-"+strings.Repeat("x", i+1), "create", gb(1)))
	}
	g.deliver(many...)
	c, link := g.browser(), regexp.MustCompile(`href="([^"]*)"`)
	seen, todo := map[string]bool{}, []string{"/"}
	for len(todo) > 0 {
		path := todo[0]
		todo = todo[1:]
		if _, month, is := strings.Cut(path, "?month="); seen[path] || is && month < "2026" { // months go back for long
			continue
		}
		seen[path] = true
		code, at, html := g.visit(c, path)
		if code != http.StatusOK {
			t.Errorf("%s: status %d", path, code)
		}
		base, err := url.Parse(at)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(html, -1) {
			next, err := base.Parse(strings.ReplaceAll(m[1], "&amp;", "&"))
			if err != nil {
				t.Errorf("%s links to %q: %v", path, m[1], err)
				continue
			}
			todo = append(todo, next.RequestURI())
		}
	}
	if len(seen) < 125 {
		t.Errorf("only %d pages were reached", len(seen))
	}
}

func TestPagesWantASignIn(t *testing.T) {
	t.Parallel()
	g := newRig(t, withToken("secret"))
	c := g.browser()
	const page = "/projects/x?from=2026-11-02"
	code, at, html := g.visit(c, page)
	if code != http.StatusOK || !strings.HasPrefix(at, "/login?next=") || !strings.Contains(html, `value="/projects/x?from=2026-11-02"`) {
		t.Errorf("without a session: status %d at %s\n%s", code, at, html)
	}
	sign := func(token, next string) (int, string, string) {
		resp, err := c.PostForm(g.url+"/login", url.Values{"token": {token}, "next": {next}})
		if err != nil {
			t.Fatal(err)
		}
		return g.page(resp)
	}
	if code, _, html := sign("wrong", "/"); code != http.StatusUnauthorized || !strings.Contains(html, "not the right one") {
		t.Errorf("a wrong token: status %d\n%s", code, html)
	}
	if _, at, _ := g.visit(c, "/"); !strings.HasPrefix(at, "/login") {
		t.Errorf("a wrong token opens %s", at)
	}
	for next, want := range map[string]string{"/?a=b": "/?a=b", "//evil.example": "/", "https://evil.example/": "/", `/\evil.example`: "/", "": "/"} {
		if code, at, _ := sign("secret", next); code != http.StatusOK || at != want {
			t.Errorf("next %q leads to %s with status %d, want %s", next, at, code, want)
		}
	}
	// A link with the token signs in too.
	for query, want := range map[string]string{"?token=wrong": "/login?token=wrong", "?token=secret": "/", "?token=secret&next=//evil.example": "/"} {
		if _, at, _ := g.visit(g.browser(), "/login"+query); at != want {
			t.Errorf("%s leads to %s, want %s", query, at, want)
		}
	}
	// The session of one token is none with another.
	other := newRig(t, withToken("other"))
	u, err := url.Parse(g.url)
	if err != nil {
		t.Fatal(err)
	}
	jar := other.browser()
	o, err := url.Parse(other.url)
	if err != nil {
		t.Fatal(err)
	}
	jar.Jar.SetCookies(o, c.Jar.Cookies(u))
	if _, at, _ := other.visit(jar, "/"); !strings.HasPrefix(at, "/login") {
		t.Errorf("a foreign session opens %s", at)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.url+"/api/v1/projects", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if code, _, _ := g.page(resp); code != http.StatusUnauthorized {
		t.Errorf("the API takes a session of the pages: status %d", code)
	}
}
