package demoday_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/devserver/demoday"
	"github.com/tollgate-dev/tollgate/internal/devserver/demoday/daytest"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/hetzner/hetznersim"
	"github.com/tollgate-dev/tollgate/internal/reporting"
	"github.com/tollgate-dev/tollgate/internal/reporting/api"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/reporting/reportingserver"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/internal/source/hetzner"
)

const page = "../../../docs/tutorials/first-toll.md"

// stage is a simulator, a Reporting API, and somebody who reads the one into the
// other, without an engine.
type stage struct {
	t       *testing.T
	url     string
	client  *reporting.Client
	streams []source.Stream
	cursors []source.Cursor
}

func newStage(t *testing.T) *stage {
	t.Helper()
	sim := hetznersim.New(hetznersim.Options{Clock: hetznersim.NewClock(demoday.Begin), FirstID: demoday.FirstID, OneProject: "day",
		RateLimit: -1, Timing: hetznersim.Uniform(0)})
	cloud := httptest.NewServer(sim)
	t.Cleanup(cloud.Close)
	server, err := reportingserver.New(t.Context(), reportingserver.Options{Path: filepath.Join(t.TempDir(), "r.db")})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(server)
	t.Cleanup(func() {
		web.Close()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	s := &stage{t: t, url: cloud.URL}
	if s.client, err = reporting.New(reporting.Options{URL: web.URL}); err != nil {
		t.Fatal(err)
	}
	s.streams, err = hetzner.Type().New(t.Context(), source.Config{Name: "day", Account: demoday.Account, Known: s.known,
		Decode: func(into any) error {
			o := into.(*hetzner.Options)
			o.Token, o.Endpoint = "token", cloud.URL+hetznersim.BasePath
			return nil
		},
		Secret: func(context.Context, string) (provider.Sensitive, error) {
			return provider.NewSensitive([]byte("day")), nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	s.cursors = make([]source.Cursor, len(s.streams))
	return s
}

func (s *stage) known(ctx context.Context, p event.Platform, account string, resources []event.Resource) (map[event.Resource]source.Reported, error) {
	out := map[event.Resource]source.Reported{}
	for _, r := range resources {
		states, err := s.client.LastKnown(ctx, p, account, r.Type, []string{r.ID}, time.Now())
		if err != nil {
			return nil, err
		}
		if st, ok := states[r.ID]; ok {
			out[r] = source.Reported{Size: st.Size, Since: st.Since}
		}
	}
	return out, nil
}

// read reads and delivers for ever.
func (s *stage) read(ctx context.Context) {
	for i := 0; ctx.Err() == nil; i = (i + 1) % len(s.streams) {
		p, err := s.streams[i].Source.Next(ctx, s.cursors[i])
		if err != nil {
			continue // reads are held up now and then
		}
		var events []event.Event
		for _, item := range p.Items {
			events = append(events, item.Event)
		}
		if len(events) > 0 {
			if _, err := s.client.PostEvents(ctx, events); err != nil {
				continue
			}
		}
		s.cursors[i] = p.Next
	}
}

// inventory delivers the ends that have no action: of what was reported and is not
// listed.
func (s *stage) inventory(ctx context.Context) error {
	for _, stream := range s.streams {
		kind := event.ResourceType(stream.Name)
		if kind != event.Volume && kind != event.FloatingIP {
			continue
		}
		snapshot, err := stream.Source.(source.Lister).List(ctx)
		if err != nil {
			return err
		}
		there := map[string]bool{}
		for _, x := range snapshot.Resources {
			there[x.Resource.ID] = true
		}
		platform, account := string(event.Hetzner), demoday.Account
		open, err := s.client.Resources(ctx, api.ListResourcesParams{Platform: &platform, ExternalID: &account, ResourceType: &stream.Name})
		if err != nil {
			return err
		}
		for _, r := range open {
			if there[r.Resource.ID] {
				continue
			}
			e := event.New(event.TypeOf(kind, "delete"), snapshot.PlatformUntil, event.Data{Platform: event.Hetzner, Account: demoday.Account,
				Resource: r.Resource, Change: event.ChangeDelete, Size: r.Size, Derived: event.FromInventory})
			if _, err := s.client.PostEvents(ctx, []event.Event{e}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *stage) run(ctx context.Context, out *bytes.Buffer) (demoday.Result, error) {
	return demoday.Run(ctx, demoday.Options{Endpoint: s.url + hetznersim.BasePath, Admin: s.url + "/_sim", Token: "day",
		Reporting: s.client, Inventory: s.inventory, Out: out, Settle: time.Minute})
}

// The day comes to what the tutorial says, and does not happen twice.
func TestTheDayIsThatOfTheTutorial(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.read(ctx)
	}()
	defer func() { cancel(); <-done }()
	for _, again := range []bool{false, true} {
		var out bytes.Buffer
		r, err := s.run(t.Context(), &out)
		if err != nil {
			t.Fatalf("%v\n%s", err, out.String())
		}
		if r.Again != again || (out.Len() == 0) != again {
			t.Errorf("again is %v, want %v; it says\n%s", r.Again, again, out.String())
		}
		tutorial := daytest.Read(t, page)
		if diff := cmp.Diff(demoday.Rows(r.Usage), tutorial.Usage()); diff != "" {
			t.Errorf("usage, tutorial:\n%s", diff)
		}
		var events []daytest.Event
		for _, e := range r.Events {
			events = append(events, daytest.Event{Time: e.Time, Type: string(e.Type)})
		}
		if diff := cmp.Diff(events, tutorial.Events()); diff != "" {
			t.Errorf("events, tutorial:\n%s", diff)
		}
	}
	if post, err := http.Post(s.url+"/_sim/clock", "application/json", strings.NewReader(`{"now":"2026-03-15T01:00:00Z"}`)); err != nil || post.Body.Close() != nil {
		t.Fatal(err)
	}
	if r, err := s.run(t.Context(), new(bytes.Buffer)); err != nil || !r.Again {
		t.Errorf("an hour later: %+v, %v", r.Again, err)
	}
}

// What does not arrive is named, and a day that was broken off says so.
func TestADayWithoutAReader(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	var out bytes.Buffer
	_, err := demoday.Run(t.Context(), demoday.Options{Endpoint: s.url + hetznersim.BasePath, Admin: s.url + "/_sim", Token: "day",
		Reporting: s.client, Inventory: s.inventory, Out: &out, Settle: 200 * time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "2026-03-13 12:00, volume data is created: 10 GB: not reported after 200ms: [hetzner/day/volume/1001/create]") {
		t.Errorf("got %v", err)
	}
	if _, err := s.run(t.Context(), &out); err == nil || !strings.Contains(err.Error(), "was broken off at 2026-03-13 12:00 of its clock") {
		t.Errorf("got %v", err)
	}
}
