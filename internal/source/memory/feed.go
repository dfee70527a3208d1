// Package memory is the reference implementation of the source contract: a feed
// in memory, and the source that reads it. It shows in a few lines what every
// source has to get right, and stands in for a platform in tests.
package memory

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
)

// TypeName is the platform in the feed's events.
const TypeName = "memory"

// Kind is the one kind of resource that a feed is about. Its size is "units".
func Kind() source.Kind {
	return source.Kind{Type: "thing", Verbs: []string{source.VerbCreate, "resize", source.VerbDelete}}
}

// Entry is a change in a feed.
type Entry struct {
	ID    int64
	Thing string
	// Verb is one of Kind's; anything else is an entry that cannot be understood.
	Verb    string
	Units   int64
	Started time.Time
	// Finished is zero until the change is.
	Finished time.Time
}

// EventID is the id of the entry's event in an account.
func (e Entry) EventID(account string) string {
	return event.ID(TypeName, account, e.resource(), e.change())
}

func (e Entry) resource() event.Resource {
	return event.Resource{Type: Kind().Type, ID: e.Thing}
}

func (e Entry) change() string {
	switch e.Verb {
	case source.VerbCreate:
		return event.ChangeCreate
	case source.VerbDelete:
		return event.ChangeDelete
	}
	return event.Change("entry", strconv.FormatInt(e.ID, 10))
}

// APIError is how the feed refuses a read. Its message is the platform's.
type APIError struct {
	Status  int
	Message string
}

func (e *APIError) Error() string { return fmt.Sprintf("status %d: %s", e.Status, e.Message) }

// Feed is the platform's side. It is safe for concurrent use.
type Feed struct {
	// PageSize is the number of entries on a page, 10 if zero.
	PageSize int
	// Now is the platform's clock, time.Now if nil.
	Now func() time.Time
	// OnRead, when set, is called by every read with the number of the read,
	// counted from 1, before the entries are taken. An error fails the read.
	OnRead func(ctx context.Context, n int) error
	// AfterRead, when set, is called after the entries were taken.
	AfterRead func()
	// Twice shows every entry twice.
	Twice bool

	mu      sync.Mutex
	entries []Entry
	things  []thing // that exist, by the order of their making
	last    int64
	reads   int
}

// thing is a resource that exists.
type thing struct {
	name  string
	seq   int64 // of its making
	units int64
	made  time.Time
	odd   bool
	// hidden things are in no list, and there all the same.
	hidden bool
}

func (f *Feed) now() time.Time {
	if f.Now != nil {
		return f.Now().UTC()
	}
	return time.Now().UTC()
}

// Add adds a change that has happened.
func (f *Feed) Add(thing, verb string, units int64) Entry {
	e := f.Begin(thing, verb, units)
	f.Finish(e.ID)
	e.Finished = e.Started
	return e
}

// Begin adds a change that is not finished.
func (f *Feed) Begin(thing, verb string, units int64) Entry {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last++
	e := Entry{ID: f.last, Thing: thing, Verb: verb, Units: units, Started: f.now()}
	f.entries = append(f.entries, e)
	return e
}

// Finish finishes a change.
func (f *Feed) Finish(id int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.entries {
		if f.entries[i].ID == id && f.entries[i].Finished.IsZero() {
			f.entries[i].Finished = f.now()
			f.apply(f.entries[i])
		}
	}
}

// apply makes what exists what a finished entry says.
func (f *Feed) apply(e Entry) {
	i := slices.IndexFunc(f.things, func(t thing) bool { return t.name == e.Thing })
	switch {
	case e.Verb == source.VerbCreate && i < 0:
		f.things = append(f.things, thing{name: e.Thing, seq: e.ID, units: e.Units, made: e.Finished})
	case e.Verb == source.VerbResize && i >= 0:
		f.things[i].units = e.Units
	case e.Verb == source.VerbDelete && i >= 0:
		f.things = slices.Delete(f.things, i, i+1)
	}
}

// Vanish takes a thing away without an entry, as platforms do with some of theirs.
func (f *Feed) Vanish(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.things = slices.DeleteFunc(f.things, func(t thing) bool { return t.name == name })
}

// Set changes the size of a thing, or makes it, without an entry.
func (f *Feed) Set(name string, units int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.things, func(t thing) bool { return t.name == name })
	if i < 0 {
		f.last++
		f.things = append(f.things, thing{name: name, seq: f.last, units: units, made: f.now()})
		return
	}
	f.things[i].units = units
}

// Spoil makes the platform leave out what it can of a thing.
func (f *Feed) Spoil(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.things {
		f.things[i].odd = f.things[i].odd || f.things[i].name == name
	}
}

// Hide leaves a thing out of every list, as platforms do with some of theirs, until
// show is called.
func (f *Feed) Hide(name string) (show func()) {
	set := func(hidden bool) {
		f.mu.Lock()
		defer f.mu.Unlock()
		for i := range f.things {
			if f.things[i].name == name {
				f.things[i].hidden = hidden
			}
		}
	}
	set(true)
	return func() { set(false) }
}

// Things are the names of what exists.
func (f *Feed) Things() (names []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range f.things {
		names = append(names, t.name)
	}
	return names
}

// list returns the page of things that were made after a sequence number.
func (f *Feed) list(ctx context.Context, after int64) (page []thing, more bool, err error) {
	if err := f.enter(ctx); err != nil {
		return nil, false, err
	}
	if f.AfterRead != nil {
		defer f.AfterRead()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	size := f.PageSize
	if size == 0 {
		size = 10
	}
	for _, t := range f.things {
		switch {
		case t.seq <= after || t.hidden:
		case len(page) < size:
			page = append(page, t)
		default:
			return page, true, nil
		}
	}
	return page, false, nil
}

// look reports whether a thing exists, in lists or not.
func (f *Feed) look(ctx context.Context, name string) (bool, error) {
	if err := f.enter(ctx); err != nil {
		return false, err
	}
	if f.AfterRead != nil {
		defer f.AfterRead()
	}
	return slices.Contains(f.Things(), name), nil
}

// Forget removes every entry, as a platform does with old ones.
func (f *Feed) Forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.entries = nil
}

// Remove removes one entry.
func (f *Feed) Remove(id int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.entries = slices.DeleteFunc(f.entries, func(e Entry) bool { return e.ID == id })
}

// Reads is the number of reads so far.
func (f *Feed) Reads() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reads
}

func (f *Feed) enter(ctx context.Context) error {
	f.mu.Lock()
	f.reads++
	n := f.reads
	f.mu.Unlock()
	if f.OnRead != nil {
		if err := f.OnRead(ctx, n); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// read returns the entries with these ids, and the first page after an id. more
// says that there are further pages; oldest is the oldest entry there is.
func (f *Feed) read(ctx context.Context, ids []int64, after int64) (old, page []Entry, more bool, oldest Entry, err error) {
	if err := f.enter(ctx); err != nil {
		return nil, nil, false, Entry{}, err
	}
	if f.AfterRead != nil {
		defer f.AfterRead()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	size := f.PageSize
	if size == 0 {
		size = 10
	}
	for _, e := range f.entries {
		switch {
		case slices.Contains(ids, e.ID):
			old = append(old, e)
		case e.ID > after && len(page) < size:
			page = append(page, e)
			if f.Twice {
				page = append(page, e)
			}
		case e.ID > after:
			more = true
		}
	}
	if len(f.entries) > 0 {
		oldest = f.entries[0]
	}
	return old, page, more, oldest, nil
}

// seek returns the last id of which everything up to it was finished before t.
func (f *Feed) seek(ctx context.Context, t time.Time) (int64, error) {
	if err := f.enter(ctx); err != nil {
		return 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var after int64
	for _, e := range f.entries {
		if e.Finished.IsZero() || !e.Finished.Before(t) {
			break
		}
		after = e.ID
	}
	return after, nil
}

// find returns one entry.
func (f *Feed) find(ctx context.Context, id int64) (Entry, error) {
	if err := f.enter(ctx); err != nil {
		return Entry{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.entries {
		if e.ID == id {
			return e, nil
		}
	}
	return Entry{}, provider.Wrap(provider.NotFound, source.OpDerive, "", "", fmt.Errorf("entry %d is not in the feed", id))
}
