package inventory

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// Key identifies a resource: its name is left out.
type Key struct {
	Account string
	Type    event.ResourceType
	ID      string
}

// KeyOf is the key of a resource of an account.
func KeyOf(account string, r event.Resource) Key { return Key{account, r.Type, r.ID} }

// Stream is what is compared.
type Stream struct {
	Name     string
	Platform event.Platform
	// Account is the source's; resources may be of others.
	Account string
	// Kinds are those of the stream's resources.
	Kinds []source.Kind
}

// kind finds a kind; ok is false for one that the stream does not know.
func (s Stream) kind(t event.ResourceType) (k source.Kind, ok bool) {
	i := slices.IndexFunc(s.Kinds, func(k source.Kind) bool { return k.Type == t })
	if i < 0 {
		return source.Kind{Type: t}, false
	}
	return s.Kinds[i], true
}

// Reported is what was reported of a resource.
type Reported struct {
	Account  string
	Resource event.Resource
	Region   string
	State    event.State
	Size     event.Size
	// Unknown are the size fields that nobody knows.
	Unknown []string
	// From is when it began, Since from when on it was as it is, and To when it
	// ended.
	From, Since, To time.Time
}

// Look is what there is at one time. Reported and Fleet are read before the
// listing begins: whatever they have existed before.
type Look struct {
	// Reported are the open resources, nil when nobody can be asked.
	Reported map[Key]Reported
	Snapshot source.Snapshot
	// Until is when the listing was over.
	Until time.Time
	// Fleet is this installation's own; nil is not compared.
	Fleet *Fleet
}

// Fleet is what this installation knows of its proxies in the account.
type Fleet struct {
	Installation string
	// Owners are the uids of all proxies.
	Owners map[string]bool
	// Running are the instances on which proxies run.
	Running []FleetInstance
}

// FleetInstance is an instance that a proxy runs on.
type FleetInstance struct{ Namespace, Proxy, Name string }

// finding is a difference of one look.
type finding struct {
	kind api.DifferenceKind
	key  Key
	rep  *Reported
	x    *source.Existing
	// name is that of what is not there.
	name string
	// was and is are what differs.
	was, is string
}

// hash is the same in both looks if the difference is.
func (f finding) hash() uint64 {
	h := fnv.New64a()
	for _, s := range []string{string(f.kind), f.key.Account, string(f.key.Type), f.key.ID, f.was, f.is} {
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	return h.Sum64()
}

// Candidates are the differences of a first look, for the second one to confirm.
// They are sorted.
func Candidates(s Stream, l Look) []uint64 {
	out := []uint64{}
	for _, f := range findings(s, l) {
		out = append(out, f.hash())
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// findings compares what is reported with what is listed, and what is listed with
// the fleet, in the order of the resources.
func findings(s Stream, l Look) []finding {
	var out []finding
	listed := map[Key]bool{}
	for i := range l.Snapshot.Resources {
		x := &l.Snapshot.Resources[i]
		key := KeyOf(x.Account, x.Resource)
		if listed[key] {
			continue
		}
		listed[key] = true
		if l.Reported == nil {
			continue
		}
		rep, open := l.Reported[key]
		switch {
		case x.Leaving, x.Coming: // until it is gone, or there
		case !open:
			out = append(out, finding{kind: api.MissingCreate, key: key, x: x})
		default:
			out = append(out, changed(key, &rep, x)...)
		}
	}
	for key, rep := range l.Reported {
		if !listed[key] {
			out = append(out, finding{kind: api.MissingDelete, key: key, rep: &rep})
		}
	}
	for i := range l.Snapshot.Unreadable {
		out = append(out, finding{kind: api.UnreadableEntry, key: Key{Account: s.Account, ID: fmt.Sprint(i + 1)}, is: l.Snapshot.Unreadable[i]})
	}
	out = append(out, ours(s, l)...)
	slices.SortStableFunc(out, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.key.Account, b.key.Account), cmp.Compare(a.key.Type, b.key.Type), cmp.Compare(len(a.key.ID), len(b.key.ID)), cmp.Compare(a.key.ID, b.key.ID), cmp.Compare(a.kind, b.kind))
	})
	return out
}

// changed compares what was reported of a resource with what it is. What the
// listing does not say is not compared.
func changed(key Key, rep *Reported, x *source.Existing) (out []finding) {
	was, is := event.Size{}, event.Size{}
	kind := api.UnknownSizeKnown
	for f, v := range x.Size.All() {
		had, known := rep.Size[f]
		if known && had.Equal(v) {
			continue
		}
		is[f] = v
		if known {
			kind, was[f] = api.SizeDiffers, had
		}
	}
	if len(is) > 0 {
		out = append(out, finding{kind: kind, key: key, rep: rep, x: x, was: sizeText(was), is: sizeText(is)})
	}
	if x.State != "" && rep.State != "" && x.State != rep.State {
		out = append(out, finding{kind: api.StateDiffers, key: key, rep: rep, x: x, was: string(rep.State), is: string(x.State)})
	}
	return out
}

// sizeText is a size in words: "ram_gb 4, vcpus 2".
func sizeText(s event.Size) string {
	var parts []string
	for f, v := range s.All() {
		parts = append(parts, f+" "+v.String())
	}
	return strings.Join(parts, ", ")
}

// ours compares what carries this installation's marks with its proxies. What
// carries those of another installation is that one's.
func ours(s Stream, l Look) (out []finding) {
	if l.Fleet == nil {
		return nil
	}
	type instance struct{ uid, name string }
	there := map[string]bool{}
	seen := map[instance]bool{}
	for i := range l.Snapshot.Resources {
		x := &l.Snapshot.Resources[i]
		if x.Marks == nil || x.Marks.Installation != l.Fleet.Installation {
			continue
		}
		key := KeyOf(x.Account, x.Resource)
		there[x.Resource.Name] = true
		if !l.Fleet.Owners[x.Marks.UID] && !x.Leaving {
			out = append(out, finding{kind: api.OursWithoutOwner, key: key, x: x, is: x.Marks.UID})
		}
		if x.Resource.Type != event.Server {
			continue
		}
		if id := (instance{x.Marks.UID, x.Resource.Name}); seen[id] {
			out = append(out, finding{kind: api.OursTwice, key: key, x: x})
		} else {
			seen[id] = true
		}
	}
	if len(l.Snapshot.Unreadable) > 0 {
		return out
	}
	for _, r := range l.Fleet.Running {
		if !there[r.Name] {
			out = append(out, finding{kind: api.OursNotListed, key: Key{s.Account, event.Server, r.Name}, name: r.Name, is: r.Namespace + "/" + r.Proxy})
		}
	}
	return out
}
