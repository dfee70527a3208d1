package hetzner_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/budget"
	"github.com/tollgate-dev/tollgate/internal/provider/hetzner/hetznersim"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/internal/source/hetzner"
	"github.com/tollgate-dev/tollgate/internal/source/sourcetest"
)

// What is tested here went wrong in public with other collectors: see "Failures we
// test for" in docs/explanation.

// cloud is the vendor's simulator with a clock that stands still.
type cloud struct {
	t   *testing.T
	sim *hetznersim.Sim
	*hetznersim.Clock
	url string
}

func newCloud(t *testing.T, o hetznersim.Options) *cloud {
	t.Helper()
	c := &cloud{t: t, Clock: hetznersim.NewClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))}
	o.Clock, o.OneProject = c.Clock, project
	c.sim = hetznersim.New(o)
	srv := httptest.NewServer(c.sim)
	t.Cleanup(srv.Close)
	c.url = srv.URL + hetznersim.BasePath
	return c
}

func (c *cloud) source(kind event.ResourceType, transport provider.Transport) *hetzner.Source {
	c.t.Helper()
	list, err := hetzner.New(source.Config{Name: "test", Account: sourcetest.Account, Transport: transport,
		Secret: func(context.Context, string) (provider.Sensitive, error) {
			return provider.NewSensitive([]byte(project)), nil
		},
		Decode: func(into any) error {
			*into.(*hetzner.Options) = hetzner.Options{Token: "token", Endpoint: c.url, Kinds: []string{string(kind)}}
			return nil
		}})
	if err != nil {
		c.t.Fatal(err)
	}
	list[0].SetClock(c.Now)
	return list[0]
}

func (c *cloud) post(path string, body obj) (m made) {
	c.t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		c.t.Fatal(err)
	}
	req := httptest.NewRequest(http.MethodPost, hetznersim.BasePath+path, bytes.NewReader(b))
	req.Header.Set("Authorization", "Bearer "+project)
	w := httptest.NewRecorder()
	if c.sim.ServeHTTP(w, req); w.Code >= 300 {
		c.t.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &m); err != nil {
		c.t.Fatal(err)
	}
	return m
}

func (c *cloud) server(name string) string {
	m := c.post("/servers", obj{"name": name, "server_type": "cx23", "image": "debian-13", "location": "fsn1"})
	return eventID(event.Server, m.Server.ID, event.ChangeCreate)
}

func (c *cloud) volume(name string) string {
	return eventID(event.Volume, c.post("/volumes", obj{"name": name, "size": 10, "location": "fsn1"}).Volume.ID, event.ChangeCreate)
}

// read reads from a cursor to the end. between is called after each page but the
// last.
func read(t *testing.T, s source.Source, c source.Cursor, between func()) (items []source.Item, next source.Cursor, last source.Page) {
	t.Helper()
	for range 1000 {
		p, err := s.Next(t.Context(), c)
		if err != nil || len(p.Rejected) > 0 {
			t.Fatalf("%+v, %v", p.Rejected, err)
		}
		items, c = append(items, p.Items...), p.Next
		if p.CaughtUp {
			return items, c, p
		}
		if between != nil {
			between()
		}
	}
	t.Fatal("it never catches up")
	return nil, "", source.Page{}
}

// ids are those of the items that keep is true of, sorted; one that is there twice
// is there twice.
func ids(items []source.Item, keep func(source.Item) bool) []string {
	out := []string{}
	for _, i := range items {
		if keep == nil || keep(i) {
			out = append(out, i.Event.ID)
		}
	}
	slices.Sort(out)
	return out
}

func created(i source.Item) bool { return i.Event.Data.Change == event.ChangeCreate }

// Sixty servers on pages of any size, while more come between any two pages.
func TestEveryPageIsRead(t *testing.T) {
	t.Parallel()
	for _, size := range []int{25, 50} {
		c := newCloud(t, hetznersim.Options{RateLimit: -1, Timing: hetznersim.Uniform(0), MaxPerPage: size})
		var want []string
		for i := range 60 {
			want = append(want, c.server(fmt.Sprintf("s-%d", i)))
			c.Advance(time.Second)
		}
		s := c.source(event.Server, nil)
		more := 0
		items, _, _ := read(t, s, "", func() {
			for range 3 {
				more++
				want = append(want, c.server(fmt.Sprintf("between-%d", more)))
			}
		})
		slices.Sort(want)
		if diff := cmp.Diff(ids(items, created), want); diff != "" || more == 0 {
			t.Errorf("pages of %d, %d between (-got +want):\n%s", size, more, diff)
		}
		if all := ids(items, nil); len(slices.Compact(slices.Clone(all))) != len(all) {
			t.Errorf("pages of %d: something was read twice", size)
		}
		snap, err := s.List(t.Context())
		if err != nil || len(snap.Resources) != 60+more {
			t.Errorf("pages of %d: %d of %d servers are listed, %v", size, len(snap.Resources), 60+more, err)
		}
	}
}

// Changes of one second, some of which come after the others were read.
func TestTheSameSecond(t *testing.T) {
	t.Parallel()
	c := newCloud(t, hetznersim.Options{RateLimit: -1, Timing: hetznersim.Uniform(0)})
	before := c.volume("before")
	c.Advance(time.Minute)
	boundary := c.Now()
	var want []string
	for i := range 3 {
		want = append(want, c.volume(fmt.Sprintf("first-%d", i)))
	}
	s := c.source(event.Volume, nil)
	items, cursor, _ := read(t, s, "", nil)
	if n := len(items); n != 4 {
		t.Fatalf("%d items", n)
	}
	var later []string
	for i := range 5 {
		later = append(later, c.volume(fmt.Sprintf("second-%d", i)))
	}
	slices.Sort(later)
	items, _, _ = read(t, s, cursor, nil)
	if diff := cmp.Diff(ids(items, nil), later); diff != "" {
		t.Errorf("later in the second (-got +want):\n%s", diff)
	}
	from, err := s.Seek(t.Context(), boundary)
	if err != nil {
		t.Fatal(err)
	}
	items, _, _ = read(t, s, from, nil)
	want = append(want, later...)
	slices.Sort(want)
	if diff := cmp.Diff(ids(items, func(i source.Item) bool { return i.Event.ID != before }), want); diff != "" {
		t.Errorf("from the second on (-got +want):\n%s", diff)
	}
}

// A change that ends 40 minutes after it began, and after many others, is read
// when it ends, once, with the time of its end.
func TestEndsFortyMinutesLater(t *testing.T) {
	t.Parallel()
	c := newCloud(t, hetznersim.Options{RateLimit: -1, Timing: hetznersim.Timing{Init: 40 * time.Minute, Start: -1, Stop: -1, Delete: -1, Action: -1}})
	begun := c.Now()
	slow := c.server("slow")
	s := c.source(event.Server, nil)
	var all []source.Item
	var cursor source.Cursor
	c.sim.PlaceServer(project, "busy", nil)
	busy := c.sim.Servers(project)[1].ID
	for minute := range 45 {
		for _, verb := range []string{"poweroff", "poweron", "poweroff", "poweron"} {
			c.post(fmt.Sprintf("/servers/%d/actions/%s", busy, verb), obj{})
		}
		items, next, last := read(t, s, cursor, nil)
		if waits := minute < 40; (last.Pending > 0) != waits {
			t.Fatalf("minute %d: %d pending", minute, last.Pending)
		}
		all, cursor = append(all, items...), next
		c.Advance(time.Minute)
	}
	got := slices.DeleteFunc(slices.Clone(all), func(i source.Item) bool { return i.Event.ID != slow })
	if len(got) != 1 || !got[0].Event.Time.Equal(begun.Add(40*time.Minute)) {
		t.Errorf("the slow one: %+v", got)
	}
	if n := len(slices.Compact(ids(all, nil))); n != len(all) || n < 45*4 {
		t.Errorf("%d items, %d different", len(all), n)
	}
}

// A collector that was away finds what it missed; what the vendor no longer has is
// a gap with its bounds.
func TestAwayForLong(t *testing.T) {
	t.Parallel()
	p := newPlatform(t)
	s := p.open(t, event.Volume, sourcetest.OpenOptions{Credential: provider.NewSensitive([]byte(project))}, nil)
	p.volume(10)
	items, cursor, _ := read(t, s, "", nil)
	if len(items) != 1 {
		t.Fatalf("%d items", len(items))
	}
	from := items[0].Event.Time
	p.mu.Lock()
	p.later += 72 * time.Hour
	p.mu.Unlock()
	missed := p.Change(t)
	items, cursor, last := read(t, s, cursor, nil)
	if diff := cmp.Diff(ids(items, nil), missed); diff != "" || last.Gap != nil {
		t.Errorf("after three days: gap %v (-got +want):\n%s", last.Gap, diff)
	}
	p.mu.Lock()
	p.later += 91 * 24 * time.Hour
	p.mu.Unlock()
	p.Forget(t)
	fresh := p.Change(t)
	page, err := s.Next(t.Context(), cursor)
	if err != nil {
		t.Fatal(err)
	}
	if page.Gap == nil || !page.Gap.From.After(from) || page.Gap.To.Sub(page.Gap.From) < 90*24*time.Hour ||
		!regexp.MustCompile(`^gap from 20\S+Z to 20\S+Z$`).MatchString(page.Gap.String()) {
		t.Errorf("after 91 more: gap %v", page.Gap)
	}
	if diff := cmp.Diff(ids(page.Items, nil), fresh); diff != "" {
		t.Errorf("after 91 more (-got +want):\n%s", diff)
	}
}

// An answer that lacks whatever it may lack costs sizes, and no event.
func TestMissingObjects(t *testing.T) {
	t.Parallel()
	c := newCloud(t, hetznersim.Options{RateLimit: -1, Timing: hetznersim.Uniform(0)})
	var want []string
	for i := range 12 {
		want = append(want, c.server(fmt.Sprintf("s-%d", i)))
	}
	slices.Sort(want)
	c.sim.AddFault(hetznersim.Fault{Kind: hetznersim.FaultOmit, Method: http.MethodGet, Path: "/servers", Times: -1, Object: "s-3"})
	s := c.source(event.Server, nil)
	items, _, _ := read(t, s, "", nil)
	if diff := cmp.Diff(ids(items, created), want); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
	known := 0
	for _, i := range items {
		if created(i) && len(i.Event.Data.UnknownSize) == 0 {
			known++
		}
	}
	if known < 11 {
		t.Errorf("%d of 12 sizes are known: one lacks something", known)
	}
	if snap, err := s.List(t.Context()); err != nil || len(snap.Resources) != 12 {
		t.Errorf("%d servers are listed, %v", len(snap.Resources), err)
	}
}

// An hour of reading all kinds every minute, of a project with 200 servers in which
// 20 more are made at once, takes less than a tenth of what the vendor allows.
func TestAnHourOfReading(t *testing.T) {
	t.Parallel()
	c := newCloud(t, hetznersim.Options{Timing: hetznersim.Uniform(0)})
	for i := range 200 {
		c.sim.PlaceServer(project, fmt.Sprintf("s-%d", i), nil)
	}
	kinds := []event.ResourceType{event.Server, event.Volume, event.FloatingIP, event.LoadBalancer}
	sources, cursors := map[event.ResourceType]*hetzner.Source{}, map[event.ResourceType]source.Cursor{}
	for _, k := range kinds {
		sources[k] = c.source(k, nil)
	}
	for minute := range 60 {
		if minute == 30 {
			for i := range 20 {
				c.server(fmt.Sprintf("new-%d", i))
			}
			c.sim.ForgetRequests()
		}
		for _, k := range kinds {
			_, cursors[k], _ = read(t, sources[k], cursors[k], nil)
		}
		c.Advance(time.Minute)
	}
	half := c.sim.Count("")
	if n := 2 * half; n > hetznersim.DefaultRateLimit/10 {
		t.Errorf("%d requests in an hour: the half with the new servers had %d", n, half)
	}
}

// When the account runs low, reading stops while creates and deletes go on.
func TestReadingStopsFirst(t *testing.T) {
	t.Parallel()
	c := newCloud(t, hetznersim.Options{Timing: hetznersim.Uniform(0)})
	accounts := budget.New(nil)
	s := c.source(event.Volume, accounts.Transport("source/test"))
	driver := &http.Client{Transport: accounts.Transport("cloud")(http.DefaultTransport, "")}
	ask := func(op provider.Op) error {
		ctx, cancel := context.WithTimeout(provider.ContextWithOp(t.Context(), op), 3*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+"/locations", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+project)
		resp, err := driver.Do(req)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	}
	// A foreign tool leaves less than collectors may use, and more than creates may.
	for range hetznersim.DefaultRateLimit - 500 {
		r := httptest.NewRequest(http.MethodGet, hetznersim.BasePath+"/locations", nil)
		r.Header.Set("Authorization", "Bearer "+project)
		c.sim.ServeHTTP(httptest.NewRecorder(), r)
	}
	if err := ask(provider.OpCreate); err != nil { // so that the budget knows
		t.Fatal(err)
	}
	var refused error
	for range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, err := s.Next(ctx, "")
		cancel()
		if err != nil {
			refused = err
		}
	}
	if refused == nil || provider.ClassOf(refused) != provider.RateLimited && provider.ClassOf(refused) != provider.Transient {
		t.Errorf("reading: %v, want it refused", refused)
	}
	for _, op := range []provider.Op{provider.OpCreate, provider.OpDelete} {
		for range 10 {
			if err := ask(op); err != nil {
				t.Errorf("%s: %v", op, err)
			}
		}
	}
}
