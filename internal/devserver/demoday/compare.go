package demoday

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tollgate-dev/tollgate/internal/reporting/event"
)

// inOrder orders events by their times, and equal ones as a life goes.
func inOrder(a, b event.Event) int {
	return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Data.Sequence, b.Data.Sequence), cmp.Compare(a.ID, b.ID))
}

// Line is an event in one line: what makes a difference for usage.
func Line(e event.Event) string {
	words := []string{show(e.Time), string(e.Type), e.Data.Resource.ID}
	if s := sizeText(e.Data.PreviousSize); s != "" {
		words = append(words, "was", s)
	}
	if s := sizeText(e.Data.Size); s != "" {
		words = append(words, "is", s)
	}
	if len(e.Data.UnknownSize) > 0 {
		words = append(words, "unknown", strings.Join(slices.Sorted(slices.Values(e.Data.UnknownSize)), " "))
	}
	if e.Data.Derived != "" {
		words = append(words, "from", string(e.Data.Derived))
	}
	return strings.Join(words, " ")
}

func sizeText(s event.Size) string {
	var parts []string
	for name, v := range s.All() {
		parts = append(parts, name+"="+v.String())
	}
	return strings.Join(parts, " ")
}

// compare fails unless both have the same events.
func compare(have, want []event.Event) error {
	lines := func(events []event.Event) map[string]string {
		out := map[string]string{}
		for _, e := range events {
			out[e.ID] = Line(e)
		}
		return out
	}
	h, w := lines(have), lines(want)
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(w)) {
		switch got, ok := h[id]; {
		case !ok:
			errs = append(errs, fmt.Errorf("the event %s is missing: %s", id, w[id]))
		case got != w[id]:
			errs = append(errs, fmt.Errorf("the event %s is\n  %s\nand should be\n  %s", id, got, w[id]))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(h)) {
		if _, ok := w[id]; !ok {
			errs = append(errs, fmt.Errorf("the event %s should not be there: %s", id, h[id]))
		}
	}
	return errors.Join(errs...)
}
