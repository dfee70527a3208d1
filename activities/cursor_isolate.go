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
// A sink may also refuse all events of one account, while those of others in the
// same stream must not wait for it. Batches are split by account first. If what
// fails is of accounts of which nothing arrives, while events of another arrive,
// then these accounts are ill, and not the sink: what is left of theirs is tried
// together, in the last round alone, and what does not arrive then is given up,
// however much it is.
//
// How often it has to take another event differs from round to round, so that a
// sink which fails by turns does not make the same events look broken each time.
//
// Its methods are pure: they are told what happened and what is known.
type isolation struct {
	begun time.Time
	// portions are to be sent, in this order, as places in the batch.
	portions [][]int
	// accounts are those of the events. arrivals counts what was answered, ill are
	// those of which nothing arrives; known: they were ill before.
	accounts   []string
	arrivals   map[string]int
	ill, known map[string]bool
	// suspects were sent alone and did not arrive, or are of accounts that are ill.
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

// isolate begins the delivery of events of these accounts, of which known are said
// to be ill.
func isolate(accounts []string, known map[string]bool, now time.Time) *isolation {
	all := make([]int, len(accounts))
	for i := range all {
		all[i] = i
	}
	return &isolation{begun: now, portions: [][]int{all}, proofDue: true, accounts: accounts, known: known,
		arrivals: map[string]int{}, ill: map[string]bool{}}
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
	case d.barren >= maxBarren && k.control && !d.unproven && d.illNext():
		return sendControl, nil, 0
	case d.barren >= maxBarren, d.barren > 0 && k.now.Sub(d.begun) > isolateFor:
		return holdAll, nil, 0
	case len(d.portions) > 0:
		return sendPortion, d.portions[0], d.wait
	}
	if d.well() > maxBroken {
		if d.fallsIll(d.suspects); d.well() > maxBroken {
			return holdAll, nil, 0
		}
	}
	if d.proofDue {
		if k.control && !d.unproven {
			return sendControl, nil, 0
		}
		d.ended(false) // the rounds go on all the same: something may arrive
	}
	if d.rounds < d.tries() {
		d.portions = d.round()
		d.proofDue, d.wait = true, time.Second<<(d.rounds-1)
		return sendPortion, d.portions[0], d.wait
	}
	if d.unproven || d.taken+k.elsewhere < d.well() {
		return holdAll, nil, 0
	}
	return giveUp, nil, 0
}

// illNext reports whether what is to be sent next, or was sent last, is of an
// account that is ill, which many sends without success say nothing new of.
func (d *isolation) illNext() bool {
	if len(d.portions) > 0 {
		next := d.portions[0]
		return d.ill[d.accounts[next[0]]] || d.fallsIll(next)
	}
	return len(d.ill) > 0
}

// well is the number of suspects that are of no account that is ill.
func (d *isolation) well() (n int) {
	for _, i := range d.suspects {
		if !d.ill[d.accounts[i]] {
			n++
		}
	}
	return n
}

// tries is how many rounds there are: two if all of the suspects are of accounts
// that were ill before.
func (d *isolation) tries() int {
	for _, i := range d.suspects {
		if a := d.accounts[i]; !d.ill[a] || !d.known[a] {
			return breakTries
		}
	}
	return 2
}

// round are the portions of a round: each suspect alone, those of an account that
// is ill together, unless it is the last round.
func (d *isolation) round() (out [][]int) {
	at := map[string]int{}
	last := d.rounds == d.tries()-1
	for _, i := range d.suspects {
		a := d.accounts[i]
		if n, ok := at[a]; ok && d.ill[a] && !last {
			out[n] = append(out[n], i)
			continue
		}
		at[a] = len(out)
		out = append(out, []int{i})
	}
	return out
}

// fallsIll takes the accounts of these events for ill, unless something of them
// arrived or nothing of any other; false if there is none. What is left of theirs
// is suspect.
func (d *isolation) fallsIll(places []int) (ill bool) {
	for _, i := range places {
		a := d.accounts[i]
		if d.arrivals[a] == 0 && d.taken > 0 && !d.ill[a] {
			d.ill[a], ill = true, true
		}
	}
	if !ill {
		return false
	}
	var portions [][]int
	for _, p := range d.portions {
		if !d.ill[d.accounts[p[0]]] { // of one account, from the first failure on
			portions = append(portions, p)
			continue
		}
		for _, i := range p {
			d.suspect(i)
		}
	}
	d.portions = portions
	return true
}

func (d *isolation) suspect(i int) {
	if !slices.Contains(d.suspects, i) {
		d.suspects = append(d.suspects, i)
	}
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
	for _, i := range portion {
		if !slices.Contains(s.left, i) {
			d.arrivals[d.accounts[i]]++
		}
	}
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
	default:
		d.split(s.left)
		d.wait = pauseTaken
		if d.barren > 0 && d.rounds == 0 {
			d.wait = min(pauseMost, time.Duration(d.barren)*pauseBarren)
		}
	}
}

// split puts off what did not arrive, in smaller portions.
func (d *isolation) split(left []int) {
	first := d.accounts[left[0]]
	other := slices.IndexFunc(left, func(i int) bool { return d.accounts[i] != first })
	switch {
	case other >= 0:
		byAccount := map[string]int{}
		for _, i := range left {
			n, ok := byAccount[d.accounts[i]]
			if !ok {
				n = len(d.portions)
				byAccount[d.accounts[i]] = n
				d.portions = append(d.portions, nil)
			}
			d.portions[n] = append(d.portions[n], i)
		}
	case d.known[first] && d.arrivals[first] == 0 && d.taken > 0:
		d.ill[first] = true
		fallthrough
	case d.ill[first], len(left) == 1:
		for _, i := range left {
			d.suspect(i)
		}
	default:
		// What else there is goes first: it shows sooner whether the sink takes
		// anything.
		half := len(left) / 2
		d.portions = append(d.portions, left[:half], left[half:])
	}
}

func (d *isolation) arrived() { d.barren, d.busy, d.asked = 0, 0, false }

// answers takes whether the sink says that it is there.
func (d *isolation) answers(there bool) { d.asked, d.hold = true, !there }

// proven takes whether the sink took another event, after a round or amid many
// events of an account that is ill.
func (d *isolation) proven(took bool) {
	switch {
	case !took && len(d.portions) > 0:
		d.hold = true
	case !took:
		d.barren++
		d.ended(false)
	default:
		d.arrived()
		if d.proofs++; len(d.portions) == 0 && d.proofs > d.rounds {
			d.ended(true)
		}
	}
}

// ended ends a round.
func (d *isolation) ended(proven bool) {
	d.proofDue, d.proofs = false, 0
	d.rounds++
	d.unproven = d.unproven || !proven
}
