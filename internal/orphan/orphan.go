// Package orphan decides which things at a provider nobody owns any more. It is
// pure: a function of a complete listing, the owners that were looked up, and
// the time.
//
// Every rule errs on the side of keeping. A thing is an orphan only when it
// carries our marks, is old enough, and its owner is gone for certain; it is
// deleted only when two sightings in a row say so, and only when there are not
// suspiciously many.
package orphan

import (
	"cmp"
	"slices"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// Item is an instance or a companion.
type Item struct {
	// Kind is api.KindInstance, or the kind of a companion.
	Kind      string
	ID        string
	Name      string
	Marks     provider.Marks
	CreatedAt time.Time
	// AttachedTo is the instance that uses a companion.
	AttachedTo provider.InstanceID
}

// Instance makes an Item of an instance.
func Instance(i provider.Instance) Item {
	return Item{Kind: api.KindInstance, ID: string(i.ID), Name: i.Name, Marks: i.Marks, CreatedAt: i.CreatedAt}
}

// Companion makes an Item of a companion.
func Companion(c provider.Companion) Item {
	return Item{Kind: c.Kind, ID: c.ID, Name: c.Name, Marks: c.Marks, CreatedAt: c.CreatedAt, AttachedTo: c.AttachedTo}
}

// Ref identifies an Item between two sightings.
type Ref struct{ Kind, ID, UID string }

// Ref is the item's.
func (i Item) Ref() Ref { return Ref{i.Kind, i.ID, i.Marks.UID} }

// Owner is whom an item's marks name.
type Owner struct{ Namespace, Proxy, UID string }

// Owner is the item's.
func (i Item) Owner() Owner { return Owner{i.Marks.Namespace, i.Marks.Proxy, i.Marks.UID} }

// Reason says why an item is kept or deleted. The strings are stored in
// histories: they are only ever added to.
type Reason string

// The reasons to keep an item.
const (
	// Foreign: it carries no mark of this installation.
	Foreign Reason = "Foreign"
	// Unattributed: it is ours and does not say whose.
	Unattributed Reason = "Unattributed"
	// Young: it is younger than the policy's MinAge.
	Young Reason = "Young"
	// Owned: its owner runs.
	Owned Reason = "Owned"
	// OwnerUnreadable: it cannot be told whether its owner runs.
	OwnerUnreadable Reason = "OwnerUnreadable"
	// InUse: an instance uses it; it goes when that goes.
	InUse Reason = "InUse"
)

// The reasons why an item is an orphan.
const (
	// OwnerNotFound: no workflow of the owner's id is known.
	OwnerNotFound Reason = "OwnerNotFound"
	// OwnerClosed: the owner has ended.
	OwnerClosed Reason = "OwnerClosed"
	// OwnerReplaced: a workflow of the owner's id runs, and it is another one.
	OwnerReplaced Reason = "OwnerReplaced"
)

// Gone reports whether the reason is one that makes an orphan.
func (r Reason) Gone() bool { return r == OwnerNotFound || r == OwnerClosed || r == OwnerReplaced }

// Policy says what is old enough and how many are too many.
type Policy struct {
	// MinAge: nothing younger is an orphan.
	MinAge time.Duration
	// Cap is the most that may be deleted at once.
	Cap    int
	DryRun bool
}

// Input is one sighting.
type Input struct {
	// Installation is the id that our marks carry. When it is empty, everything
	// is foreign.
	Installation string
	Now          time.Time
	MinAge       time.Duration
	// Items are all that complete listings gave. When a listing failed there is
	// no sighting and Plan must not be called.
	Items []Item
	// Owners answers for every one of Lookups; a missing answer counts as
	// OwnerUnreadable. The values are Owned, OwnerUnreadable, or a reason that is
	// Gone.
	Owners map[Owner]Reason
	// Seen are the orphans of the first sighting; nil at the first one.
	Seen map[Ref]bool
}

// Verdict is what a sighting says of one item.
type Verdict struct {
	Item   Item
	Reason Reason
	// Confirmed: it is an orphan now as it was at the first sighting.
	Confirmed bool
}

// Lookups returns the owners that Plan needs, each once, in order.
func Lookups(in Input) []Owner {
	need := map[Owner]bool{}
	for _, i := range in.Items {
		if mark(in, i) == "" {
			need[i.Owner()] = true
		}
	}
	owners := make([]Owner, 0, len(need))
	for o := range need {
		owners = append(owners, o)
	}
	slices.SortFunc(owners, func(a, b Owner) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Proxy, b.Proxy), cmp.Compare(a.UID, b.UID))
	})
	return owners
}

// mark judges an item by its marks and age alone; empty means that its owner
// decides.
func mark(in Input, i Item) Reason {
	switch m := i.Marks; {
	case in.Installation == "" || m.Installation != in.Installation:
		return Foreign
	case m.UID == "" || m.Namespace == "" || m.Proxy == "" || i.ID == "":
		return Unattributed
	case !OldEnough(i.CreatedAt, in.Now, in.MinAge):
		return Young
	}
	return ""
}

// OldEnough reports whether something created at created is older than minAge.
// An unknown creation time shields nothing.
func OldEnough(created, now time.Time, minAge time.Duration) bool {
	return created.IsZero() || now.Sub(created) > minAge
}

// Plan judges every item, in the order of the input.
func Plan(in Input) []Verdict {
	out := make([]Verdict, len(in.Items))
	for n, i := range in.Items {
		v := Verdict{Item: i, Reason: mark(in, i)}
		if v.Reason == "" {
			v.Reason = in.Owners[i.Owner()]
			if !v.Reason.Gone() && v.Reason != Owned {
				v.Reason = OwnerUnreadable
			}
			if v.Reason.Gone() && i.AttachedTo != "" {
				v.Reason = InUse
			}
		}
		v.Confirmed = v.Reason.Gone() && in.Seen[i.Ref()]
		out[n] = v
	}
	return out
}

// Step is what a sweep does after a sighting.
type Step string

// The steps.
const (
	// StepDone: there is nothing to do.
	StepDone Step = "Done"
	// StepConfirm: wait, and look a second time.
	StepConfirm Step = "Confirm"
	// StepReport: say what would be deleted; it is a dry run.
	StepReport Step = "Report"
	// StepDelete: delete what is confirmed.
	StepDelete Step = "Delete"
	// StepOverCap: delete nothing, there are too many.
	StepOverCap Step = "OverCap"
	// StepUnreadable: delete nothing, something cannot be read.
	StepUnreadable Step = "Unreadable"
)

// Sighting is the summary of a Plan that a sweep decides on.
type Sighting struct {
	// Second is false for the first sighting.
	Second bool
	// Orphans is the number of orphans; of the confirmed ones at the second.
	Orphans int
	// Unreadable: a listing or an owner could not be read.
	Unreadable bool
}

// Decide says what follows from a sighting. It never says StepDelete after a
// first one.
func Decide(s Sighting, p Policy) Step {
	switch {
	case s.Unreadable:
		return StepUnreadable
	case s.Orphans <= 0:
		return StepDone
	case !s.Second:
		return StepConfirm
	case s.Orphans > p.Cap:
		return StepOverCap
	case p.DryRun:
		return StepReport
	}
	return StepDelete
}
