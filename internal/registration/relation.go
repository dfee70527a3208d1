package registration

import (
	"cmp"
	"slices"
	"time"

	"github.com/tollgate-dev/tollgate/internal/reporting/api"
	objects "github.com/tollgate-dev/tollgate/workflows/api"
)

// RelationType is the type of the relation of a Gardener project to the tenant
// that a shoot of it runs in.
const RelationType = "infrastructure_tenant"

// What relations say of a shoot. The uid is also their key: it is what tells the
// relations of two shoots of a project in the same tenant apart.
const (
	MetaShootName = "shoot_name"
	MetaShootUID  = "shoot_uid"
	MetaCreatedBy = "created_by"
)

// Create is the relation to create for a shoot.
func Create(f objects.ShootFacts, r objects.ShootRelation, targetID, createdBy string) api.RelationCreate {
	from := r.ValidFrom.UTC()
	return api.RelationCreate{
		TargetID: targetID, RelationType: RelationType, Key: f.UID, ValidFrom: &from,
		Metadata: &map[string]string{MetaShootName: f.Name, MetaShootUID: f.UID, MetaCreatedBy: createdBy},
	}
}

// Of reports whether a relation is that of a shoot, by its uid.
func Of(r api.Relation, uid string) bool {
	return r.RelationType == RelationType && (r.Key == uid || r.Metadata[MetaShootUID] == uid)
}

// Find looks for the relation that is wanted among those of the project. adopted
// is true for one that somebody wrote for the shoot without its uid.
//
// One that begins at another time is the same if it is open, or if it is closed
// where the wanted one is to be: a crash between the two would otherwise write it
// twice.
func Find(all []api.Relation, f objects.ShootFacts, want objects.ShootRelation, targetID string) (found api.Relation, adopted, ok bool) {
	score := func(r api.Relation) int {
		switch {
		case r.RelationType != RelationType || r.TargetID != targetID:
			return 0
		case want.ID != "" && r.ID == want.ID:
			return 5
		case Of(r, f.UID) && r.ValidFrom.Equal(want.ValidFrom):
			return 4
		case Of(r, f.UID) && r.ValidTo == nil:
			return 3
		case Of(r, f.UID) && !want.ValidTo.IsZero() && r.ValidTo.Equal(want.ValidTo):
			return 2
		case r.Key == "" && r.Metadata[MetaShootUID] == "" && r.Metadata[MetaShootName] == f.Name && r.ValidTo == nil && !r.ValidFrom.Before(f.CreatedAt):
			return 1
		}
		return 0
	}
	best := 0
	for _, r := range all {
		if s := score(r); s > best {
			best, found = s, r
		}
	}
	return found, best == 1 || want.Adopted, best > 0
}

// Recall makes the relations of a shoot out of those of its project. tenants are
// the projects that they lead to, by id.
func Recall(all []api.Relation, uid string, tenants map[string]objects.Tenant) []objects.ShootRelation {
	var out []objects.ShootRelation
	for _, r := range all {
		t, known := tenants[r.TargetID]
		if !Of(r, uid) || !known {
			continue
		}
		s := objects.ShootRelation{Tenant: t, ValidFrom: r.ValidFrom.UTC(), ID: r.ID}
		if r.ValidTo != nil {
			s.ValidTo, s.Closed = r.ValidTo.UTC(), true
		}
		out = append(out, s)
	}
	slices.SortStableFunc(out, func(a, b objects.ShootRelation) int {
		return cmp.Or(a.ValidFrom.Compare(b.ValidFrom), compareEnds(a.ValidTo, b.ValidTo))
	})
	return out
}

// compareEnds orders ends; a zero one, which is open, is the last.
func compareEnds(a, b time.Time) int {
	switch {
	case a.IsZero() && b.IsZero():
		return 0
	case a.IsZero():
		return 1
	case b.IsZero():
		return -1
	}
	return a.Compare(b)
}
