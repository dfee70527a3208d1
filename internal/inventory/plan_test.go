package inventory

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

const account = "acme"

func at(hhmm string) time.Time {
	t, err := time.Parse("2006-01-02 15:04", "2026-11-02 "+hhmm)
	if err != nil {
		panic(err)
	}
	return t.UTC()
}

var (
	serverKind = source.Kind{Type: event.Server, Verbs: []string{"create", "delete", "resize", "power_on", "power_off"}}
	volumeKind = source.Kind{Type: event.Volume, Verbs: []string{"create", "delete", "resize"}, Silent: []string{"delete"}}
	ipKind     = source.Kind{Type: event.FloatingIP, Verbs: []string{"create", "delete"}, Silent: []string{"delete"}}
)

func small() event.Size {
	return event.Size{event.VCPUs: event.Int(2), event.RAMGB: event.Int(4), event.DiskGB: event.Int(40), event.ServerType: event.Text("cx23")}
}

func large() event.Size {
	return event.Size{event.VCPUs: event.Int(4), event.RAMGB: event.Int(8), event.DiskGB: event.Int(80), event.ServerType: event.Text("cx33")}
}

func res(t event.ResourceType, id string) event.Resource { return event.Resource{Type: t, ID: id} }

// scene is a comparison at 12:00 that nothing speaks against.
type scene struct {
	Input
}

func newScene(kinds ...source.Kind) *scene {
	return &scene{Input{
		Stream:  Stream{Name: "s", Platform: event.Hetzner, Account: account, Kinds: kinds},
		First:   Moment{At: at("12:00"), Until: at("12:00").Add(2 * time.Second)},
		Look:    Look{Reported: map[Key]Reported{}, Until: at("12:03"), Snapshot: source.Snapshot{At: at("12:02")}},
		Feed:    Feed{UpTo: at("12:01")},
		MaxEnds: 20,
	}}
}

func (s *scene) report(r event.Resource, size event.Size, since string) {
	s.Look.Reported[KeyOf(account, r)] = Reported{Account: account, Resource: r, Size: size, State: event.Active, From: at(since), Since: at(since)}
}

func (s *scene) list(r event.Resource, size event.Size, change ...func(*source.Existing)) {
	x := source.Existing{Account: account, Resource: r, Size: size, CreatedAt: at("10:00")}
	for _, f := range change {
		f(&x)
	}
	s.Look.Snapshot.Resources = append(s.Look.Snapshot.Resources, x)
}

// plan plans with a first look that saw what the second sees.
func (s *scene) plan() []Step {
	s.Seen = Candidates(s.Stream, s.Look)
	return Plan(s.Input)
}

func one(t *testing.T, steps []Step) Step {
	t.Helper()
	if len(steps) != 1 {
		t.Fatalf("%d differences, want one: %+v", len(steps), steps)
	}
	return steps[0]
}

func (s *scene) valid(t *testing.T, steps []Step) {
	t.Helper()
	for _, st := range steps {
		for _, e := range st.Events {
			if err := e.Validate(); err != nil {
				t.Errorf("%s: %v", e.ID, err)
			}
			if e.Data.Derived != event.FromInventory {
				t.Errorf("%s does not say that it is derived", e.ID)
			}
		}
	}
}

// An end that nobody saw has the id that the feed would give it, the size that was
// reported last, and the two times that it lies between.
func TestEnd(t *testing.T) {
	t.Parallel()
	for _, kind := range []source.Kind{serverKind, volumeKind, ipKind} {
		s := newScene(kind)
		size := small()
		switch kind.Type {
		case event.Volume:
			size = event.Size{event.SizeGB: event.Int(10)}
		case event.FloatingIP:
			size = event.Size{event.IPVersion: event.Text("4"), event.Kind: event.Text("ipv4")}
		}
		r := res(kind.Type, "7")
		s.report(r, size, "09:00")
		s.LastSeen = map[Key]time.Time{KeyOf(account, r): at("11:45")}
		steps := s.plan()
		s.valid(t, steps)
		st := one(t, steps)
		listed := at("11:45")
		want := event.New(kind.EventType("delete"), s.First.Until, event.Data{Platform: event.Hetzner, Account: account, Resource: r,
			Change: event.ChangeDelete, Size: size, Derived: event.FromInventory, NotBefore: &listed})
		if st.Kind != api.MissingDelete || st.Action != "" || len(st.Events) != 1 {
			t.Fatalf("%+v", st)
		}
		if diff := cmp.Diff(st.Events[0], want, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("(-got +want)\n%s", diff)
		}
	}
}

func TestTimesOfAnEnd(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		since, listed, first string
		time, notBefore      string
	}{
		"listed since":                {"09:00", "11:45", "", "12:00", "11:45"},
		"changed since the listing":   {"11:50", "11:45", "", "12:00", "11:50"},
		"never listed":                {"09:00", "", "", "12:00", "09:00"},
		"seen missing before":         {"09:00", "11:15", "11:30", "11:30", "11:15"},
		"listed later than missed":    {"09:00", "11:45", "11:30", "11:30", "09:00"},
		"the platform's clock is off": {"13:00", "11:45", "", "13:00", ""},
	} {
		s := newScene(volumeKind)
		s.First.Until = at("12:00")
		s.report(res(event.Volume, "7"), event.Size{event.SizeGB: event.Int(1)}, tc.since)
		if tc.listed != "" {
			s.LastSeen = map[Key]time.Time{{account, event.Volume, "7"}: at(tc.listed)}
		}
		if tc.first != "" {
			s.FirstSeen = map[SeenKey]time.Time{{api.MissingDelete, Key{account, event.Volume, "7"}}: at(tc.first)}
		}
		e := one(t, s.plan()).Events[0]
		notBefore := ""
		if e.Data.NotBefore != nil {
			notBefore = e.Data.NotBefore.Format("15:04")
		}
		if got := e.Time.Format("15:04"); got != tc.time || notBefore != tc.notBefore {
			t.Errorf("%s: between %q and %q, want %q and %q", name, notBefore, got, tc.notBefore, tc.time)
		}
	}
}

// A beginning that was never reported: what it was like in the beginning is known
// only of what never changes.
func TestBeginning(t *testing.T) {
	t.Parallel()
	s := newScene(serverKind, ipKind)
	s.list(res(event.Server, "1"), small(), func(x *source.Existing) { x.State, x.Region = event.Off, "fsn1" })
	s.list(res(event.FloatingIP, "2"), event.Size{event.IPVersion: event.Text("4"), event.Kind: event.Text("ipv4")})
	s.list(res(event.Server, "3"), small(), func(x *source.Existing) { x.CreatedAt = time.Time{} })
	steps := s.plan()
	s.valid(t, steps)
	var got []string
	for _, st := range steps {
		for _, e := range st.Events {
			id := e.ID
			if e.Data.Change != event.ChangeCreate {
				id = id[:strings.LastIndexByte(id, ':')]
			}
			got = append(got, strings.Join([]string{id, string(e.Type), e.Time.Format("15:04:05"), sizeText(e.Data.Size), strings.Join(e.Data.UnknownSize, " ")}, "|"))
		}
	}
	const sized = "disk_gb 40, ram_gb 4, server_type cx23, vcpus 2"
	want := []string{
		"hetzner/acme/floating_ip/2/create|floating_ip.create.end|10:00:00|ip_version 4, type ipv4|",
		"hetzner/acme/server/1/create|server.create.end|10:00:00||vcpus ram_gb disk_gb server_type",
		"hetzner/acme/server/1/inventory|server.resize.end|12:00:02|" + sized + "|",
		"hetzner/acme/server/1/inventory|server.power_off.end|12:00:02||",
		"hetzner/acme/server/3/create|server.create.end|12:00:02|" + sized + "|",
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("(-got +want)\n%s", diff)
	}
}

// A change that nobody reported has an id of what was reported, since when, and
// what is: it stays the same until something is reported.
func TestChange(t *testing.T) {
	t.Parallel()
	r := res(event.Server, "1")
	id := func(was event.Size, since string, is event.Size, state event.State, unknown ...string) (kind api.DifferenceKind, id string) {
		t.Helper()
		s := newScene(serverKind)
		s.report(r, was, since)
		s.list(r, is, func(x *source.Existing) { x.State = state })
		steps := s.plan()
		s.valid(t, steps)
		st := one(t, steps)
		if len(st.Events) != 1 || !st.EventTime.Equal(st.Events[0].Time) || st.EventTime.Before(at("12:00")) {
			t.Fatalf("%+v", st)
		}
		return st.Kind, st.EventID
	}
	kind, up := id(small(), "09:00", large(), event.Active)
	if kind != api.SizeDiffers {
		t.Errorf("kind %s", kind)
	}
	if _, again := id(small(), "09:00", large(), event.Active); again != up {
		t.Errorf("%s, then %s", up, again)
	}
	_, down := id(large(), "12:00", small(), event.Active)
	if _, up2 := id(small(), "12:15", large(), event.Active); up2 == up || up2 == down || down == up {
		t.Errorf("there and back again: %s, %s, %s", up, down, up2)
	}
	if kind, id := id(small(), "09:00", small(), event.Off); kind != api.StateDiffers || !strings.HasPrefix(id, "hetzner/acme/server/1/inventory:") {
		t.Errorf("%s %s", kind, id)
	}
	if kind, _ := id(nil, "09:00", small(), event.Active); kind != api.UnknownSizeKnown {
		t.Errorf("kind %s", kind)
	}
	// The vendor's clock is ahead: what was reported came first.
	s := newScene(serverKind)
	s.report(r, small(), "13:00")
	s.list(r, large())
	if e := one(t, s.plan()).Events[0]; !e.Time.After(at("13:00")) || e.Data.NotBefore != nil {
		t.Errorf("%s, not before %v", e.Time, e.Data.NotBefore)
	}
}

// What the listing does not say is not compared.
func TestNotSaid(t *testing.T) {
	t.Parallel()
	s := newScene(serverKind)
	r := res(event.Server, "1")
	s.report(r, small(), "09:00")
	s.list(r, nil)
	s.list(res(event.Server, "2"), small(), func(x *source.Existing) { x.Leaving = true })
	if steps := s.plan(); len(steps) > 0 {
		t.Errorf("%+v", steps)
	}
}

// Nothing follows from one look, and nothing while the feed may tell it.
func TestWaits(t *testing.T) {
	t.Parallel()
	gone := res(event.Server, "1")
	for name, tc := range map[string]struct {
		change func(s *scene)
		want   api.DifferenceAction
		text   string
	}{
		"all is well":       {func(*scene) {}, "", ""},
		"feed unknown":      {func(s *scene) { s.Feed = Feed{Why: "the cursor does not run"} }, api.DifferenceWaits, "the cursor does not run"},
		"feed behind":       {func(s *scene) { s.Feed.UpTo = at("12:00") }, api.DifferenceWaits, "may still tell it"},
		"changes under way": {func(s *scene) { s.Feed.Pending = 2 }, api.DifferenceWaits, "2 changes are under way"},
		"for more than hours": {func(s *scene) {
			s.Feed.Pending = 2
			s.FirstSeen = map[SeenKey]time.Time{{api.MissingDelete, KeyOf(account, gone)}: at("10:30")}
		}, "", ""},
		"unreadable entry": {func(s *scene) { s.Look.Snapshot.Unreadable = []string{"odd"} }, api.DifferenceWaits, "it may be that"},
	} {
		s := newScene(serverKind)
		s.report(gone, small(), "09:00")
		tc.change(s)
		steps := s.plan()
		i := 0
		for i < len(steps) && steps[i].Kind != api.MissingDelete {
			i++
		}
		if st := steps[i]; st.Action != tc.want || !strings.Contains(st.Message, tc.text) || (tc.want == "") != (len(st.Events) > 0) {
			t.Errorf("%s: %+v", name, st)
		}
	}
	s := newScene(serverKind)
	s.report(gone, small(), "09:00")
	s.Seen = nil
	if steps := Plan(s.Input); len(steps) > 0 {
		t.Errorf("concluded from one look: %+v", steps)
	}
	// What differs otherwise in the second look was not seen twice.
	s = newScene(serverKind)
	s.report(gone, small(), "09:00")
	s.list(gone, large())
	s.Seen = Candidates(s.Stream, s.Look)
	s.Look.Snapshot.Resources[0].Size = event.Size{event.VCPUs: event.Int(3)}
	if steps := Plan(s.Input); len(steps) > 0 {
		t.Errorf("concluded from two different looks: %+v", steps)
	}
}

// The end of a volume is nothing that the feed would tell, whatever is under way.
func TestSilentEndsDoNotWaitForChanges(t *testing.T) {
	t.Parallel()
	s := newScene(volumeKind)
	s.report(res(event.Volume, "1"), event.Size{event.SizeGB: event.Int(1)}, "09:00")
	s.Feed.Pending = 5
	if st := one(t, s.plan()); st.Action != "" {
		t.Errorf("%+v", st)
	}
}

func TestNoEventFor(t *testing.T) {
	t.Parallel()
	s := newScene(ipKind)
	r := res(event.FloatingIP, "1")
	s.report(r, event.Size{event.Kind: event.Text("ipv4")}, "09:00")
	s.list(r, event.Size{event.Kind: event.Text("ipv6")})
	if st := one(t, s.plan()); st.Action != api.DifferenceNone || len(st.Events) > 0 || st.Message == "" {
		t.Errorf("%+v", st)
	}
	s = newScene(serverKind)
	r = res(event.Server, "1")
	s.list(r, small())
	s.Ended = map[Key]Reported{KeyOf(account, r): {To: at("11:00")}}
	if st := one(t, s.plan()); st.Kind != api.EndedButListed || st.Action != api.DifferenceNone || !strings.Contains(st.Reported, "11:00") {
		t.Errorf("%+v", st)
	}
}

// When suspiciously much would end, nothing does.
func TestBrake(t *testing.T) {
	t.Parallel()
	held := func(gone, left, strangers, maxEnds int) bool {
		t.Helper()
		s := newScene(volumeKind)
		s.MaxEnds = maxEnds
		size := event.Size{event.SizeGB: event.Int(1)}
		for i := range gone + left {
			r := res(event.Volume, strings.Repeat("1", 1+i))
			s.report(r, size, "09:00")
			if i >= gone {
				s.list(r, size)
			}
		}
		for i := range strangers {
			s.list(res(event.Volume, strings.Repeat("2", 1+i)), size)
		}
		ends, heldEnds := 0, 0
		for _, st := range s.plan() {
			if st.Kind == api.MissingDelete {
				ends++
				if st.Action == api.DifferenceHeld {
					heldEnds++
				}
			}
		}
		if ends != gone || heldEnds != 0 && heldEnds != ends {
			t.Errorf("%d ends, %d held", ends, heldEnds)
		}
		return heldEnds > 0
	}
	for _, tc := range []struct {
		gone, left, strangers, max int
		want                       bool
	}{
		{20, 0, 0, 20, false}, {21, 0, 0, 20, true}, {21, 21, 0, 20, false}, {21, 20, 0, 20, true}, {21, 0, 0, 21, false},
		{2, 0, 1, 20, false}, {3, 0, 1, 20, true}, {3, 1, 1, 20, false}, {3, 0, 0, 20, false}, {3, 0, 1, 21, false},
	} {
		if got := held(tc.gone, tc.left, tc.strangers, tc.max); got != tc.want {
			t.Errorf("%+v: held %v", tc, got)
		}
	}
}

// Ours is what carries our installation's marks and nothing else, whatever it is
// called.
func TestOurs(t *testing.T) {
	t.Parallel()
	s := newScene(serverKind)
	s.Look.Reported = nil
	s.Look.Fleet = &Fleet{Installation: "one", Owners: map[string]bool{"u1": true, "u2": true},
		Running: []FleetInstance{{"ns", "p1", "proxy-a"}, {"ns", "p2", "proxy-b"}}}
	marks := func(uid, installation string) func(*source.Existing) {
		return func(x *source.Existing) { x.Marks = &provider.Marks{UID: uid, Installation: installation} }
	}
	named := func(id, name string) event.Resource { return event.Resource{Type: event.Server, ID: id, Name: name} }
	s.list(named("1", "proxy-a"), small(), marks("u1", "one"))
	s.list(named("2", "proxy-b"), small(), marks("u2", "two")) // the other installation's, of the same name
	s.list(named("3", "proxy-c"), small(), marks("u9", "two")) // the other installation's
	s.list(named("4", "proxy-d"), small(), marks("u3", "one")) // nobody's any more
	s.list(named("5", "proxy-b"), small())                     // somebody's server of that name
	s.list(named("6", "proxy-a"), small(), marks("u1", "one")) // made twice
	got := map[api.DifferenceKind]string{}
	for _, st := range s.plan() {
		got[st.Kind] += st.Resource.ID + " "
		if st.Action != api.DifferenceNone || len(st.Events) > 0 {
			t.Errorf("%+v: the inventory repairs no fleet", st)
		}
	}
	want := map[api.DifferenceKind]string{api.OursNotListed: "proxy-b ", api.OursWithoutOwner: "4 ", api.OursTwice: "6 "}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("(-got +want)\n%s", diff)
	}
}
