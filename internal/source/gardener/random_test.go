package gardener_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/tollgate-dev/tollgate/internal/gardener"
	"github.com/tollgate-dev/tollgate/internal/gardener/gardenertest"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
)

// Users and gardenlets do what they like, the reader comes and goes, dies, repeats
// pages, and is away while the past is forgotten: at the end, what the events say
// is what there is, and a gap is said whenever something may be missing.
func TestAnyInterleaving(t *testing.T) {
	t.Parallel()
	for range 8 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			interleave(t, rand.New(rand.NewPCG(seed, 1)))
		})
	}
}

func interleave(t *testing.T, rng *rand.Rand) {
	p := newPlatform(t)
	r := p.receiver(t, true)
	types := []string{"m1.large", "m1.xlarge"}
	pools := func() (out []gardenertest.Pool) {
		for _, name := range []string{"a", "b-2"}[:1+rng.IntN(2)] {
			out = append(out, gardenertest.Pool{Name: name, Type: types[rng.IntN(2)], Minimum: int32(1 + rng.IntN(4))})
		}
		return out
	}
	compactions := 0
	for range 60 {
		p.later(time.Duration(1+rng.IntN(3)) * time.Second) // what happens has times of whole seconds
		all, n := p.Sim.Shoots(), rng.IntN(12)
		switch {
		case n == 0:
			r.restart()
		case n == 1: // a page is read, delivered, and read again
			page, err := r.s.Next(t.Context(), r.c)
			if err != nil {
				t.Fatal(err)
			}
			before := r.c
			r.take(page)
			r.c = before
		case n == 2 && r.pages > 0:
			p.Compact()
			compactions++
		case n == 3 && r.pages > 0:
			p.CompactLists()
		case n < 6:
			r.read()
		case len(all) < 3:
			p.Make(t, gardenertest.Shoot(acme, unused(all), pools()...))
		default:
			act(t, p, rng, all[rng.IntN(len(all))], pools)
		}
	}
	r.restart()
	r.read()
	r.read()
	lines := r.timelines()
	exist := map[string]bool{}
	for _, s := range p.Sim.Shoots() {
		if !gardener.Created(s) {
			continue
		}
		exist[gardener.UID(s)] = true
		line, ok := lines[event.Resource{Type: event.Shoot, ID: gardener.UID(s)}]
		span, _, alive, known := line.At(time.Now().Add(24 * time.Hour))
		if !ok || !known || !alive {
			t.Errorf("%s exists, and the events say it does not: %v", s.Name, r.lines(s.Name))
			continue
		}
		total := int32(0)
		for _, w := range s.Spec.Provider.Workers {
			total += w.Minimum
			if span.Size[event.PoolMachineType(w.Name)] != event.Text(w.Machine.Type) || span.Size[event.PoolWorkerCount(w.Name)] != event.Int(w.Minimum) {
				t.Errorf("%s: pool %s has %d %s, the events say %v", s.Name, w.Name, w.Minimum, w.Machine.Type, span.Size)
			}
		}
		if span.Size[event.WorkerCount] != event.Int(total) {
			t.Errorf("%s has %d workers, the events say %v", s.Name, total, span.Size)
		}
		if want := map[bool]event.State{true: event.Hibernated, false: event.Active}[s.Status.IsHibernated]; span.State != want {
			t.Errorf("%s is %s, the events say %s", s.Name, want, span.State)
		}
	}
	for k, line := range lines {
		if _, _, alive, _ := line.At(time.Now().Add(24 * time.Hour)); alive && !exist[k.ID] {
			t.Errorf("%s is gone, and the events say it exists", line.Resource.Name)
		}
		for _, f := range line.Findings {
			t.Errorf("%s: finding %v in %v", line.Resource.Name, f, r.lines(line.Resource.Name))
		}
	}
	if len(r.gaps) > 0 && compactions == 0 {
		t.Errorf("gaps %v although nothing was forgotten", r.gaps)
	}
	for _, x := range r.rejected {
		uid := string(x.Ref[strings.LastIndex(string(x.Ref), "|")+1:])
		if _, told := lines[event.Resource{Type: event.Shoot, ID: uid}]; told || exist[uid] || compactions == 0 {
			t.Errorf("rejected %+v, although it has events, or is there, or nothing was forgotten", x)
		}
	}
}

// unused is a name that no shoot has now; an earlier one may have had it.
func unused(all []*corev1beta1.Shoot) string {
	for i := 0; ; i++ {
		name := fmt.Sprintf("s%d", i)
		if !slices.ContainsFunc(all, func(s *corev1beta1.Shoot) bool { return s.Name == name }) {
			return name
		}
	}
}

// act does something that fits to a shoot.
func act(t *testing.T, p *platform, rng *rand.Rand, s *corev1beta1.Shoot, pools func() []gardenertest.Pool) {
	deleting := s.DeletionTimestamp != nil
	switch n := rng.IntN(6); {
	case deleting:
		p.Gone(t, s)
	case !gardener.Created(s):
		p.Operation(t, s, "Create", []corev1beta1.LastOperationState{"Processing", "Error", "Succeeded", "Succeeded"}[rng.IntN(4)])
	case n < 2:
		p.Pools(t, s, pools()...)
	case n == 2:
		p.Hibernate(t, s, !gardener.WantsHibernation(s))
	case n == 3:
		p.AskDelete(t, s)
	default:
		p.Reconciled(t, s)
	}
}
