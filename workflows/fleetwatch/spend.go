package fleetwatch

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

const (
	// heldFor is how long a create of unknown outcome holds its place after it was
	// last tried without being listed: longer than any attempt takes.
	heldFor = 10 * time.Minute
	// listedFor is how long a create that is listed is remembered, so that its retry
	// is not counted a second time.
	listedFor = 30 * time.Minute
	// failedFor is how long after a refused create a listing has to begin to be
	// believed that it made nothing.
	failedFor = 30 * time.Second
	// waitingFor is how long a waiting proxy is remembered; it asks again sooner.
	waitingFor = 15 * time.Minute
	// wokenFor is how long the room of a proxy that was told is kept for it.
	wokenFor   = 30 * time.Second
	maxHeld    = 1000
	maxWaiting = 500
	// soonest is the time between two listings that are made for those who wait.
	soonest = 10 * time.Second
)

func (s *state) spendCap() provider.MicroEUR {
	if s.config == nil || s.shard != 0 {
		return 0
	}
	return s.config.SpendCap
}

// spendReady reports whether it is known what the fleet costs.
func (s *state) spendReady() bool {
	return s.config != nil && !s.spend.ListedAt.IsZero() && !s.spend.ListedAt.Before(s.spend.Since)
}

// spent is what counts: the listing, and the creates since that it lacks.
func (s *state) spent() (total provider.MicroEUR, creates int) {
	total = s.spend.Listed.Total
	for _, h := range s.spend.Held {
		if !h.Listed {
			total = total.Add(h.Price)
			creates++
		}
	}
	return total, creates
}

// reserve decides about one create. Those that were let through stay so.
func (s *state) reserve(now time.Time, req api.SpendRequest) api.SpendAnswer {
	most := s.spendCap()
	total, creates := s.spent()
	a := api.SpendAnswer{Cap: most, Total: total, Creates: creates, Instances: s.spend.Listed.Instances, Unpriced: s.spend.Listed.Unpriced}
	at, held := slices.BinarySearchFunc(s.spend.Held, req.Instance, byInstance)
	switch {
	case s.config == nil, most == 0 && req.Cap > 0:
		a.Unready = true
		return a
	case most == 0:
		a.Granted = true
		return a
	case held:
		h := &s.spend.Held[at]
		h.At, h.FailedAt = now, time.Time{}
		a.Granted = true
	case !s.spendReady(), len(s.spend.Held) >= maxHeld:
		a.Unready = true
		return a
	case req.Known && total.Add(req.Price) <= most:
		s.spend.Held = slices.Insert(s.spend.Held, at, api.SpendHeld{Instance: req.Instance, Price: req.Price, At: now})
		a.Granted = true
	}
	if a.Granted {
		s.forgetWaiting(req.UID)
		return a
	}
	s.spend.Refused++
	s.await(now, req)
	return a
}

func byInstance(h api.SpendHeld, name string) int { return cmp.Compare(h.Instance, name) }

func (s *state) forgetWaiting(uid string) {
	s.spend.Waiting = slices.DeleteFunc(s.spend.Waiting, func(w api.SpendWaiting) bool { return w.UID == uid })
}

// await remembers a proxy that was refused, in the order of their first refusals.
func (s *state) await(now time.Time, req api.SpendRequest) {
	s.spend.Waiting = slices.DeleteFunc(s.spend.Waiting, func(w api.SpendWaiting) bool { return w.UID != req.UID && now.Sub(w.At) > waitingFor })
	for i := range s.spend.Waiting {
		if w := &s.spend.Waiting[i]; w.UID == req.UID {
			w.Price, w.Unknown, w.At, w.WokenAt = req.Price, !req.Known, now, time.Time{}
			return
		}
	}
	if len(s.spend.Waiting) < maxWaiting {
		s.spend.Waiting = append(s.spend.Waiting, api.SpendWaiting{
			UID: req.UID, Namespace: req.Namespace, Proxy: req.Proxy, Price: req.Price, Unknown: !req.Known, Since: now, At: now,
		})
	}
}

// released takes the word that an instance does not exist.
func (s *state) released(now time.Time, r api.SpendRelease) {
	if s.shard != 0 {
		return
	}
	s.spend.FreedAt = now
	at, held := slices.BinarySearchFunc(s.spend.Held, r.Instance, byInstance)
	switch {
	case !held:
	case r.Failed:
		s.spend.Held[at].FailedAt = now
	default:
		// What a listing has counted is counted until the next one.
		s.spend.Held = slices.Delete(s.spend.Held, at, at+1)
	}
}

// capChanged takes a new configuration's cap.
func (s *state) capChanged(now time.Time, first bool, was, is provider.MicroEUR) {
	switch {
	case s.shard != 0:
	case is == 0:
		s.spend.Held, s.spend.Since = nil, time.Time{}
	case first || was == 0:
		s.spend.Since, s.nextDrift = now, now
	}
}

// listed takes the figures of a listing that was asked for at begun.
func (s *state) listed(begun time.Time, l *api.SpendListing) {
	if l == nil {
		return // a price could not be read; the old figures stay
	}
	s.spend.ListedAt, s.spend.Listed = begun, *l
	s.spend.Listed.Held = nil
	s.spend.Held = slices.DeleteFunc(s.spend.Held, func(h api.SpendHeld) bool {
		switch {
		case slices.Contains(l.Held, h.Instance):
			return begun.Sub(h.At) > listedFor
		case !h.FailedAt.IsZero():
			return begun.Sub(h.FailedAt) > failedFor
		}
		return begun.Sub(h.At) > heldFor
	})
	for i := range s.spend.Held {
		h := &s.spend.Held[i]
		h.Listed = slices.Contains(l.Held, h.Instance)
	}
}

// spendDue is when a listing should be made for those who wait for room.
func (s *state) spendDue() (at time.Time, ok bool) {
	waiting := len(s.spend.Waiting) > 0 && s.spend.FreedAt.After(s.spend.ListedAt)
	if s.spendCap() == 0 || s.drift.Failures > 0 || s.spendReady() && !waiting {
		return time.Time{}, false
	}
	at = s.spend.TriedAt.Add(soonest)
	if failed := s.spend.FreedAt.Add(failedFor + time.Second); waiting && s.anyFailed() && at.Before(failed) {
		at = failed // sooner it would not be believed
	}
	return at, true
}

func (s *state) anyFailed() bool {
	return slices.ContainsFunc(s.spend.Held, func(h api.SpendHeld) bool { return !h.FailedAt.IsZero() })
}

// fitting are the waiting proxies that there is room for, the oldest first. Those
// that were told lately have theirs kept until they come.
func (s *state) fitting(now time.Time) []api.SpendWaiting {
	if s.config == nil || len(s.spend.Waiting) == 0 {
		return nil
	}
	most := s.spendCap()
	total, _ := s.spent()
	for _, w := range s.spend.Waiting {
		if now.Sub(w.WokenAt) < wokenFor {
			total = total.Add(w.Price)
		}
	}
	var out []api.SpendWaiting
	for _, w := range s.spend.Waiting {
		switch {
		case !w.WokenAt.IsZero():
			continue
		case most == 0:
		case w.Unknown || !s.spendReady() || total.Add(w.Price) > most:
			continue
		}
		total = total.Add(w.Price)
		out = append(out, w)
	}
	return out
}

// wakeDue is when the next waiting proxies may be told.
func (s *state) wakeDue(now time.Time) (at time.Time, ok bool) {
	if len(s.fitting(now)) > 0 {
		return now, true
	}
	others := false
	for _, w := range s.spend.Waiting {
		end := w.WokenAt.Add(wokenFor)
		switch {
		case w.WokenAt.IsZero():
			others = others || !w.Unknown
		case end.After(now) && (at.IsZero() || end.Before(at)):
			at = end
		}
	}
	return at, others && !at.IsZero()
}

// woken notes who is told now, and forgets who was told and did not come.
func (s *state) woken(now time.Time, told []api.SpendWaiting) {
	s.spend.Waiting = slices.DeleteFunc(s.spend.Waiting, func(w api.SpendWaiting) bool {
		return !w.WokenAt.IsZero() && now.Sub(w.WokenAt) >= wokenFor
	})
	for i := range s.spend.Waiting {
		if slices.ContainsFunc(told, func(t api.SpendWaiting) bool { return t.UID == s.spend.Waiting[i].UID }) {
			s.spend.Waiting[i].WokenAt = now
		}
	}
}

// spendHandlers let creates ask.
func (f *fleet) spendHandlers() error {
	f.nudge = workflow.NewBufferedChannel(f.ctx, 1)
	if f.shard != 0 {
		return nil
	}
	return workflow.SetUpdateHandlerWithOptions(f.ctx, workflows.UpdateReserve, func(ctx workflow.Context, req api.SpendRequest) (api.SpendAnswer, error) {
		a := f.reserve(workflow.Now(ctx), req)
		f.nudge.SendAsync(true) // the loop looks anew at what is due
		return a, nil
	}, workflow.UpdateHandlerOptions{Description: "asks whether an instance may be made below the spend cap; answers with the figures"})
}

func (f *fleet) beginWake() *job {
	now := workflow.Now(f.ctx)
	wake := f.fitting(now)
	f.woken(now, wake)
	items := make([]activities.ProxyRef, 0, len(wake))
	for _, w := range wake {
		items = append(items, activities.ProxyRef{Namespace: w.Namespace, Name: w.Proxy, UID: w.UID})
	}
	ctx := f.options(workflows.TaskQueue, fmt.Sprintf("tell %s that there is room below the spend cap", plural(len(items), "proxy", "proxies")), 2*time.Minute, 10*time.Minute, 5)
	return run(ctx, fleetActs.RetryProxies, activities.RetryProxiesInput{Provider: f.provider, Proxies: items}, func(out activities.CountResult, err error) {
		// Whoever was missed asks again by itself.
		f.log.Info("waiting proxies told that there is room", "provider", f.provider, "told", out.Signalled, "failed", out.Failed, "error", err)
	})
}

// spendStatus is nil before the first listing.
func (s *state) spendStatus() *api.SpendStatus {
	if s.shard != 0 || s.spend.ListedAt.IsZero() {
		return nil
	}
	total, creates := s.spent()
	out := &api.SpendStatus{EURPerHour: total.String(), Instances: s.spend.Listed.Instances, Unpriced: s.spend.Listed.Unpriced,
		Creates: creates, Waiting: len(s.spend.Waiting), Refused: s.spend.Refused}
	if most := s.spendCap(); most > 0 {
		out.SpendCap = most.String()
	}
	return out
}

// heldNames are what the next listing is asked about.
func (s *state) heldNames() []string {
	var out []string
	for _, h := range s.spend.Held {
		out = append(out, h.Instance)
	}
	return out
}
