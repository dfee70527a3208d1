package store

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/reporting/sink"
)

func volume() event.Event {
	return event.New(event.VolumeCreate, time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC), event.Data{Platform: event.Hetzner, Account: "acme",
		Resource: event.Resource{Type: event.Volume, ID: "1"}, Change: event.ChangeCreate})
}

func TestOpeningAgainKeepsWhatIsThere(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "with space & ?.db")
	for _, want := range []sink.Outcome{sink.Accepted, sink.Duplicate, sink.Duplicate} {
		s, err := Open(t.Context(), path, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Ingest(t.Context(), []event.Event{volume()})
		if err != nil || got[0] != want {
			t.Errorf("outcome %v, want %s, %v", got, want, err)
		}
		if err := s.Check(t.Context()); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestADatabaseOfANewerProgramIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "r.db")
	s, err := Open(t.Context(), path, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.write.ExecContext(t.Context(), `INSERT INTO migrations (version, name, ran_at) VALUES (99, 'later', 0)`); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), path, time.Now); err == nil || !strings.Contains(err.Error(), "schema version 99 is of a newer program") {
		t.Errorf("got %v", err)
	}
}

// Two processes may share a file.
func TestTwoStoresOnOneFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "r.db")
	var stores []*Store
	for range 2 {
		s, err := Open(t.Context(), path, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}()
		stores = append(stores, s)
	}
	for i, want := range []sink.Outcome{sink.Accepted, sink.Duplicate} {
		if got, err := stores[i].Ingest(t.Context(), []event.Event{volume()}); err != nil || got[0] != want {
			t.Errorf("store %d: outcome %v, want %s, %v", i, got, want, err)
		}
	}
}

// A batch that cannot be stored as a whole leaves nothing.
func TestABatchIsAllOrNothing(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "r.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	broken := volume()
	broken.ID = "other"
	broken.Data.Size = event.Size{"x": event.Float(1 / zero)} // has no JSON form
	if _, err := s.Ingest(t.Context(), []event.Event{volume(), broken}); err == nil {
		t.Error("no error")
	}
	events, err := s.Events(t.Context(), EventFilter{Limit: 10})
	if err != nil || len(events) != 0 {
		t.Errorf("%d events are stored, %v", len(events), err)
	}
}

var zero float64

// The lists that are read in pages use an index for their order: none of them
// sorts, however much there is.
func TestPagedListsDoNotSort(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "r.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	for name, query := range map[string]string{
		"events of a project":    `SELECT e.seq FROM events e JOIN projects p ON p.num = e.project JOIN resources r ON r.num = e.resource WHERE p.id = 'x' AND e.seq > 5 ORDER BY e.seq ASC LIMIT 10`,
		"newest of a project":    `SELECT e.seq FROM events e JOIN projects p ON p.num = e.project JOIN resources r ON r.num = e.resource WHERE p.id = 'x' ORDER BY e.seq DESC LIMIT 10`,
		"timelines of a project": `SELECT r.project, r.type, r.id, p.id, e.body FROM resources r CROSS JOIN projects p ON p.num = r.project CROSS JOIN events e ON e.resource = r.num WHERE r.project = (SELECT num FROM projects WHERE id = 'x') ORDER BY r.project, r.type, r.id`,
		"all timelines":          `SELECT r.project, r.type, r.id, p.id, e.body FROM resources r CROSS JOIN projects p ON p.num = r.project CROSS JOIN events e ON e.resource = r.num ORDER BY r.project, r.type, r.id`,
	} {
		rows, err := s.read.QueryContext(t.Context(), `EXPLAIN QUERY PLAN `+query)
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var id, parent, unused int
			var detail string
			if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(detail, "TEMP B-TREE") || strings.HasPrefix(detail, "SCAN e") {
				t.Errorf("%s: %s", name, detail)
			}
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
	}
}
