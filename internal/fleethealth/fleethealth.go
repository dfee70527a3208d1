// Package fleethealth turns the probe results of a fleet into the few facts its
// proxies should know, or into the conclusion that nothing can be concluded. It
// is pure.
package fleethealth

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/tollgate-dev/tollgate/workflows/api"
)

// Result is the outcome of one proxy's probe.
type Result struct {
	Row     api.FleetRow
	OK      bool
	Class   string
	Message string
}

// Input is one round.
type Input struct {
	Config api.FleetConfig
	// Counters are what the round before left.
	Counters []api.ProbeCounter
	Results  []Result
	// Skipped are the uids of rows that could not be probed for reasons of our
	// own; their counters stay as they are.
	Skipped map[string]bool
	// ControlFailed is why a direct connection to the target failed, or empty.
	ControlFailed string
	// Released: a person took the brake off.
	Released bool
	Now      time.Time
}

// Outcome is what follows from a round.
type Outcome struct {
	// Counters replace the ones of the input; they are ordered by uid.
	Counters []api.ProbeCounter
	// Items are the thresholds that were crossed, ordered by uid.
	Items []api.FleetObservation
	// Brake is on when no failure was counted in this round. Since is not set.
	Brake api.FleetBrake
	// Failing counts the failures by class.
	Failing map[string]int
}

// Judge counts the results. A proxy is told Unhealthy when UnhealthyAfter probes
// in a row have failed, and again, should it not have acted, after twice as many
// and so on; it is told Healthy after HealthyAfter successes in a row, if it was
// told before that it is not.
//
// Under the brake a failure changes no counter. A success always counts.
func Judge(in Input) Outcome {
	var out Outcome
	failing := 0
	for _, r := range in.Results {
		if !r.OK {
			failing++
			if out.Failing == nil {
				out.Failing = map[string]int{}
			}
			out.Failing[r.Class]++
		}
	}
	out.Brake = brake(in, failing)

	before := make(map[string]api.ProbeCounter, len(in.Counters))
	for _, c := range in.Counters {
		before[c.UID] = c
		if in.Skipped[c.UID] {
			out.Counters = append(out.Counters, c)
		}
	}
	for _, r := range in.Results {
		c, had := before[r.Row.UID]
		if !had || c.Instance != r.Row.InstanceID {
			c, had = api.ProbeCounter{UID: r.Row.UID, Instance: r.Row.InstanceID}, false
		}
		kind := count(in.Config, &c, r, out.Brake.On)
		if kind != "" {
			out.Items = append(out.Items, observe(in.Now, r, c, kind))
		}
		if c.Fails > 0 || c.Down {
			out.Counters = append(out.Counters, c)
		}
	}
	slices.SortFunc(out.Counters, func(a, b api.ProbeCounter) int { return cmp.Compare(a.UID, b.UID) })
	slices.SortFunc(out.Items, func(a, b api.FleetObservation) int { return cmp.Compare(a.UID, b.UID) })
	return out
}

// count adds one result to a counter and returns the threshold it crossed.
func count(cfg api.FleetConfig, c *api.ProbeCounter, r Result, braked bool) api.ObservationKind {
	if r.OK {
		c.Fails, c.Class = 0, ""
		if !c.Down {
			return ""
		}
		c.Passes++
		if c.Passes < max(cfg.HealthyAfter, 1) {
			return ""
		}
		c.Down, c.Passes = false, 0
		return api.ObservedHealthy
	}
	if braked {
		return ""
	}
	c.Passes, c.Class = 0, r.Class
	c.Fails++
	after := max(cfg.UnhealthyAfter, 1)
	if c.Fails%after != 0 || !powerOfTwo(c.Fails/after) {
		return ""
	}
	c.Down = true
	return api.ObservedUnhealthy
}

func powerOfTwo(n int) bool { return n > 0 && n&(n-1) == 0 }

// brake says whether this round's failures are believed.
func brake(in Input, failing int) api.FleetBrake {
	probed, cfg := len(in.Results), in.Config
	many := cfg.BrakeMin > 0 && failing >= cfg.BrakeMin && float64(failing) >= cfg.BrakeFraction*float64(probed)
	b := api.FleetBrake{Released: many && in.Released}
	switch {
	case failing > 0 && in.ControlFailed != "":
		// No release from this one: every probe would fail, and every proxy be
		// replaced for nothing.
		b.On, b.Reason = true, api.ReasonControlFailed
		b.Message = "probe network suspect: the direct connection to the probe target fails too: " + in.ControlFailed
	case many && !in.Released:
		b.On, b.Reason = true, api.ReasonManyFailing
		b.Message = fmt.Sprintf("probe network suspect: %d of %d probes fail at once", failing, probed)
	}
	return b
}

func observe(now time.Time, r Result, c api.ProbeCounter, kind api.ObservationKind) api.FleetObservation {
	o := api.Observation{Kind: kind, InstanceID: r.Row.InstanceID, InstanceName: r.Row.InstanceName, At: now}
	if kind == api.ObservedUnhealthy {
		o.Reason = r.Class
		o.Message = fmt.Sprintf("%d probes in a row failed, the latest: %s", c.Fails, r.Message)
	}
	return api.FleetObservation{UID: r.Row.UID, Namespace: r.Row.Namespace, Name: r.Row.Name, Observation: o}
}
