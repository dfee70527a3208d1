// Package usage computes what a resource was and for how long, from its events
// alone. All of it is pure: the same set of events gives the same usage, in
// whatever order and however often they arrived. docs/explanation/usage.md works
// an example out by hand.
package usage

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"

	"github.com/tollgate-dev/tollgate/internal/reporting/event"
)

// Compare orders two events with the same id by how much they know: negative
// means that a is to be kept. An event that the provider's feed showed beats one
// that was concluded, fewer unknown sizes beat more, and what is left is decided
// by time and by the bytes, so that any two receivers decide alike. Zero means
// that both say the same.
func Compare(a, b event.Event) int {
	derived := func(e event.Event) int {
		if e.Data.Derived != "" {
			return 1
		}
		return 0
	}
	return cmp.Or(
		cmp.Compare(derived(a), derived(b)),
		cmp.Compare(len(a.Data.UnknownSize), len(b.Data.UnknownSize)),
		cmp.Compare(len(b.Data.Size)+len(b.Data.PreviousSize), len(a.Data.Size)+len(a.Data.PreviousSize)),
		a.Time.Compare(b.Time),
		bytes.Compare(encode(a), encode(b)),
	)
}

func encode(e event.Event) []byte {
	b, err := json.Marshal(e)
	if err != nil { // what cannot be encoded was never decoded
		return nil
	}
	return b
}

// distinct keeps the best event of each id, ordered by time.
//
// Events with equal times are ordered by their sequence when all of them have
// one, and otherwise so that a life opens before it changes and closes last.
func distinct(events []event.Event) []event.Event {
	best := make(map[string]event.Event, len(events))
	for _, e := range events {
		if had, ok := best[e.ID]; !ok || Compare(e, had) < 0 {
			best[e.ID] = e
		}
	}
	sorted := make([]event.Event, 0, len(best))
	for _, e := range best {
		sorted = append(sorted, e)
	}
	slices.SortFunc(sorted, func(a, b event.Event) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.ID, b.ID))
	})
	for from := 0; from < len(sorted); {
		to, sequenced := from, true
		for ; to < len(sorted) && sorted[to].Time.Equal(sorted[from].Time); to++ {
			sequenced = sequenced && sorted[to].Data.Sequence > 0
		}
		slices.SortStableFunc(sorted[from:to], func(a, b event.Event) int {
			bySequence := cmp.Compare(a.Data.Sequence, b.Data.Sequence)
			if sequenced {
				return bySequence
			}
			return cmp.Or(cmp.Compare(class(a), class(b)), bySequence)
		})
		from = to
	}
	return sorted
}

func class(e event.Event) int {
	switch e.Type.Effect() {
	case event.Opens:
		return 0
	case event.Touches:
		return 1
	case event.Closes:
		return 3
	}
	return 2
}
