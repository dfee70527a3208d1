package activities

import (
	"slices"
	"time"
)

// Bounds of a delivery that does not go through.
const (
	// sendTries is how many sends in a row may fail before the sink is asked
	// whether it is there.
	sendTries = 3
	// maxBarren is how many sends in a row may fail before the sink counts as down
	// although it says that it is there.
	maxBarren = 12
	// breakTries is how often an event is sent alone, while others are taken,
	// before it is given up. The pauses between double from one second on: 15 s in
	// all, less than the interval between two reads.
	breakTries = 5
	// maxBroken is the most events of a delivery that are given up. With more, it
	// is the sink that is ill.
	maxBroken = 10
	// isolateFor bounds it all for a sink that lets every call time out; it leaves
	// the activity time to end.
	isolateFor = 8 * time.Minute
	// maxPatience is the longest that a delivery waits because the sink asks for
	// it; for longer, the workflow waits.
	maxPatience = 5 * time.Second

	// pauseBarren is the pause after a send of which nothing arrived, times the
	// number of such sends in a row, at most pauseMost.
	pauseBarren = 500 * time.Millisecond
	pauseMost   = 2 * time.Second
	// pauseTaken is the pause after one of which something arrived.
	pauseTaken = 100 * time.Millisecond
)

// isolation decides how a batch is delivered that does not go through as a whole.
// Two things look alike at first: a sink that is down, and an event that breaks
// it. They are told apart by what else the sink takes. A batch of which nothing
// arrives is halved, down to single events; the halves that are taken are
// delivered by that. An event that never arrives alone, over several rounds after
// each of which the sink takes another event, is broken and given up. As long as
// nothing else is taken, or too much is broken, the sink is down and nothing is
// given up.
//
// How often it has to take another event differs from round to round, so that a
// sink which fails by turns does not make the same events look broken each time.
//
// Its methods are pure: they are told what happened and what is known.
type isolation struct {
	begun time.Time
	// portions are to be sent, in this order, as places in the batch.
	portions [][]int
	// suspects were sent alone and did not arrive.
	suspects []int
	// rounds are those in which all suspects were sent alone. proofDue: those of
	// the latest one were, and whether the sink takes anything else is not known
	// yet. unproven: of some round that is never known.
	rounds             int
	proofDue, unproven bool
	proofs             int // of this round, so far
	// taken are the events of the batch that were answered for good.
	taken int
	// barren are the sends in a row of which nothing arrived; asked: the sink has
	// said since that it is there.
	barren int
	asked  bool
	// busy are the sends in a row that the sink put off.
	busy int
	hold bool
	wait time.Duration
}

// doing is what a delivery does next.
type doing int

const (
	// doneSending: everything is answered.
	doneSending doing = iota
	// sendPortion: send the portion after the pause.
	sendPortion
	// askSink: ask the sink whether it is there.
	askSink
	// sendControl: send an event that the sink has, to see that it takes others.
	sendControl
	// giveUp: the suspects are broken.
	giveUp
	// holdAll: the sink is down; what is left is sent another time.
	holdAll
)

// known is what the decision rests on beside the delivery itself.
type known struct {
	now time.Time
	// elsewhere are the events that the sink has taken from others meanwhile.
	elsewhere int
	// control: there is an event that the sink has taken.
	control bool
}

func isolate(n int, now time.Time) *isolation {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return &isolation{begun: now, portions: [][]int{all}, proofDue: true}
}

// next says what to do. pause comes before a sendPortion.
func (d *isolation) next(k known) (do doing, portion []int, pause time.Duration) {
	switch {
	case d.hold:
		return holdAll, nil, 0
	case len(d.portions) == 0 && len(d.suspects) == 0:
		return doneSending, nil, 0
	case d.barren >= sendTries && !d.asked:
		return askSink, nil, 0
	case d.barren >= maxBarren, d.barren > 0 && k.now.Sub(d.begun) > isolateFor:
		return holdAll, nil, 0
	case len(d.portions) > 0:
		return sendPortion, d.portions[0], d.wait
	case len(d.suspects) > maxBroken:
		return holdAll, nil, 0
	}
	if d.proofDue {
		if k.control {
			return sendControl, nil, 0
		}
		d.round(false)
	}
	if d.rounds < breakTries {
		for _, s := range d.suspects {
			d.portions = append(d.portions, []int{s})
		}
		d.proofDue, d.wait = true, time.Second<<(d.rounds-1)
		return sendPortion, d.portions[0], d.wait
	}
	if d.unproven || d.taken+k.elsewhere < len(d.suspects) {
		return holdAll, nil, 0
	}
	return giveUp, nil, 0
}

// sending is how the latest send went.
type sending struct {
	// left are the places that were not answered for good.
	left []int
	// retryable: it is worth to send them again.
	retryable bool
	// busy: the sink says that it has too much to do, which is not about any event.
	busy       bool
	retryAfter time.Duration
}

// sent takes how the send of the first portion went.
func (d *isolation) sent(s sending) {
	portion := d.portions[0]
	d.portions = d.portions[1:]
	took := len(portion) - len(s.left)
	d.taken += took
	d.suspects = slices.DeleteFunc(d.suspects, func(i int) bool {
		return slices.Contains(portion, i) && !slices.Contains(s.left, i)
	})
	d.barren++
	if took > 0 {
		d.arrived()
	}
	switch {
	case len(s.left) == 0:
		d.wait = 0
	case !s.retryable:
		d.hold = true
	case s.busy:
		if d.busy++; d.busy >= sendTries || s.retryAfter > maxPatience {
			d.hold = true
		}
		d.portions = slices.Insert(d.portions, 0, s.left)
		d.wait = max(time.Second, s.retryAfter)
	case len(s.left) == 1:
		if !slices.Contains(d.suspects, s.left[0]) {
			d.suspects = append(d.suspects, s.left[0])
		}
		d.pause()
	default:
		// What else there is goes first: it shows sooner whether the sink takes
		// anything.
		half := len(s.left) / 2
		d.portions = append(d.portions, s.left[:half], s.left[half:])
		d.pause()
	}
}

func (d *isolation) arrived() { d.barren, d.busy, d.asked = 0, 0, false }

func (d *isolation) pause() {
	d.wait = pauseTaken
	if d.barren > 0 && d.rounds == 0 {
		d.wait = min(pauseMost, time.Duration(d.barren)*pauseBarren)
	}
}

// answers takes whether the sink says that it is there.
func (d *isolation) answers(there bool) { d.asked, d.hold = true, !there }

// proven takes whether the sink took another event after a round.
func (d *isolation) proven(took bool) {
	d.barren++
	if !took {
		d.round(false)
		return
	}
	d.arrived()
	if d.proofs++; d.proofs > d.rounds%3 {
		d.round(true)
	}
}

func (d *isolation) round(proven bool) {
	d.proofDue, d.proofs = false, 0
	d.rounds++
	d.unproven = d.unproven || !proven
}
