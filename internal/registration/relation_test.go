package registration_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/gardener"
	"github.com/tollgate-dev/tollgate/internal/registration"
	reporting "github.com/tollgate-dev/tollgate/internal/reporting/api"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

func at(minutes int) time.Time { return created.Add(time.Duration(minutes) * time.Minute) }

func ptr(t time.Time) *time.Time { return &t }

func rel(id, target, uid, name string, from time.Time, to *time.Time) reporting.Relation {
	r := reporting.Relation{ID: id, SourceID: "g", TargetID: target, RelationType: registration.RelationType, Key: uid, ValidFrom: from, ValidTo: to,
		Metadata: map[string]string{"shoot_name": name}}
	if uid != "" {
		r.Metadata["shoot_uid"] = uid
	}
	return r
}

func TestFind(t *testing.T) {
	t.Parallel()
	f := known
	f.CreatedAt = created
	want := api.ShootRelation{ValidFrom: created}
	other := rel("other-type", "t", "uid-1", "web", created, nil)
	other.RelationType = "uses"
	for name, tc := range map[string]struct {
		all     []reporting.Relation
		want    api.ShootRelation
		id      string
		adopted bool
	}{
		"nothing":              {nil, want, "", false},
		"ours":                 {[]reporting.Relation{rel("a", "t", "uid-2", "db", created, nil), rel("b", "t", "uid-1", "web", created, nil)}, want, "b", false},
		"ours, begun elsewhen": {[]reporting.Relation{rel("a", "t", "uid-1", "web", at(1), nil)}, want, "a", false},
		"ours, closed":         {[]reporting.Relation{rel("a", "t", "uid-1", "web", created, ptr(at(9)))}, want, "a", false},
		"an earlier one":       {[]reporting.Relation{rel("a", "t", "uid-1", "web", created, ptr(at(9)))}, api.ShootRelation{ValidFrom: at(9)}, "", false},
		"its end is the same":  {[]reporting.Relation{rel("a", "t", "uid-1", "web", at(3), ptr(at(9)))}, api.ShootRelation{ValidFrom: created, ValidTo: at(9)}, "a", false},
		"by id":                {[]reporting.Relation{rel("a", "t", "uid-1", "web", created, nil), rel("b", "t", "", "web", at(2), nil)}, api.ShootRelation{ID: "b", ValidFrom: created, Adopted: true}, "b", true},
		"other tenant":         {[]reporting.Relation{rel("a", "t2", "uid-1", "web", created, nil)}, want, "", false},
		"other type":           {[]reporting.Relation{other}, want, "", false},
		"by hand":              {[]reporting.Relation{rel("a", "t", "", "web", at(5), nil)}, want, "a", true},
		"by hand, closed":      {[]reporting.Relation{rel("a", "t", "", "web", at(5), ptr(at(6)))}, want, "", false},
		"by hand, before it":   {[]reporting.Relation{rel("a", "t", "", "web", at(-5), nil)}, want, "", false},
		"by hand, another's":   {[]reporting.Relation{rel("a", "t", "", "db", at(5), nil)}, want, "", false},
	} {
		got, adopted, ok := registration.Find(tc.all, f, tc.want, "t")
		if ok != (tc.id != "") || got.ID != tc.id || adopted != tc.adopted {
			t.Errorf("%s: %q, adopted %v, %v; want %q, %v", name, got.ID, adopted, ok, tc.id, tc.adopted)
		}
	}
}

func TestRecall(t *testing.T) {
	t.Parallel()
	a, b := api.Tenant{Platform: "openstack", ExternalID: "a"}, api.Tenant{Platform: "openstack", ExternalID: "b"}
	got := registration.Recall([]reporting.Relation{
		rel("2", "tb", "uid-1", "web", at(9), nil), rel("1", "ta", "uid-1", "web", created, ptr(at(9))), rel("x", "ta", "uid-2", "db", created, nil),
		rel("y", "unknown", "uid-1", "web", created, nil),
	}, "uid-1", map[string]api.Tenant{"ta": a, "tb": b})
	want := []api.ShootRelation{{Tenant: a, ValidFrom: created, ValidTo: at(9), ID: "1", Closed: true}, {Tenant: b, ValidFrom: at(9), ID: "2"}}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("recalled (-got +want):\n%s", diff)
	}
}

// Projects have the accounts that the events of their shoots have.
func TestProjectsAreTheAccountsOfEvents(t *testing.T) {
	t.Parallel()
	if got, want := registration.ProjectID("landscape", "dev"), gardener.Account("landscape", "dev"); got != want {
		t.Errorf("external id %q, want %q", got, want)
	}
	for account, want := range map[string]string{"landscape/dev": "dev", "landscape/": "", "other/dev": "", "landscape/a/b": ""} {
		project, ok := registration.ProjectOf("landscape", account)
		same, _ := gardener.ProjectOf("landscape", account)
		if ok && (project != want || project != same) || !ok && want != "" {
			t.Errorf("%s: %q, %v; want %q", account, project, ok, want)
		}
	}
}
