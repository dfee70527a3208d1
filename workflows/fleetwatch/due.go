package fleetwatch

import "time"

// A job is something that the workflow has an activity do. At most one of each
// kind runs at a time.
type jobKind int

// The jobs, in the order in which they are started.
const (
	jobSend jobKind = iota
	jobForward
	jobRebuild
	jobRetry
	jobWake
	jobDrift
	jobProbe
	jobKinds
)

func (k jobKind) String() string {
	return [...]string{"send", "forward", "rebuild", "retry", "wake", "drift", "probe"}[k]
}

// due returns when a job should start; ok is false when it should not, as far as
// is known now.
func (s *state) due(k jobKind, now time.Time) (at time.Time, ok bool) {
	configured := s.config != nil
	// A shard too many only hands over what it has.
	active := configured && s.shard < s.config.Shards
	// Rounds make observations, so they wait until the last ones are delivered.
	rounds := active && len(s.outbox) == 0
	switch k {
	case jobSend:
		return now, len(s.outbox) > 0
	case jobForward:
		return now, configured && s.forward
	case jobRebuild:
		return now, active && s.rebuild
	case jobRetry:
		return now, active && s.retry
	case jobWake:
		at, ok := s.wakeDue(now)
		return at, ok && active && s.shard == 0
	case jobDrift:
		if at, ok := s.spendDue(); ok && at.Before(s.nextDrift) {
			return at, rounds && s.shard == 0
		}
		return s.nextDrift, rounds && s.shard == 0
	case jobProbe:
		return s.nextProbe, rounds && len(s.rows) > 0
	}
	return time.Time{}, false
}

// next is when a round that began at start should be followed by another one.
func next(start, now time.Time, interval, atLeast time.Duration) time.Time {
	at := start.Add(max(interval, atLeast))
	if at.Before(now) {
		return now
	}
	return at
}
