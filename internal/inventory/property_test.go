package inventory

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/reporting/usage"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// thing is a resource of the model.
type thing struct {
	kind       source.Kind
	made, gone time.Time
	size       int
	state      event.State
}

// world is a platform, its feed, which loses and delays what it should show, and a
// receiver.
type world struct {
	t      *rapid.T
	now    time.Time
	things map[string]*thing
	seq    int
	// queued is what the cursor has not read yet, letters what was lost for now.
	queued, letters []event.Event
	received        map[string][]event.Event // by resource, with repetitions
	readUpTo        time.Time
	store           *Store
	firstSeen       map[SeenKey]time.Time
}

func (w *world) tick() { w.now = w.now.Add(time.Minute) }

func (w *world) stream() Stream {
	return Stream{Name: "all", Platform: event.Hetzner, Account: account, Kinds: []source.Kind{serverKind, volumeKind}}
}

func sizeOf(k source.Kind, n int) event.Size {
	if k.Type == event.Volume {
		return event.Size{event.SizeGB: event.Int(n)}
	}
	return event.Size{event.VCPUs: event.Int(n), event.RAMGB: event.Int(n), event.DiskGB: event.Int(n), event.ServerType: event.Text(fmt.Sprint("t", n))}
}

// tell puts an event into the feed, or loses it.
func (w *world) tell(id, verb, change string, d event.Data) {
	th := w.things[id]
	if slices.Contains(th.kind.Silent, verb) {
		return
	}
	d.Platform, d.Account, d.Resource, d.Change = event.Hetzner, account, res(th.kind.Type, id), change
	e := event.New(th.kind.EventType(verb), w.now, d)
	switch rapid.IntRange(0, 3).Draw(w.t, "fate") {
	case 0: // lost for good
	case 1:
		w.letters = append(w.letters, e)
	default:
		w.queued = append(w.queued, e)
	}
}

func (w *world) act() {
	w.seq++
	change := event.Change("action", fmt.Sprint(w.seq))
	alive := slices.DeleteFunc(slices.Sorted(maps.Keys(w.things)), func(id string) bool { return !w.things[id].gone.IsZero() })
	what := rapid.IntRange(0, 3).Draw(w.t, "what")
	if len(alive) == 0 {
		what = 0
	}
	if what == 0 {
		kind := rapid.SampledFrom([]source.Kind{serverKind, volumeKind}).Draw(w.t, "kind")
		id := fmt.Sprint(w.seq)
		w.things[id] = &thing{kind: kind, made: w.now, size: 1, state: event.Active}
		size := sizeOf(kind, 1)
		w.tell(id, source.VerbCreate, event.ChangeCreate, event.Data{Size: size})
		return
	}
	id := rapid.SampledFrom(alive).Draw(w.t, "id")
	th := w.things[id]
	switch {
	case what == 1:
		th.gone = w.now
		w.tell(id, source.VerbDelete, event.ChangeDelete, event.Data{Size: sizeOf(th.kind, th.size)})
	case what == 2:
		th.size = 1 + th.size%3
		w.tell(id, source.VerbResize, change, event.Data{Size: sizeOf(th.kind, th.size)})
	case th.kind.Type == event.Server && th.state == event.Active:
		th.state = event.Off
		w.tell(id, source.VerbPowerOff, change, event.Data{})
	case th.kind.Type == event.Server:
		th.state = event.Active
		w.tell(id, source.VerbPowerOn, change, event.Data{})
	}
}

func (w *world) receive(events ...event.Event) {
	for _, e := range events {
		if err := e.Validate(); err != nil {
			w.t.Fatalf("%s: %v", e.ID, err)
		}
		w.received[e.Data.Resource.ID] = append(w.received[e.Data.Resource.ID], e)
	}
}

func (w *world) read() {
	w.receive(w.queued...)
	w.queued, w.readUpTo = nil, w.now
}

func (w *world) timeline(id string) usage.Timeline { return usage.Build(w.received[id]) }

// look is what one look sees now.
func (w *world) look() Look {
	l := Look{Reported: map[Key]Reported{}, Until: w.now, Snapshot: source.Snapshot{At: w.now}}
	for id := range w.received {
		tl := w.timeline(id)
		if span, life, alive, ok := tl.At(w.now); ok && alive {
			r := res(tl.Resource.Type, id)
			l.Reported[KeyOf(account, r)] = Reported{Account: account, Resource: r, State: span.State, Size: span.Size, Unknown: span.Unknown, From: life.From, Since: span.From}
		}
	}
	for id, th := range w.things {
		if th.gone.IsZero() {
			x := source.Existing{Account: account, Resource: res(th.kind.Type, id), CreatedAt: th.made, Size: sizeOf(th.kind, th.size)}
			if th.kind.Type == event.Server {
				x.State = th.state
			}
			l.Snapshot.Resources = append(l.Snapshot.Resources, x)
		}
	}
	w.store.Put(Listed{StreamKey: StreamKey{"src", "all"}, Platform: event.Hetzner, Snapshot: l.Snapshot})
	return l
}

// inventory makes two looks with something in between, by two workers, and
// delivers what both plan, in part.
func (w *world) inventory(between func()) []Step {
	first := w.look()
	seen := Candidates(w.stream(), first)
	w.tick()
	between()
	in := Input{
		Stream: w.stream(), First: Moment{At: first.Snapshot.At, Until: first.Until}, Seen: seen, Look: w.look(), Feed: Feed{UpTo: w.readUpTo},
		LastSeen: w.store.LastSeen(StreamKey{"src", "all"}), FirstSeen: w.firstSeen, MaxEnds: 1000, Ended: map[Key]Reported{},
	}
	for id := range w.received {
		tl := w.timeline(id)
		if _, life, alive, ok := tl.At(w.now); ok && !alive {
			in.Ended[KeyOf(account, res(tl.Resource.Type, id))] = Reported{To: life.To}
		}
	}
	steps, again := Plan(in), Plan(in)
	w.firstSeen = map[SeenKey]time.Time{}
	for i, s := range steps {
		for j, e := range s.Events {
			if again[i].Events[j].ID != e.ID {
				w.t.Fatalf("two workers make %s and %s", e.ID, again[i].Events[j].ID)
			}
			if th := w.things[e.Data.Resource.ID]; s.Kind == api.MissingDelete {
				if th.gone.IsZero() || e.Time.Before(th.gone) || e.Data.NotBefore != nil && e.Data.NotBefore.After(th.gone) {
					w.t.Fatalf("%s ended at %v, and not between %v and %v", e.Data.Resource.ID, th.gone, e.Data.NotBefore, e.Time)
				}
			}
			w.receive(e)
		}
		if len(s.Events) == 0 {
			w.firstSeen[SeenKey{s.Kind, KeyOf(s.Account, s.Resource)}] = s.FirstSeen
		}
	}
	return steps
}

// Whatever happens, whatever the feed loses or tells late, and whenever
// inventories are made: nothing ends that exists, and in the end what was reported
// is what is, and there is nothing left to repair.
func TestAnyCourseOfEvents(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := &world{t: t, now: at("08:00"), things: map[string]*thing{}, received: map[string][]event.Event{}, store: NewStore()}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			w.tick()
			switch rapid.IntRange(0, 7).Draw(t, "step") {
			case 0:
				w.read()
			case 1:
				w.inventory(func() {
					if rapid.Bool().Draw(t, "moves") {
						w.act()
						w.tick()
					}
					if rapid.Bool().Draw(t, "reads") {
						w.read()
					}
				})
			case 2:
				w.store = NewStore() // another worker
			case 3:
				if n := len(w.letters); n > 0 { // redriven
					i := rapid.IntRange(0, n-1).Draw(t, "letter")
					w.receive(w.letters[i])
					w.letters = slices.Delete(w.letters, i, i+1)
				}
			default:
				w.act()
			}
		}
		w.tick()
		w.read()
		if rapid.Bool().Draw(t, "before the letters") {
			w.inventory(w.read)
		}
		w.receive(w.letters...)
		w.tick()
		w.read()
		w.inventory(w.read)
		w.tick()
		for _, s := range w.inventory(w.read) {
			if len(s.Events) > 0 {
				t.Fatalf("left to repair: %+v", s)
			}
		}
		for id, th := range w.things {
			tl := w.timeline(id)
			span, _, alive, ok := tl.At(w.now)
			if exists := th.gone.IsZero(); exists != (ok && alive) {
				t.Fatalf("%s exists: %v, reported: %v\n%+v", id, exists, alive, tl)
			}
			if alive && (!span.Size.Equal(sizeOf(th.kind, th.size)) || span.State != th.state || len(span.Unknown) > 0) {
				t.Fatalf("%s is %v %s, reported %v %s unknown %v", id, sizeOf(th.kind, th.size), th.state, span.Size, span.State, span.Unknown)
			}
			if len(tl.Lives) > 1 {
				t.Fatalf("%s lives %d times", id, len(tl.Lives))
			}
		}
	})
}
