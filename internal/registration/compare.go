package registration

import (
	"cmp"
	"slices"
	"time"

	"github.com/tollgate-dev/tollgate/workflows/api"
)

// What relations and shoots can differ in.
const (
	// RelationMissing: a shoot exists and no open relation is its.
	RelationMissing api.DifferenceKind = "relation_missing"
	// RelationLeftOpen: a relation is open and its shoot does not exist.
	RelationLeftOpen api.DifferenceKind = "relation_left_open"
	// RelationDiffers: the open relation leads to another tenant than the shoot's.
	RelationDiffers api.DifferenceKind = "relation_differs"
)

// OpenRelation is a relation of a shoot that is open at the Reporting API.
type OpenRelation struct {
	ProjectID, ID string
	// Shoot has the project, the name and the uid.
	Shoot     api.ShootFacts
	Tenant    api.Tenant
	ValidFrom time.Time
}

// Difference is one between shoots and relations.
type Difference struct {
	Kind  api.DifferenceKind
	Shoot api.ShootFacts
	// Relation is the open one; nil when it is missing.
	Relation *OpenRelation
	// Tenant is the shoot's, where the relation leads to another one.
	Tenant *api.Tenant
}

// Compare says in what the shoots that exist and the relations that are open
// differ. The relations were read before the shoots were listed. tenant is that of
// a shoot, or nil when it is not known: then the relation stands.
func Compare(shoots []api.ShootFacts, open []OpenRelation, tenant func(api.ShootFacts) *api.Tenant) []Difference {
	var out []Difference
	byUID := map[string]*OpenRelation{}
	for i := range open {
		byUID[open[i].Shoot.UID] = &open[i]
	}
	exists := map[string]bool{}
	for _, f := range shoots {
		exists[f.UID] = true
		if f.Project == "" {
			continue // whose it is is not known
		}
		r := byUID[f.UID]
		if r == nil {
			out = append(out, Difference{Kind: RelationMissing, Shoot: f})
			continue
		}
		if t := tenant(f); t != nil && !t.Same(r.Tenant) {
			out = append(out, Difference{Kind: RelationDiffers, Shoot: f, Relation: r, Tenant: t})
		}
	}
	for i := range open {
		if r := &open[i]; !exists[r.Shoot.UID] {
			out = append(out, Difference{Kind: RelationLeftOpen, Shoot: r.Shoot, Relation: r})
		}
	}
	slices.SortStableFunc(out, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(a.Shoot.Project, b.Shoot.Project), cmp.Compare(a.Shoot.Name, b.Shoot.Name), cmp.Compare(a.Shoot.UID, b.Shoot.UID))
	})
	return out
}

// TooManyEnds reports whether suspiciously many relations would end: more than
// most, and more than half of those that are open.
func TooManyEnds(ds []Difference, open, most int) bool {
	ends := 0
	for _, d := range ds {
		if d.Kind == RelationLeftOpen {
			ends++
		}
	}
	return ends > most && 2*ends > open
}
