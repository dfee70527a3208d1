package shoot

import (
	"reflect"
	"slices"
	"time"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// step is what the workflow does next.
type step string

const (
	stepWait    step = "wait"
	stepRecall  step = "recall"
	stepResolve step = "resolve"
	stepSettle  step = "settle"
	stepDone    step = "done"
)

// EndGrace is how long a registration waits for somebody who saw the end of a
// shoot that is missing in a listing, before the end that was concluded counts.
const EndGrace = time.Hour

// state is all that the workflow knows. Its methods are pure: they take the time
// and make no calls.
//
// Status.Relations is how the attribution of the shoot is wanted: a list of
// tenants and times without overlap. What happens to the shoot changes the list;
// the steps write it, in its order. So it does not matter in which order things
// become known, nor where a run was interrupted.
type state struct {
	api.CarriedShoot
}

// next decides what to do. With stepWait, until is when to look again; zero means
// when somebody says something. With stepSettle, it is about the relation i.
func (s *state) next(now time.Time) (do step, i int, until time.Time) {
	if s.ended(now) && s.Recalled {
		s.closeLast()
	}
	i = slices.IndexFunc(s.Status.Relations, func(r api.ShootRelation) bool { return !r.Settled() })
	last := len(s.Status.Relations) - 1
	switch {
	case !s.Recalled:
		return stepRecall, 0, time.Time{}
	case i >= 0:
		return stepSettle, i, time.Time{}
	case s.ended(now) && last >= 0:
		return stepDone, 0, time.Time{}
	case s.Look || last < 0:
		return stepResolve, 0, time.Time{}
	case s.Check:
		return stepSettle, last, time.Time{}
	}
	return stepWait, 0, s.CloseBy
}

// ended reports whether the shoot's end is known and counts.
func (s *state) ended(now time.Time) bool {
	return s.Status.End != nil && (!s.Status.End.Concluded || !now.Before(s.CloseBy))
}

// open is the relation that is to stay open, nil if there is none.
func (s *state) open() *api.ShootRelation {
	if n := len(s.Status.Relations); n > 0 && s.Status.Relations[n-1].ValidTo.IsZero() {
		return &s.Status.Relations[n-1]
	}
	return nil
}

// closeLast wants the open relation closed at the shoot's end.
func (s *state) closeLast() {
	if r := s.open(); r != nil {
		r.ValidTo = latest(s.Status.End.At, r.ValidFrom)
	}
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// add wants one more relation. The oldest that are closed give way.
func (s *state) add(r api.ShootRelation) {
	st := &s.Status
	st.Relations = append(st.Relations, r)
	if n := len(st.Relations) - api.MaxRelations; n > 0 && !slices.ContainsFunc(st.Relations[:n], func(r api.ShootRelation) bool { return !r.Settled() }) {
		st.Relations = slices.Clone(st.Relations[n:])
		st.Dropped += n
	}
}

// created takes facts. What is new about them is acted on at once; what was known
// changes nothing.
func (s *state) created(f api.ShootFacts) {
	was := s.Facts
	s.Facts = s.Facts.Merge(f)
	said := f.Tenant != nil && (was.Tenant == nil || !was.Tenant.Same(*f.Tenant))
	if said || s.Status.Phase == api.ShootUnresolved && !reflect.DeepEqual(was, s.Facts) {
		s.Look, s.Trouble = true, nil
	}
}

// rotated: the tenant may be another one since a time.
func (s *state) rotated(now time.Time, r api.ShootRotation) {
	at := r.At.UTC()
	if r.At.IsZero() || at.After(now) {
		at = now
	}
	s.Look = true
	// Of several, the first one counts until it was looked at.
	if s.RotatedAt.IsZero() || at.Before(s.RotatedAt) {
		s.RotatedAt = at
	}
}

// end takes the end of the shoot. One that somebody saw counts more than one that
// was concluded; otherwise the first counts.
func (s *state) end(now time.Time, e api.ShootEnd) {
	if e.At = e.At.UTC(); e.At.IsZero() || e.At.After(now) {
		e.At = now
	}
	had := s.Status.End
	if had != nil && (!had.Concluded || e.Concluded || s.ended(now)) {
		return
	}
	s.Status.End, s.CloseBy = &e, time.Time{}
	if e.Concluded {
		s.CloseBy = now.Add(EndGrace)
	}
}

// retry looks at everything again, at once.
func (s *state) retry() { s.Look, s.Check, s.Trouble, s.Status.Failures = true, true, nil, 0 }

// recalled takes what the Reporting API knows.
func (s *state) recalled(out activities.RecallShootResult) {
	s.Recalled = true
	s.Status.ProjectID = out.ProjectID
	for _, r := range out.Relations {
		s.add(r)
	}
	if r := s.open(); r != nil {
		s.Status.Tenant, s.Status.ResolvedBy = &r.Tenant, api.ResolvedByRecall
	}
}

// resolved takes the tenant.
func (s *state) resolved(now time.Time, out activities.ResolveTenantResult) {
	st := &s.Status
	s.Facts = s.Facts.Merge(out.Facts)
	s.Presence = out.Presence
	rotated := s.RotatedAt
	if rotated.IsZero() {
		rotated = now
	}
	var last *api.ShootRelation
	if n := len(st.Relations); n > 0 {
		last = &st.Relations[n-1]
	}
	// All relations are closed, and not by us: the shoot is over, unless it is
	// there.
	if last != nil && !last.ValidTo.IsZero() && out.Presence != api.ShootPresent {
		if st.End == nil {
			st.End = &api.ShootEnd{At: last.ValidTo}
		}
		s.Look, s.RotatedAt = false, time.Time{}
		return
	}
	if out.Tenant == nil {
		return // the problem is the workflow's to show
	}
	st.Tenant, st.ResolvedBy = out.Tenant, out.By
	s.Look, s.RotatedAt = false, time.Time{}
	next := api.ShootRelation{Tenant: *out.Tenant}
	switch {
	case last == nil:
		next.ValidFrom = s.Facts.CreatedAt
	case !last.ValidTo.IsZero():
		// A relation of no length has taken its moment.
		if next.ValidFrom = last.ValidTo; last.ValidFrom.Equal(last.ValidTo) {
			next.ValidFrom = latest(rotated, last.ValidTo.Add(time.Second))
		}
	case last.Tenant.Same(*out.Tenant):
		return
	default:
		last.ValidTo = latest(rotated, last.ValidFrom)
		next.ValidFrom = last.ValidTo
	}
	s.add(next)
}

// settled takes a relation as it is at the Reporting API.
func (s *state) settled(i int, out activities.SettleRelationResult) {
	want := s.Status.Relations[i]
	is := out.Relation
	is.Closed = !is.ValidTo.IsZero() && is.Closed
	s.Status.ProjectID, s.Check = out.ProjectID, false
	// Somebody has closed it: whether the shoot is over is to be seen.
	if want.ValidTo.IsZero() && is.Closed {
		s.Look = true
	}
	s.Status.Relations[i] = is
	// The next one begins where this one ends.
	if i+1 < len(s.Status.Relations) && !is.ValidTo.Equal(want.ValidTo) && s.Status.Relations[i+1].ID == "" {
		s.Status.Relations[i+1].ValidFrom = is.ValidTo
	}
}
