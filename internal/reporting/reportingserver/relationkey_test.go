package reportingserver

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tollgate-dev/tollgate/internal/reporting/api"
)

// Two shoots of a project in the same tenant have a relation each; a key is what
// makes each of them idempotent.
func TestRelationsWithKeysMayOverlap(t *testing.T) {
	t.Parallel()
	g := newRig(t, nil)
	garden, tenant := g.project("gardener", "garden-a"), g.project("openstack", "shared")
	path := "/api/v1/projects/" + garden.ID + "/relations"
	from := at("10:00")
	ids := map[string]string{}
	for _, key := range []string{"uid-1", "uid-2", "", "uid-1", "uid-2", ""} {
		var r api.Relation
		code := g.json(http.MethodPost, path, api.RelationCreate{TargetID: tenant.ID, RelationType: "infrastructure_tenant", Key: key, ValidFrom: &from}, &r)
		want := http.StatusCreated
		if ids[key] != "" {
			want = http.StatusOK
		}
		if code != want || r.Key != key || ids[key] != "" && r.ID != ids[key] {
			t.Errorf("key %q: status %d, want %d: %+v", key, code, want, r)
		}
		ids[key] = r.ID
	}
	if len(ids) != 3 || ids["uid-1"] == ids["uid-2"] || ids[""] == ids["uid-1"] {
		t.Errorf("relations %v, want one for each key", ids)
	}
	// Of one key they still do not overlap.
	later := at("11:00")
	overlapping := api.RelationCreate{TargetID: tenant.ID, RelationType: "infrastructure_tenant", Key: "uid-1", ValidFrom: &later}
	if code := g.json(http.MethodPost, path, overlapping, nil); code != http.StatusConflict {
		t.Errorf("overlapping with its own key: status %d", code)
	}
	if code := g.json(http.MethodPatch, path+"/"+ids["uid-1"], api.RelationClose{ValidTo: later}, nil); code != http.StatusOK {
		t.Errorf("close: status %d", code)
	}
	var l api.RelationList
	g.get(path+"?at=2026-11-02T12:00:00Z", &l)
	if len(l.Items) != 2 {
		t.Errorf("%d relations are open, want the two that were not closed", len(l.Items))
	}
	for query, want := range map[string]int{"?key=uid-2": 1, "?key=": 1, "?key=none": 0, "?key=uid-1&direction=from&relation_type=infrastructure_tenant": 1} {
		if g.get(path+query, &l); len(l.Items) != want {
			t.Errorf("%s: %d relations, want %d", query, len(l.Items), want)
		}
	}
	overlapping.Key = strings.Repeat("k", 513)
	if code := g.json(http.MethodPost, path, overlapping, nil); code != http.StatusBadRequest {
		t.Errorf("a key that is too long: status %d", code)
	}
}
