package hetzner_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/hetzner/hetznersim"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/internal/source/hetzner"
	"github.com/tollgate-dev/tollgate/internal/source/sourcetest"
)

// Catching up with a long past takes a request and a quarter for each page,
// whatever there is, gives every change once, and needs no more of the cursor than
// any other reading. Somebody else can go on at any page.
func TestALongPast(t *testing.T) {
	t.Parallel()
	const actions, token = 10_000, "t"
	sim := hetznersim.New(hetznersim.Options{OneProject: token, RateLimit: -1, Timing: hetznersim.Uniform(0), Past: hetznersim.Past{
		Actions: actions, Began: time.Now().Add(-48 * time.Hour), Every: 16 * time.Second}})
	for i := range 120 {
		sim.PlaceServer(token, fmt.Sprintf("still-there-%d", i), nil)
	}
	srv := httptest.NewServer(sim)
	t.Cleanup(srv.Close)
	open := func() *hetzner.Source {
		list, err := hetzner.New(source.Config{Name: "test", Account: "acme",
			Secret: func(context.Context, string) (provider.Sensitive, error) {
				return provider.NewSensitive([]byte(token)), nil
			},
			Decode: func(into any) error {
				*into.(*hetzner.Options) = hetzner.Options{Token: "token", Endpoint: srv.URL + hetznersim.BasePath, Kinds: []string{"server"}}
				return nil
			}})
		if err != nil {
			t.Fatal(err)
		}
		return list[0]
	}
	s := open()
	seen := map[string]int{}
	var c source.Cursor
	pages, most := 0, 0
	for {
		if pages == 50 {
			s = open() // another process
		}
		p, err := s.Next(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range p.Items {
			seen[i.Event.ID]++
		}
		if len(p.Rejected) > 0 || p.Gap != nil {
			t.Fatalf("page %d: %+v", pages, p)
		}
		pages, c, most = pages+1, p.Next, max(most, len(p.Next))
		if p.CaughtUp {
			break
		}
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s: %d times", id, n)
		}
	}
	if len(seen) != actions || most > source.MaxCursor/8 {
		t.Errorf("%d changes, cursors of up to %d bytes", len(seen), most)
	}
	if n := sim.Count(""); n > actions/50*5/4+50 {
		t.Errorf("%d requests for %d pages of 50", n, actions/50)
	}
}

// What exists is listed once for many pages of old changes. A resource that has
// changed since the listing is not taken for what it was then; of one that is gone
// since, the listing knows what nobody else does.
func TestAnOldListing(t *testing.T) {
	t.Parallel()
	p := newPlatform(t)
	var volumes []int64
	for i := range 60 {
		var out made
		p.api("POST", "/volumes", obj{"name": fmt.Sprint("v", i), "size": 10 + i, "location": "fsn1"}, &out)
		volumes = append(volumes, out.Volume.ID)
	}
	p.mu.Lock()
	p.later = time.Hour
	p.mu.Unlock()
	var marker made
	p.api("POST", "/volumes", obj{"name": "marker", "size": 99, "location": "fsn1"}, &marker)
	s := p.open(t, event.Volume, sourcetest.OpenOptions{Credential: provider.NewSensitive([]byte(project))}, nil)
	first, err := s.Next(t.Context(), "")
	if err != nil || first.CaughtUp {
		t.Fatalf("%+v, %v", first, err)
	}
	// Between the pages the last ones change: one is resized, one goes.
	p.api("POST", fmt.Sprintf("/volumes/%d/actions/resize", volumes[58]), obj{"size": 500}, nil)
	p.api("DELETE", fmt.Sprintf("/volumes/%d", volumes[59]), nil, nil)
	rest := first.Items
	for c := first.Next; ; {
		page, err := s.Next(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		rest, c = append(rest, page.Items...), page.Next
		if page.CaughtUp {
			break
		}
	}
	// Listed for the past, and at the end for the sizes of what will go.
	if n, once := p.Count("GET /volumes"), (len(volumes)+pageSize)/pageSize; n > 2*once {
		t.Errorf("%d pages of volumes were read, %d are all", n, once)
	}
	got, want := map[string]string{}, map[string]string{}
	size := func(e event.Event) string { return fmt.Sprint(e.Data.Size[event.SizeGB], e.Data.UnknownSize) }
	for _, i := range rest {
		got[i.Event.Data.Resource.ID+" "+i.Event.Data.Change] = size(i.Event)
	}
	for i, id := range volumes {
		want[fmt.Sprint(id, " create")] = fmt.Sprint(event.Int(10+i), []string(nil))
	}
	want[fmt.Sprint(volumes[58], " create")] = fmt.Sprint(event.Value{}, []string{event.SizeGB})
	want[fmt.Sprint(marker.Volume.ID, " create")] = fmt.Sprint(event.Int(99), []string(nil))
	for k, v := range got {
		if _, ok := want[k]; !ok && v == fmt.Sprint(event.Int(500), []string(nil)) {
			want[k] = v // the resize
		}
	}
	if diff := cmp.Diff(got, want); diff != "" || len(got) != 62 {
		t.Errorf("%d sizes (-got +want):\n%s", len(got), diff)
	}
}
