package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tollgate-dev/tollgate/internal/reporting/api"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/reporting/usage"
)

func openStore(t *testing.T, path string) *Store {
	t.Helper()
	s, err := Open(t.Context(), path, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

var start = time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)

// anything draws events of a few resources that need not make sense.
func anything(t *rapid.T, account string) []event.Event {
	var events []event.Event
	for range rapid.IntRange(1, 25).Draw(t, "n") {
		types := []event.Type{event.ServerCreate, event.ServerDelete, event.ServerUpgrade, event.ServerPowerOff, event.ServerPowerOn}
		d := event.Data{Platform: event.Hetzner, Account: account}
		field := event.VCPUs
		if rapid.Bool().Draw(t, "repository") {
			d.Platform, field = event.Harbor, event.StorageGB
			types = []event.Type{event.RepositoryPush, event.RepositoryPull, event.RepositoryPull, event.RepositoryDelete}
		}
		typ := rapid.SampledFrom(types).Draw(t, "type")
		d.Resource = event.Resource{Type: typ.Resource(), ID: fmt.Sprint(rapid.IntRange(1, 3).Draw(t, "id"))}
		d.Change = event.Change("action", fmt.Sprint(rapid.IntRange(0, 6).Draw(t, "change")))
		d.Sequence = int64(rapid.IntRange(0, 3).Draw(t, "sequence"))
		if rapid.Bool().Draw(t, "sized") {
			d.Size = event.Size{field: event.Float(float64(rapid.IntRange(1, 5).Draw(t, "size")) / 2)}
		} else if rapid.Bool().Draw(t, "unknown") {
			d.UnknownSize = []string{field}
		}
		if d.Platform == event.Hetzner && rapid.Bool().Draw(t, "word") {
			if d.Size == nil {
				d.Size = event.Size{}
			}
			d.Size[event.ServerType] = event.Text(rapid.SampledFrom([]string{"cx23", "cx33"}).Draw(t, "type"))
		}
		if rapid.Bool().Draw(t, "derived") {
			d.Derived = event.FromInventory
		}
		if d.Platform == event.Harbor && rapid.Bool().Draw(t, "counting") {
			d.Counters = event.Size{"bytes": event.Float(float64(rapid.IntRange(0, 9).Draw(t, "bytes")) / 4)}
		}
		at := start.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "time")) * 1500 * time.Millisecond)
		events = append(events, event.New(typ, at, d))
	}
	return events
}

// figures are everything that a usage view shows of a project.
type figures struct {
	Groups    []usage.Total
	Counters  []usage.CounterTotal
	Findings  map[string]int
	Resources int
	Used      []event.Resource
	Living    []event.Resource
}

// wanted reads all events, as the definition says.
func wanted(events []event.Event, p event.Platform, period usage.Period) figures {
	by := map[event.Resource][]event.Event{}
	for _, e := range events {
		if e.Data.Platform == p {
			by[e.Data.Resource] = append(by[e.Data.Resource], e)
		}
	}
	var keys []event.Resource
	for r := range by {
		keys = append(keys, r)
	}
	slices.SortFunc(keys, func(a, b event.Resource) int { return cmpString(a.ID, b.ID) })
	f := figures{Findings: map[string]int{}}
	var sum usage.Totals
	for _, k := range keys {
		tl := usage.Build(by[k])
		for _, x := range tl.Findings {
			if period.Holds(x.Time) {
				f.Findings[string(x.Code)]++
			}
		}
		if _, _, alive, _ := tl.At(period.AsOf); alive {
			f.Living = append(f.Living, k)
		}
		if u, ok := tl.Of(period); ok {
			sum.Add(u)
			f.Used = append(f.Used, k)
		}
	}
	f.Groups, f.Counters, f.Resources = sum.Groups(), sum.Counters(), sum.Resources
	return f
}

func cmpString(a, b string) int {
	if a < b {
		return -1
	}
	return 1
}

// computed asks the store, page by page.
func computed(ctx context.Context, s *Store, p Project, period usage.Period) (figures, error) {
	sums, err := s.Usage(ctx, p, period)
	if err != nil {
		return figures{}, err
	}
	f := figures{Groups: sums.Groups(), Counters: sums.Counters(), Findings: sums.Findings, Resources: sums.Resources}
	after := event.Resource{}
	for {
		page, err := s.Used(ctx, p, period, string(after.Type), after.ID, 2)
		if err != nil {
			return f, err
		}
		for _, r := range page {
			after = event.Resource{Type: event.ResourceType(r.Key.Type), ID: r.Key.ID}
			f.Used = append(f.Used, after)
		}
		if len(page) < 2 {
			break
		}
	}
	living, err := s.Living(ctx, p, period.AsOf, 100)
	for _, r := range living {
		f.Living = append(f.Living, event.Resource{Type: event.ResourceType(r.Key.Type), ID: r.Key.ID})
	}
	return f, err
}

// What is added up from spans is what reading all events gives, whatever came in
// which order, in which batches, and with usage asked for in between.
func TestSpansGiveTheFiguresOfTheEvents(t *testing.T) {
	t.Parallel()
	s := openStore(t, filepath.Join(t.TempDir(), "r.db"))
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		n++
		account := fmt.Sprint("account-", n)
		events := anything(t, account)
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		sent := slices.Concat(events, events[:len(events)/2])
		r.Shuffle(len(sent), func(i, j int) { sent[i], sent[j] = sent[j], sent[i] })
		second := func(label string) time.Time {
			return start.Add(time.Duration(rapid.IntRange(0, 62).Draw(t, label)) * time.Second)
		}
		period := usage.Period{From: second("from"), AsOf: second("as of")}
		period.To = period.From.Add(time.Duration(rapid.IntRange(0, 60).Draw(t, "length")) * time.Second)
		projects := map[event.Platform]Project{}
		for _, p := range []event.Platform{event.Hetzner, event.Harbor} {
			project, _, err := s.CreateProject(ctx, api.ProjectCreate{Platform: string(p), ExternalID: account})
			if err != nil {
				t.Fatal(err)
			}
			projects[p] = project
		}
		for chunk := range slices.Chunk(sent, 1+r.IntN(len(sent))) {
			if _, err := s.Ingest(ctx, chunk); err != nil {
				t.Fatal(err)
			}
			if r.IntN(2) == 0 {
				if _, err := computed(ctx, s, projects[event.Hetzner], period); err != nil {
					t.Fatal(err)
				}
			}
		}
		for p, project := range projects {
			got, err := computed(ctx, s, project, period)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(got, wanted(events, p, period)); diff != "" {
				t.Fatalf("%s: got, want:\n%s", p, diff)
			}
		}
	})
}

// Usage is right while events come in, and never shows what an answer before it
// did not know.
func TestUsageWhileEventsComeIn(t *testing.T) {
	t.Parallel()
	s := openStore(t, filepath.Join(t.TempDir(), "r.db"))
	p, _, err := s.CreateProject(t.Context(), api.ProjectCreate{Platform: "hetzner", ExternalID: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	const all = 400
	done := make(chan error, 1)
	go func() {
		for i := range all {
			e := event.New(event.VolumeCreate, start, event.Data{Platform: event.Hetzner, Account: "acme", Change: event.ChangeCreate,
				Resource: event.Resource{Type: event.Volume, ID: fmt.Sprint(i)}, Size: event.Size{event.SizeGB: event.Int(10)}})
			if _, err := s.Ingest(context.Background(), []event.Event{e}); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	period := usage.Period{From: start, To: start.Add(time.Hour), AsOf: start.Add(time.Hour)}
	for before, ended := 0, false; before < all; {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			ended = true
		default:
		}
		sums, err := s.Usage(t.Context(), p, period)
		if err != nil {
			t.Fatal(err)
		}
		if sums.Resources < before {
			t.Fatalf("%d resources after %d", sums.Resources, before)
		}
		if before = sums.Resources; ended && before != all {
			t.Fatalf("%d resources at the end, want %d", before, all)
		}
	}
}

// A database from before there were spans has the same figures.
func TestADatabaseWithoutSpansIsBroughtUpToDate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "r.db")
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	exec := func(query string, args ...any) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), query, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec(`CREATE TABLE migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL, ran_at INTEGER NOT NULL) STRICT`)
	for i, name := range []string{"0001_start", "0002_relation_key"} {
		script, err := migrations.ReadFile("migrations/" + name + ".sql")
		if err != nil {
			t.Fatal(err)
		}
		exec(string(script))
		exec(`INSERT INTO migrations VALUES (?, ?, 0)`, i+1, name)
	}
	exec(`INSERT INTO projects VALUES (1, 'p', 'harbor', 'team', '', 1, 0)`)
	exec(`INSERT INTO resources VALUES (1, 1, 'repository', 'app')`)
	var events []event.Event
	for i, typ := range []event.Type{event.RepositoryPush, event.RepositoryPull} {
		e := event.New(typ, start.Add(time.Duration(i)*time.Second), event.Data{Platform: event.Harbor, Account: "team",
			Resource: event.Resource{Type: event.Repository, ID: "app"}, Change: event.Change("x", fmt.Sprint(i)),
			Counters: event.Size{"n": event.Float(1.5)}})
		if typ == event.RepositoryPush {
			e.Data.Size = event.Size{event.StorageGB: event.Int(2)}
		}
		body, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		exec(`INSERT INTO events (id, project, resource, type, time, received_at, body) VALUES (?, 1, 1, ?, ?, 0, ?)`, e.ID, string(typ), e.Time.UnixNano(), body)
		events = append(events, e)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, path)
	p, err := s.Project(t.Context(), "p")
	if err != nil {
		t.Fatal(err)
	}
	period := usage.Period{From: start, To: start.Add(time.Minute), AsOf: start.Add(time.Minute)}
	got, err := computed(t.Context(), s, p, period)
	if err != nil {
		t.Fatal(err)
	}
	want := wanted(events, event.Harbor, period)
	if diff := cmp.Diff(got, want); diff != "" || len(want.Counters) != 1 || len(want.Groups) != 1 {
		t.Errorf("got, want:\n%s", diff)
	}
}
