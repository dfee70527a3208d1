package store

import (
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/reporting/api"
)

// A database of the first program keeps its relations, with an empty key.
func TestRelationsGetAKey(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "r.db")
	script, err := migrations.ReadFile("migrations/0001_start.sql")
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{
		string(script),
		`CREATE TABLE migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL, ran_at INTEGER NOT NULL) STRICT`,
		`INSERT INTO migrations VALUES (1, '0001_start.sql', 0)`,
		`INSERT INTO projects VALUES (1, 'g', 'gardener', 'dev', '', 1, 0), (2, 't', 'openstack', 'tenant', '', 1, 0)`,
		`INSERT INTO relations VALUES (7, 'r', 1, 2, 'infrastructure_tenant', '{"shoot_name":"web"}', 1000, 2000)`,
	} {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), path, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	p, err := s.Project(t.Context(), "g")
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Relations(t.Context(), RelationFilter{Project: p, From: true, Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	to := time.Unix(0, 2000).UTC()
	want := []Relation{{Num: 7, Relation: api.Relation{ID: "r", SourceID: "g", TargetID: "t", RelationType: "infrastructure_tenant",
		Metadata: map[string]string{"shoot_name": "web"}, ValidFrom: time.Unix(0, 1000).UTC(), ValidTo: &to}}}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("relations (-got +want):\n%s", diff)
	}
	begin := time.Unix(0, 1000).UTC()
	r, created, err := s.CreateRelation(t.Context(), "g", api.RelationCreate{TargetID: "t", RelationType: "infrastructure_tenant", Key: "uid", ValidFrom: &begin})
	if err != nil || !created || r.Key != "uid" || r.Num == 7 {
		t.Errorf("one with a key beside it: %+v, %v, %v", r, created, err)
	}
}
