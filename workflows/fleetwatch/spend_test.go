package fleetwatch

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

const cent = provider.MicroEUR(10_000)

// capped is shard 0 of a fleet with a cap of five cents and a listing that costs
// two.
func capped(t *testing.T) *state {
	t.Helper()
	s := newState(api.FleetWatchInput{Provider: "p"})
	s.configure(now, api.FleetConfig{ConfigHash: "h", SpendCap: 5 * cent})
	s.listed(now, &api.SpendListing{Total: 2 * cent, Instances: 2})
	return s
}

func ask(n int, price provider.MicroEUR) api.SpendRequest {
	return api.SpendRequest{UID: fmt.Sprint("uid-", n), Namespace: "default", Proxy: fmt.Sprint("p", n), Instance: fmt.Sprint("i", n), Price: price, Known: true, Cap: 5 * cent}
}

func at(d time.Duration) time.Time { return now.Add(d) }

func TestCreatesTogetherStayBelowTheCap(t *testing.T) {
	t.Parallel()
	s := capped(t)
	granted := 0
	for n := range 20 {
		if s.reserve(now, ask(n, cent)).Granted {
			granted++
		}
	}
	if granted != 3 {
		t.Errorf("%d creates of a cent were let through with three cents of room", granted)
	}
	a := s.reserve(now, ask(19, cent))
	want := api.SpendAnswer{Cap: 5 * cent, Total: 5 * cent, Instances: 2, Creates: 3}
	if diff := cmp.Diff(a, want); diff != "" {
		t.Errorf("answer (-got +want):\n%s", diff)
	}
	if again := s.reserve(at(time.Minute), ask(0, cent)); !again.Granted {
		t.Error("a create that was let through is refused when it is tried again")
	}
	if n := len(s.spend.Waiting); n != 17 {
		t.Errorf("%d wait, want 17", n)
	}
	if v := s.spendStatus(); v.EURPerHour != "0.050000" || v.SpendCap != "0.050000" || v.Creates != 3 || v.Waiting != 17 || v.Refused != 18 {
		t.Errorf("status %+v", v)
	}
}

func TestNothingIsGrantedBeforeTheCostsAreKnown(t *testing.T) {
	t.Parallel()
	s := newState(api.FleetWatchInput{Provider: "p"})
	if a := s.reserve(now, ask(1, cent)); a.Granted || !a.Unready {
		t.Errorf("without a configuration: %+v", a)
	}
	s.configure(now, api.FleetConfig{ConfigHash: "h"})
	if a := s.reserve(now, ask(1, cent)); a.Granted || !a.Unready {
		t.Errorf("with a worker that knows of a cap first: %+v", a)
	}
	open := ask(1, cent)
	open.Cap = 0
	if a := s.reserve(now, open); !a.Granted || len(s.spend.Held) != 0 {
		t.Errorf("without a cap: %+v", a)
	}
	s.listed(now, &api.SpendListing{})
	s.configure(at(time.Second), api.FleetConfig{ConfigHash: "h", SpendCap: 5 * cent})
	if a := s.reserve(at(2*time.Second), ask(1, cent)); a.Granted || !a.Unready {
		t.Errorf("with a listing from before the cap: %+v", a)
	}
	if !s.nextDrift.Equal(at(time.Second)) {
		t.Error("no listing is made at once")
	}
	s.listed(at(3*time.Second), nil)
	if s.spendReady() {
		t.Error("a listing without prices counts")
	}
	s.listed(at(3*time.Second), &api.SpendListing{})
	if a := s.reserve(at(4*time.Second), ask(1, cent)); !a.Granted {
		t.Errorf("with a listing since: %+v", a)
	}
	unknown := ask(2, 0)
	unknown.Known = false
	if a := s.reserve(at(4*time.Second), unknown); a.Granted || a.Unready {
		t.Errorf("of unknown price: %+v", a)
	}
	if got := s.fitting(now); len(got) != 0 {
		t.Errorf("%+v is told to try again though its price is unknown", got)
	}
}

func TestListingsReplaceWhatIsHeld(t *testing.T) {
	t.Parallel()
	for what, tt := range map[string]struct {
		listed  api.SpendListing
		begun   time.Duration // after the grant
		release *api.SpendRelease
		total   provider.MicroEUR
		held    int
	}{
		"not there yet":                   {api.SpendListing{Total: 2 * cent}, time.Minute, nil, 3 * cent, 1},
		"there":                           {api.SpendListing{Total: 3 * cent, Held: []string{"i1"}}, time.Minute, nil, 3 * cent, 1},
		"there for long":                  {api.SpendListing{Total: 3 * cent, Held: []string{"i1"}}, listedFor + time.Second, nil, 3 * cent, 0},
		"never came":                      {api.SpendListing{Total: 2 * cent}, heldFor + time.Second, nil, 2 * cent, 0},
		"refused, listing too early":      {api.SpendListing{Total: 2 * cent}, 20 * time.Second, &api.SpendRelease{Instance: "i1", Failed: true}, 3 * cent, 1},
		"refused":                         {api.SpendListing{Total: 2 * cent}, time.Minute, &api.SpendRelease{Instance: "i1", Failed: true}, 2 * cent, 0},
		"refused, and there all the same": {api.SpendListing{Total: 3 * cent, Held: []string{"i1"}}, time.Minute, &api.SpendRelease{Instance: "i1", Failed: true}, 3 * cent, 1},
		"deleted":                         {api.SpendListing{Total: 2 * cent}, time.Second, &api.SpendRelease{Instance: "i1"}, 2 * cent, 0},
		"deleted, listing from before":    {api.SpendListing{Total: 3 * cent, Held: nil}, time.Second, &api.SpendRelease{Instance: "i1"}, 3 * cent, 0},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := capped(t)
			if !s.reserve(now, ask(1, cent)).Granted {
				t.Fatal("refused")
			}
			if tt.release != nil {
				s.released(now, *tt.release)
			}
			s.listed(at(tt.begun), &tt.listed)
			if total, _ := s.spent(); total != tt.total || len(s.spend.Held) != tt.held {
				t.Errorf("total %s, held %+v; want %s and %d", total, s.spend.Held, tt.total, tt.held)
			}
			if tt.held == 1 && !s.reserve(at(tt.begun), ask(1, cent)).Granted {
				t.Error("the retry is refused")
			}
		})
	}
}

func TestWaitingProxiesAreToldOldestFirst(t *testing.T) {
	t.Parallel()
	s := capped(t)
	for n := range 3 {
		s.reserve(now, ask(n, cent))
	}
	for n := 3; n < 7; n++ {
		s.reserve(at(time.Duration(n)*time.Second), ask(n, cent))
	}
	told := func() (names []string) {
		for _, w := range s.fitting(at(time.Minute)) {
			names = append(names, w.Proxy)
		}
		return names
	}
	if got := told(); got != nil {
		t.Errorf("told %v without room", got)
	}
	if _, due := s.spendDue(); due {
		t.Error("a listing is made though nothing is gone")
	}
	s.released(at(10*time.Second), api.SpendRelease{Instance: "of-the-listing"})
	s.spend.TriedAt = at(5 * time.Second)
	if when, due := s.spendDue(); !due || !when.Equal(at(15*time.Second)) {
		t.Errorf("after a delete the next listing is due %v, %v", when, due)
	}
	s.released(at(11*time.Second), api.SpendRelease{Instance: "i0"})
	if diff := cmp.Diff(told(), []string{"p3"}); diff != "" {
		t.Errorf("after one held create is gone (-got +want):\n%s", diff)
	}
	s.listed(at(20*time.Second), &api.SpendListing{Total: cent, Held: []string{"i1"}})
	if diff := cmp.Diff(told(), []string{"p3", "p4", "p5"}); diff != "" {
		t.Errorf("after a listing that lacks one more (-got +want):\n%s", diff)
	}
	s.configure(at(30*time.Second), api.FleetConfig{ConfigHash: "h", SpendCap: 6 * cent})
	if diff := cmp.Diff(told(), []string{"p3", "p4", "p5", "p6"}); diff != "" {
		t.Errorf("after the cap was raised (-got +want):\n%s", diff)
	}
	if s.reserve(at(31*time.Second), ask(3, cent)); len(s.spend.Waiting) != 3 {
		t.Errorf("one that was let through still waits: %+v", s.spend.Waiting)
	}
	s.configure(at(40*time.Second), api.FleetConfig{ConfigHash: "h"})
	if got := told(); len(got) != 3 {
		t.Errorf("told %v after the cap was lifted", got)
	}
}

// Room for one is offered to one at a time.
func TestRoomIsKeptForWhoWasTold(t *testing.T) {
	t.Parallel()
	s := capped(t)
	for n := range 6 {
		s.reserve(now, ask(n, cent))
	}
	s.released(at(time.Second), api.SpendRelease{Instance: "i0"})
	told := s.fitting(at(2 * time.Second))
	if len(told) != 1 || told[0].Proxy != "p3" {
		t.Fatalf("told %+v", told)
	}
	s.woken(at(2*time.Second), told)
	if got := s.fitting(at(3 * time.Second)); len(got) != 0 {
		t.Errorf("its room is offered to %+v too", got)
	}
	if when, ok := s.wakeDue(at(3 * time.Second)); !ok || !when.Equal(at(32*time.Second)) {
		t.Errorf("the next are told %v, %v", when, ok)
	}
	if got := s.fitting(at(32 * time.Second)); len(got) != 1 || got[0].Proxy != "p4" {
		t.Errorf("after it did not come: %+v", got)
	}
	if !s.reserve(at(4*time.Second), ask(3, cent)).Granted {
		t.Error("it is refused when it comes")
	}
	if got := s.fitting(at(33 * time.Second)); len(got) != 0 {
		t.Errorf("its room is offered to %+v after it was taken", got)
	}
	s.woken(at(40*time.Second), nil)
	if n := len(s.spend.Waiting); n != 2 {
		t.Errorf("%d wait", n)
	}
}

func TestRefusedCreatesAreLookedForSoon(t *testing.T) {
	t.Parallel()
	s := capped(t)
	for n := range 4 {
		s.reserve(now, ask(n, cent))
	}
	s.released(now.Add(time.Second), api.SpendRelease{Instance: "i0", Failed: true})
	if when, due := s.spendDue(); !due || when.Before(at(time.Second+failedFor)) {
		t.Errorf("the next listing is due %v, %v: it would not be believed", when, due)
	}
	s.drift.Failures = 1
	if _, due := s.spendDue(); due {
		t.Error("listings that fail are repeated for the sake of costs")
	}
}

func TestSpendIsCarriedOver(t *testing.T) {
	t.Parallel()
	s := capped(t)
	for n := range 6 {
		s.reserve(now, ask(n, cent))
	}
	next := newState(api.FleetWatchInput{Provider: "p", Carried: s.carried()})
	if diff := cmp.Diff(next.spend, s.spend); diff != "" {
		t.Errorf("state (-got +want):\n%s", diff)
	}
	if a := next.reserve(at(time.Minute), ask(9, cent)); a.Granted {
		t.Error("room appeared")
	}
}

func TestOtherShardsKnowNothingOfCosts(t *testing.T) {
	t.Parallel()
	s := newState(api.FleetWatchInput{Provider: "p", Shard: 1})
	s.configure(now, api.FleetConfig{ConfigHash: "h", Shards: 2, SpendCap: cent})
	s.released(now, api.SpendRelease{Instance: "x"})
	if s.spendStatus() != nil || !s.spend.Since.IsZero() || !s.spend.FreedAt.IsZero() {
		t.Errorf("state %+v", s.spend)
	}
}
