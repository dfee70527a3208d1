package gardener_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/gardener/gardenertest"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
	source_gardener "github.com/tollgate-dev/tollgate/internal/source/gardener"
)

func (p *platform) receiver(t *testing.T, asked bool) *receiver {
	t.Helper()
	return newReceiver(t, asked, func(cfg source.Config) *source_gardener.Source { return p.source(t, cfg) })
}

func play(t *testing.T, g gardenertest.Cluster, namespace, name string, moments []moment, each func(m moment)) {
	t.Helper()
	s := newborn(namespace, name)
	for _, m := range moments {
		m.do(t, g, s)
		if each != nil {
			each(m)
		}
	}
}

// Each moment is read at once, by a process that lives on or one that is new.
func TestLifeFollowed(t *testing.T) {
	t.Parallel()
	for what, restart := range map[string]bool{"one process": false, "a process for each page": true} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			p := newPlatform(t)
			r := p.receiver(t, false)
			r.read()
			seen := 0
			play(t, p.Cluster, acme, "shop", life(), func(m moment) {
				if restart {
					r.restart()
				}
				r.read()
				lines := r.lines("shop")
				if diff := cmp.Diff(m.want, append([]string(nil), lines[seen:]...)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", m.what, diff)
				}
				seen = len(lines)
			})
			r.wantOnce()
			if len(r.gaps) > 0 {
				t.Errorf("gaps %v", r.gaps)
			}
		})
	}
}

// A watch shows everything that happened while nobody looked.
func TestLifeReadAtItsEnd(t *testing.T) {
	t.Parallel()
	p := newPlatform(t)
	r := p.receiver(t, false)
	r.read()
	play(t, p.Cluster, acme, "shop", life(), nil)
	r.restart()
	r.read()
	if diff := cmp.Diff(whole(), r.lines("shop")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	r.wantOnce()
}

// The reader is away while things happen, and the API server forgets them.
func TestAway(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		from, to string // the moments between which the reader is away
		// asked: the sink can be asked. kept: the process lives on.
		asked, kept bool
		want        []string // after the return
	}{
		"nothing happens": {"scaled", "scaled", true, false, nil},
		"created meanwhile": {"made", "reconciled", true, false,
			[]string{"create.end to a=m1.large a=1 all=1"}},
		"created, then reconciled": {"made", "scaled", true, false,
			[]string{"create.end to a=m1.large a=1 all=1 (concluded)"}},
		"scaled": {"scaled", "maximum", true, false,
			[]string{"worker.scale from a=1 all=1 to a=3 all=3 (concluded)"}},
		"scaled, process kept": {"scaled", "maximum", false, true,
			[]string{"worker.scale from a=1 all=1 to a=3 all=3 (concluded)"}},
		"several changes are one": {"scaled", "one pool less", true, false,
			[]string{"worker.scale from a=1 all=1 to a=4 gpu_b=m1.xlarge gpu_b=2 all=6 (concluded)"}},
		"a pool comes and goes": {"one pool more", "sleep is wished", true, false,
			[]string{"worker.scale from a=3 all=3 to a=4 all=4 (concluded)", "worker.machine_type_change from a=m1.xlarge to a=m1.large (concluded)"}},
		"asleep": {"sleep is wished", "waking is wished", true, false,
			[]string{"hibernate.start (concluded)"}},
		"sleep is only wished": {"sleep is wished", "asleep", true, false, nil},
		"awake again":          {"waking is wished", "noted", true, false, []string{"hibernate.end (concluded)"}},
		"slept and woke":       {"sleep is wished", "noted", true, false, nil},
		"gone": {"noted", "", true, false,
			[]string{"delete.end to a=m1.large a=4 gpu_b=m1.xlarge gpu_b=0 all=4 (concluded)"}},
		"gone, process kept": {"noted", "", false, true,
			[]string{"delete.end to a=m1.large a=4 all=4 (concluded)"}},
		"came and went": {"made", "", true, false, nil},
		// Nobody can be asked: what may have changed is said again.
		"scaled, nobody to ask": {"scaled", "maximum", false, false,
			[]string{"worker.scale to a=m1.large a=3 all=3 (concluded)"}},
		"awake, nobody to ask": {"waking is wished", "noted", false, false,
			[]string{"worker.scale to a=m1.large a=4 all=4 (concluded)", "hibernate.end (concluded)"}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			p := newPlatform(t)
			r := p.receiver(t, c.asked)
			r.read()
			before, rest := upTo(c.from)
			play(t, p.Cluster, acme, "shop", before, nil)
			r.read()
			seen := len(r.lines("shop"))
			p.later(2 * time.Second)
			s := newborn(acme, "shop")
			for _, m := range rest {
				if m.what == c.to {
					break
				}
				m.do(t, p.Cluster, s)
			}
			p.Compact()
			if !c.kept {
				r.restart()
			}
			r.read()
			if diff := cmp.Diff(c.want, append([]string(nil), r.lines("shop")[seen:]...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(r.gaps) != 1 || !r.gaps[0].From.Before(r.gaps[0].To) {
				t.Errorf("gaps %v, want one", r.gaps)
			}
			if c.asked || c.kept {
				r.wantOnce()
			}
			r.read()
			if len(r.gaps) != 1 {
				t.Error("the gap is said again")
			}
			for _, e := range r.got {
				if e.Data.NotBefore != nil && e.Data.NotBefore.After(e.Time) {
					t.Errorf("%s: not before %v, and at %v", e.ID, e.Data.NotBefore, e.Time)
				}
			}
		})
	}
}

// A watch reaches further back than lists do: then everything is there, and no gap.
func TestOnlyListsAreCompacted(t *testing.T) {
	t.Parallel()
	for from := range life() {
		p := newPlatform(t)
		r := p.receiver(t, true)
		r.read()
		before, rest := life()[:from], life()[from:]
		play(t, p.Cluster, acme, "shop", before, nil)
		r.read()
		pending := r.last.Pending
		s := newborn(acme, "shop")
		for _, m := range rest {
			m.do(t, p.Cluster, s)
		}
		p.CompactLists()
		r.restart()
		r.read()
		if diff := cmp.Diff(whole(), r.lines("shop")); diff != "" {
			t.Errorf("away from %s on (-want +got):\n%s", life()[from].what, diff)
		}
		if len(r.gaps) > 0 {
			t.Errorf("away from %s on: gaps %v", life()[from].what, r.gaps)
		}
		if r.last.Pending != 0 || from > 0 && from < 4 && pending != 1 {
			t.Errorf("away from %s on: %d pending before and %d at the end", life()[from].what, pending, r.last.Pending)
		}
		r.wantOnce()
	}
}

// A shoot that is made again under its name is another one.
func TestMadeAgain(t *testing.T) {
	t.Parallel()
	for what, away := range map[string]bool{"watched": false, "away": true} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			p := newPlatform(t)
			r := p.receiver(t, true)
			first := p.Created(t, newborn(acme, "shop"))
			r.read()
			p.Deleted(t, first)
			second := p.Created(t, newborn(acme, "shop"))
			if away {
				p.Compact()
				r.restart()
			}
			r.read()
			if got := r.types("shop"); len(got) != 3 || got[0] != "create.end" || got[1] != "create.end" || got[2] != "delete.end" {
				t.Errorf("%v", got)
			}
			lines := r.timelines()
			one, two := lines[event.Resource{Type: event.Shoot, ID: string(first.UID)}], lines[event.Resource{Type: event.Shoot, ID: string(second.UID)}]
			if len(one.Lives) != 1 || one.Lives[0].To.IsZero() || len(two.Lives) != 1 || !two.Lives[0].To.IsZero() {
				t.Errorf("the first one lived %+v, the second one %+v", one.Lives, two.Lives)
			}
		})
	}
}

// A right that is lacking may come with the next second, or with a person.
func TestForbidden(t *testing.T) {
	t.Parallel()
	p := newPlatform(t)
	r := p.receiver(t, false)
	now := time.Now()
	r.s.SetClock(func() time.Time { return now })
	forbid := func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.fault = func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,"reason":"Forbidden","message":"no"}`)
			return true
		}
	}
	for range 2 {
		forbid()
		for after, want := range []provider.Class{provider.Transient, provider.Transient, provider.Permanent} {
			_, err := r.s.Next(t.Context(), r.c)
			if provider.ClassOf(err) != want || provider.ReasonOf(err) != provider.ReasonForbidden {
				t.Errorf("after %d times half a minute: %v, want %s", after, err, want)
			}
			now = now.Add(30 * time.Second)
		}
		p.heal()
		r.read()
	}
}

// The version of the cursor lies in the future when the API server was restored
// from a backup.
func TestRestoredFromABackup(t *testing.T) {
	t.Parallel()
	p := newPlatform(t)
	r := p.receiver(t, true)
	p.Created(t, newborn(acme, "old"))
	r.read()
	p.Restore(50)
	r.restart()
	p.Created(t, newborn(acme, "new"))
	r.read()
	if got := r.types("new"); len(got) != 1 || len(r.gaps) != 1 {
		t.Errorf("%v, gaps %v", got, r.gaps)
	}
	if got := r.types("old"); len(got) != 1 {
		t.Errorf("what was there: %v", got)
	}
	r.wantOnce()
}

// A creation that fails and is deleted has held infrastructure; a shoot on which
// nobody worked has not.
func TestNeverCreated(t *testing.T) {
	t.Parallel()
	p := newPlatform(t)
	r := p.receiver(t, true)
	failed := p.Make(t, newborn(acme, "failed"))
	p.Operation(t, failed, "Create", "Failed")
	untouched := p.Make(t, newborn(acme, "untouched"))
	r.read()
	if len(r.got) > 0 || r.last.Pending != 2 {
		t.Errorf("%d events, %d pending: want none, both", len(r.got), r.last.Pending)
	}
	p.Deleted(t, failed)
	p.AskDelete(t, untouched)
	r.read()
	if diff := cmp.Diff([]string{"create.end to a=m1.large a=1 all=1 (concluded)", "delete.end to a=m1.large a=1 all=1"}, r.lines("failed")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := r.lines("untouched"); len(got) > 0 || r.last.Pending != 0 {
		t.Errorf("of the one that nobody worked on: %v, %d pending", got, r.last.Pending)
	}
}

// A collector that begins late does not guess what was ordered in the past.
func TestBeginsLate(t *testing.T) {
	t.Parallel()
	p := newPlatform(t)
	s := p.Created(t, newborn(acme, "shop"))
	p.later(time.Hour)
	p.Pools(t, s, gardenertest.Pool{Name: "a", Type: "m1.large", Minimum: 7})
	p.Hibernate(t, s, true)
	p.later(time.Hour)
	p.Reconciled(t, s)
	p.Created(t, newborn(acme, "plain"))
	r := p.receiver(t, true)
	r.read()
	if diff := cmp.Diff([]string{"create.end unknown (concluded)", "worker.scale to a=m1.large a=7 all=7", "hibernate.start"}, r.lines("shop")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"create.end to a=m1.large a=1 all=1"}, r.lines("plain")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Two projects, one of which begins with the other's name, and another Gardener's
// shoots: each event has its account, and only what is ours ends.
func TestAccounts(t *testing.T) {
	t.Parallel()
	p := newPlatform(t)
	p.AddProject("acme-2", "garden-q")
	r := p.receiver(t, true)
	r.read()
	p.Created(t, newborn(acme, "one"))
	p.Created(t, newborn("garden-q", "two"))
	r.read()
	foreign := event.New(event.ShootCreate, time.Now(), event.Data{Platform: event.Gardener, Account: "other/acme",
		Resource: event.Resource{Type: event.Shoot, ID: "foreign", Name: "foreign"}, Change: event.ChangeCreate, Size: event.Size{event.WorkerCount: event.Int(1)}})
	r.got[foreign.ID] = foreign
	p.Compact()
	r.restart()
	r.read()
	accounts := map[string]string{}
	for _, e := range r.got {
		if e.Type == event.ShootDelete {
			t.Errorf("%s has ended", e.Data.Resource.Name)
		}
		accounts[e.Data.Resource.Name] = e.Data.Account
	}
	if diff := cmp.Diff(map[string]string{"one": "kit/acme", "two": "kit/acme-2", "foreign": "other/acme"}, accounts); diff != "" {
		t.Errorf("accounts (-want +got):\n%s", diff)
	}
}
