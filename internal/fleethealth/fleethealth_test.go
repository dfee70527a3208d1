package fleethealth_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/fleethealth"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func row(n int) api.FleetRow {
	return api.FleetRow{UID: fmt.Sprintf("uid-%03d", n), Namespace: "default", Name: fmt.Sprintf("p%03d", n),
		InstanceID: provider.InstanceID(fmt.Sprintf("id-%03d", n)), Phase: api.PhaseRunning, Healthy: true}
}

var config = api.FleetConfig{UnhealthyAfter: 3, HealthyAfter: 2, BrakeFraction: 0.2, BrakeMin: 3}

// round is the results of one round: the proxies from 0 to n-1, of which some
// fail.
func round(n int, failing ...int) []fleethealth.Result {
	out := make([]fleethealth.Result, n)
	for i := range out {
		out[i] = fleethealth.Result{Row: row(i), OK: true}
	}
	for _, f := range failing {
		out[f].OK, out[f].Class, out[f].Message = false, "timeout", "CONNECT took too long"
	}
	return out
}

func upTo(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

type step struct {
	results  []fleethealth.Result
	skipped  map[string]bool
	control  string
	released bool
	// want are the items as "uid kind"; brake is the brake's reason.
	want  string
	brake string
}

func TestJudge(t *testing.T) {
	t.Parallel()
	fail, pass := round(20, 7), round(20)
	other := round(20, 7)
	other[7].Row.InstanceID = "id-next"
	for name, steps := range map[string][]step{
		"healthy":              {{results: pass}},
		"nobody":               {{}},
		"below the threshold":  {{results: fail}, {results: fail}, {results: pass}, {results: fail}, {results: fail}},
		"unhealthy, then well": {{results: fail}, {results: fail}, {results: fail, want: "uid-007 Unhealthy"}, {results: pass}, {results: pass, want: "uid-007 Healthy"}, {results: pass}},
		"recovers and falls back": {{results: fail}, {results: fail}, {results: fail, want: "uid-007 Unhealthy"}, {results: pass},
			{results: fail}, {results: fail}, {results: fail, want: "uid-007 Unhealthy"}},
		"reminders grow rare": {{results: fail}, {results: fail}, {results: fail, want: "uid-007 Unhealthy"},
			{results: fail}, {results: fail}, {results: fail, want: "uid-007 Unhealthy"},
			{results: fail}, {results: fail}, {results: fail}, {results: fail}, {results: fail}, {results: fail, want: "uid-007 Unhealthy"}},
		"a successor starts anew": {{results: fail}, {results: fail}, {results: other}, {results: other}, {results: other, want: "uid-007 Unhealthy"}},
		"a skipped one keeps its count": {{results: fail}, {results: fail}, {results: round(7), skipped: map[string]bool{"uid-007": true}},
			{results: fail, want: "uid-007 Unhealthy"}},
		"one that is not probed starts anew": {{results: fail}, {results: fail}, {results: round(7)}, {results: fail}},
		"many at once":                       {{results: round(20, upTo(4)...), brake: api.ReasonManyFailing}},
		"few by number":                      {{results: round(3, 0, 1)}, {results: round(3, 0, 1)}, {results: round(3, 0, 1), want: "uid-000 Unhealthy, uid-001 Unhealthy"}},
		"few by share":                       {{results: round(20, 1, 2, 3)}, {results: round(20, 1, 2, 3)}, {results: round(20, 1, 2, 3), want: "uid-001 Unhealthy, uid-002 Unhealthy, uid-003 Unhealthy"}},
		"the brake holds as long as it lasts": {{results: fail}, {results: fail}, {results: round(20, 4, 5, 6, 7), brake: api.ReasonManyFailing},
			{results: round(20, 4, 5, 6, 7), brake: api.ReasonManyFailing}, {results: fail, want: "uid-007 Unhealthy"}},
		"successes count under the brake": {{results: fail}, {results: fail}, {results: fail, want: "uid-007 Unhealthy"},
			{results: round(20, 1, 2, 3, 4), brake: api.ReasonManyFailing}, {results: round(20, 1, 2, 3, 4), brake: api.ReasonManyFailing, want: "uid-007 Healthy"}},
		"released": {{results: round(4, upTo(4)...), released: true}, {results: round(4, upTo(4)...), released: true},
			{results: round(4, upTo(4)...), released: true, want: "uid-000 Unhealthy, uid-001 Unhealthy, uid-002 Unhealthy, uid-003 Unhealthy"}},
		"control fails":                  {{results: fail, control: "no route", brake: api.ReasonControlFailed}, {results: fail, control: "no route", brake: api.ReasonControlFailed}, {results: fail}, {results: fail}, {results: fail, want: "uid-007 Unhealthy"}},
		"control fails and nothing else": {{results: pass, control: "no route"}},
		"control fails, released":        {{results: round(4, upTo(4)...), control: "no route", released: true, brake: api.ReasonControlFailed}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var counters []api.ProbeCounter
			for n, s := range steps {
				out := fleethealth.Judge(fleethealth.Input{Config: config, Counters: counters, Results: s.results,
					Skipped: s.skipped, ControlFailed: s.control, Released: s.released, Now: now})
				var got []string
				for _, i := range out.Items {
					got = append(got, i.UID+" "+string(i.Observation.Kind))
				}
				if diff := cmp.Diff(s.want, strings.Join(got, ", ")); diff != "" {
					t.Errorf("round %d, items (-want +got):\n%s", n+1, diff)
				}
				if out.Brake.Reason != s.brake || out.Brake.On != (s.brake != "") {
					t.Errorf("round %d: brake %+v, want reason %q", n+1, out.Brake, s.brake)
				}
				counters = out.Counters
			}
		})
	}
}

func TestJudgeEndsAReleaseWhenFewerFail(t *testing.T) {
	t.Parallel()
	judge := func(results []fleethealth.Result) api.FleetBrake {
		return fleethealth.Judge(fleethealth.Input{Config: config, Results: results, Released: true, Now: now}).Brake
	}
	if b := judge(round(20, upTo(8)...)); !b.Released || b.On {
		t.Errorf("brake %+v, want it released while many fail", b)
	}
	if b := judge(round(20, 1)); b.Released {
		t.Errorf("brake %+v, want the release to be over", b)
	}
}

func TestJudgeDescribesWhatItSaw(t *testing.T) {
	t.Parallel()
	in := fleethealth.Input{Config: api.FleetConfig{UnhealthyAfter: 1, BrakeMin: 3, BrakeFraction: 1}, Results: round(3, 1), Now: now}
	got := fleethealth.Judge(in)
	want := fleethealth.Outcome{
		Counters: []api.ProbeCounter{{UID: "uid-001", Instance: "id-001", Fails: 1, Down: true, Class: "timeout"}},
		Failing:  map[string]int{"timeout": 1},
		Items: []api.FleetObservation{{UID: "uid-001", Namespace: "default", Name: "p001", Observation: api.Observation{
			Kind: api.ObservedUnhealthy, InstanceID: "id-001", Reason: "timeout", At: now,
			Message: "1 probes in a row failed, the latest: CONNECT took too long",
		}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Judge (-want +got):\n%s", diff)
	}
}

// TestJudgeProperties runs random rounds and checks what must hold in each.
func TestJudgeProperties(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 3))
		cfg := api.FleetConfig{UnhealthyAfter: 1 + rng.IntN(4), HealthyAfter: 1 + rng.IntN(3),
			BrakeFraction: float64(1+rng.IntN(10)) / 10, BrakeMin: 1 + rng.IntN(5)}
		size := 1 + rng.IntN(12)
		var counters []api.ProbeCounter
		down := map[string]bool{}
		for r := range 60 {
			results := round(size)
			failing := 0
			for i := range results {
				if rng.IntN(3) == 0 {
					results[i].OK, results[i].Class = false, "refused"
					failing++
				}
			}
			control := ""
			if rng.IntN(6) == 0 {
				control = "unreachable"
			}
			in := fleethealth.Input{Config: cfg, Counters: counters, Results: results, ControlFailed: control, Released: rng.IntN(4) == 0, Now: now}
			out := fleethealth.Judge(in)
			many := failing >= cfg.BrakeMin && float64(failing) >= cfg.BrakeFraction*float64(size)
			if wantOn := failing > 0 && control != "" || many && !in.Released; out.Brake.On != wantOn {
				t.Errorf("seed %d round %d: brake %+v, want on = %v", seed, r, out.Brake, wantOn)
			}
			for _, i := range out.Items {
				switch i.Observation.Kind {
				case api.ObservedUnhealthy:
					if out.Brake.On {
						t.Errorf("seed %d round %d: %s is unhealthy under the brake", seed, r, i.UID)
					}
					down[i.UID] = true
				case api.ObservedHealthy:
					if !down[i.UID] {
						t.Errorf("seed %d round %d: %s is healthy and never was anything else", seed, r, i.UID)
					}
					delete(down, i.UID)
				}
			}
			counters = out.Counters
			kept := map[string]bool{}
			for _, c := range counters {
				if kept[c.UID] || c.Fails > 0 && c.Passes > 0 || c.Fails == 0 && !c.Down {
					t.Errorf("seed %d round %d: counter %+v", seed, r, c)
				}
				kept[c.UID] = c.Down
			}
			for uid := range down {
				if !kept[uid] {
					t.Errorf("seed %d round %d: it is forgotten that %s was told", seed, r, uid)
				}
			}
		}
	}
}
