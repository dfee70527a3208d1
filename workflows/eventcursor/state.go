package eventcursor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// step is what the workflow does next.
type step int

const (
	stepWait step = iota
	stepRewind
	stepRedrive
	stepCheckSink
	stepRead
	stepBackfill
)

const (
	// hold is how long one activity waits for something new.
	hold = 5 * time.Minute
	// Bounds of the wait after a failure.
	firstRetry = 5 * time.Second
	lastRetry  = 5 * time.Minute
)

// state is all that the workflow knows. Its methods are pure: they take the time
// and make no calls.
type state struct {
	api.CarriedCursor
	redrives []*redrive
	// afresh: a failure after pages that were delivered is the first of its row.
	// Runs that began before that was so go on as they were.
	afresh func() bool
	// parts: a part of the source that cannot be read is shown, and a backfill waits
	// for it. Runs that began before that was so go on as they were.
	parts func() bool
}

// redrive is a redrive that somebody waits for.
type redrive struct {
	letters []api.DeadLetter
	result  api.RedriveResult
	err     error
	done    bool
}

func (s *state) interval() time.Duration {
	if d := s.Config.Interval.Std(); d >= time.Second {
		return d
	}
	return api.DefaultCursorInterval
}

func (s *state) backfilling() bool {
	b := s.Status.Backfill
	return b != nil && b.Done.IsZero()
}

// next decides what to do. With stepWait, until is when to look again; zero means
// when somebody says something.
func (s *state) next(now time.Time) (do step, until time.Time) {
	switch {
	case s.Rewind != nil && s.Status.Phase == api.CursorFailing && now.Before(s.NextRead):
		return stepWait, s.NextRead
	case s.Rewind != nil:
		return stepRewind, time.Time{}
	case len(s.redrives) > 0:
		return stepRedrive, time.Time{}
	case s.Status.Paused:
		return stepWait, time.Time{}
	case s.Status.Phase == api.CursorSinkDown && now.Before(s.NextRead):
		return stepWait, s.NextRead
	case s.Status.Phase == api.CursorSinkDown:
		return stepCheckSink, time.Time{}
	case !now.Before(s.NextRead):
		return stepRead, time.Time{}
	case s.backfilling() && s.Status.Phase != api.CursorFailing && !now.Before(s.BackfillAfter):
		return stepBackfill, time.Time{}
	}
	return stepWait, s.NextRead
}

// phase sets the phase and says why.
func (s *state) phase(now time.Time, p api.CursorPhase, reason, message string) {
	if s.Status.Phase != p {
		s.Status.Since = now
	}
	s.Status.Phase, s.Status.Reason, s.Status.Message = p, reason, message
}

// read takes what a read has done.
func (s *state) read(now time.Time, out activities.ReadSourceResult) {
	st := &s.Status
	s.Cursor = out.Cursor
	st.Counts.Add(out.Counts)
	if !out.ReadAt.IsZero() {
		st.ReadAt, st.Pending = out.ReadAt, out.Pending
		if !out.UpTo.IsZero() {
			st.CaughtUpTo = out.UpTo
			st.Lag = api.Duration(max(0, out.ReadAt.Sub(out.UpTo)).Round(time.Second))
		}
		st.Broken = out.Broken
	}
	if out.LastEventAt.After(st.LastEventAt) {
		st.LastEventAt = out.LastEventAt
	}
	for _, g := range out.Gaps {
		st.Gaps = append(st.Gaps, g)
		st.GapCount++
	}
	st.Gaps = slices.Clone(st.Gaps[max(0, len(st.Gaps)-api.MaxGaps):])
	s.bury(out.DeadLetters)
	if out.Stop != nil {
		s.stopped(now, out)
		return
	}
	st.Failures = 0
	s.NextRead = now
	if out.CaughtUp {
		s.NextRead = now.Add(s.interval())
	}
	switch {
	case len(out.Broken) > 0 && s.parts():
		b := out.Broken[0]
		s.phase(now, api.CursorDegraded, cmp.Or(b.Reason, b.Class), explainBroken(out.Broken))
	case out.CaughtUp:
		s.phase(now, api.CursorCaughtUp, "", "")
	default:
		s.phase(now, api.CursorReading, "", "")
	}
}

// explainBroken says in words which parts cannot be read.
func explainBroken(all []api.BrokenPart) string {
	var parts []string
	for _, b := range all {
		parts = append(parts, fmt.Sprintf("%s cannot be read: %s", b.Part, b.Message))
	}
	return strings.Join(parts, "; ") + "; everything else is read and delivered"
}

// bury adds dead letters, each reference once. The oldest give way.
func (s *state) bury(letters []api.DeadLetter) {
	st := &s.Status
	for _, l := range letters {
		same := func(o api.DeadLetter) bool { return o.Ref == l.Ref && o.EventID == l.EventID }
		if i := slices.IndexFunc(st.DeadLetters, same); i >= 0 {
			st.DeadLetters[i].Reason = l.Reason
			continue
		}
		st.DeadLetters = append(st.DeadLetters, l)
		if len(st.DeadLetters) <= api.MaxDeadLetters {
			continue
		}
		old := st.DeadLetters[0]
		st.DeadLetters = slices.Clone(st.DeadLetters[1:])
		if st.Dropped == nil {
			st.Dropped = &api.DroppedLetters{From: old.At, To: old.At}
		}
		st.Dropped.Count++
		if old.At.Before(st.Dropped.From) {
			st.Dropped.From = old.At
		}
		if old.At.After(st.Dropped.To) {
			st.Dropped.To = old.At
		}
	}
}

// stopped takes the failure that ended a read. What was delivered before it ends
// the row of failures: a sink that fails now and then is tried again soon.
func (s *state) stopped(now time.Time, out activities.ReadSourceResult) {
	if out.Counts.Pages > 0 && s.Status.Failures > 0 && s.afresh() {
		s.Status.Failures = 0
	}
	s.fail(now, *out.Stop)
}

// fail takes a failure: when to try again, and what to say.
func (s *state) fail(now time.Time, stop api.Stop) {
	st := &s.Status
	st.Failures++
	wait := min(lastRetry, firstRetry<<min(st.Failures-1, 10))
	if stop.Sink {
		s.phase(now, api.CursorSinkDown, stop.Reason, stop.Message)
		if stop.Reason == api.ReasonSinkRefuses {
			wait = lastRetry // nothing changes until a person changes it
		}
	} else {
		reason := stop.Class
		if stop.Reason != "" {
			reason = stop.Reason
		}
		s.phase(now, api.CursorFailing, reason, stop.Message)
		if rule := provider.RuleFor(stop.SourceClass()); rule.NonRetryable {
			wait = lastRetry
		}
	}
	s.NextRead = now.Add(max(wait, stop.RetryAfter.Std()))
}

// configure takes a configuration, and says whether it is another one. A changed
// one is tried at once.
func (s *state) configure(now time.Time, c api.CursorConfig) (changed bool) {
	changed = c.ConfigHash != s.Config.ConfigHash || c.Sink != s.Config.Sink || c.Interval != s.Config.Interval
	s.Config = c
	switch {
	case changed || now.After(s.NextRead):
		s.NextRead = now
	case s.Status.Phase == api.CursorCaughtUp, s.Status.Phase == api.CursorDegraded:
		if at := s.Status.ReadAt.Add(s.interval()); at.Before(s.NextRead) {
			s.NextRead = at
		}
	}
	return changed
}

func (s *state) pause(now time.Time) {
	if !s.Status.Paused {
		s.Status.Paused = true
		s.phase(now, api.CursorPaused, api.ReasonAsked, "paused; nothing is read and nothing is delivered")
	}
}

// resume goes on after a pause, and tries at once after a failure.
func (s *state) resume(now time.Time) {
	if s.Status.Paused || s.Status.Phase == api.CursorFailing || s.Status.Phase == api.CursorSinkDown {
		s.Status.Paused, s.Status.Failures = false, 0
		s.phase(now, api.CursorReading, "", "")
		s.NextRead = now
	}
}

// backfilled takes what a read of the backfill has done.
func (s *state) backfilled(now time.Time, out activities.ReadSourceResult) {
	b := *s.Status.Backfill
	s.Backfill = out.Cursor
	b.Counts.Add(out.Counts)
	s.Status.Counts.Add(out.Counts)
	if out.UpTo.After(b.UpTo) {
		b.UpTo = out.UpTo
	}
	s.bury(out.DeadLetters)
	b.Message = ""
	switch {
	case out.Stop == nil:
	case len(out.Broken) > 0 && s.parts():
		b.Message = explainBroken(out.Broken)
		s.BackfillAfter = now.Add(lastRetry)
	default:
		b.Message = out.Stop.Message
		s.stopped(now, out)
	}
	if out.Done {
		b.Done = now
		s.Backfill, s.BackfillFound, s.BackfillAfter = "", false, time.Time{}
	}
	s.Status.Backfill = &b
}

// redriven takes the result of a redrive.
func (s *state) redriven(tried []api.DeadLetter, out api.RedriveResult) {
	st := &s.Status
	var kept []api.DeadLetter
	for _, l := range st.DeadLetters {
		match := func(o api.DeadLetter) bool { return o.Ref == l.Ref }
		if !slices.ContainsFunc(tried, match) {
			kept = append(kept, l)
		} else if i := slices.IndexFunc(out.Left, match); i >= 0 {
			kept = append(kept, out.Left[i])
		}
	}
	st.DeadLetters = kept
}

// letters are the dead letters with these references, or all.
func (s *state) letters(in api.RedriveInput) ([]api.DeadLetter, error) {
	if len(in.Refs) == 0 {
		return slices.Clone(s.Status.DeadLetters), nil
	}
	var out []api.DeadLetter
	for _, ref := range in.Refs {
		i := slices.IndexFunc(s.Status.DeadLetters, func(l api.DeadLetter) bool { return l.Ref == ref })
		if i < 0 {
			return nil, fmt.Errorf("refs: %q is no dead letter of this cursor", ref)
		}
		out = append(out, s.Status.DeadLetters[i])
	}
	return out, nil
}
