// Package wire is what sinks that speak HTTP have in common.
package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"

	"github.com/tollgate-dev/tollgate/internal/reporting/api"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/reporting/fault"
	"github.com/tollgate-dev/tollgate/internal/reporting/sink"
)

// maxFailures is how many events in a row may fail with a 500 before the receiver
// itself, and not the events, is taken to be broken.
const maxFailures = 3

// status is the HTTP status of an error, or 0.
func status(err error) int {
	var f *fault.Error
	if errors.As(err, &f) {
		return f.Status
	}
	return 0
}

// AboutEvents reports whether an error may be about single events of a batch, so
// that sending them one at a time finds out which.
func AboutEvents(err error) bool {
	switch status(err) {
	case http.StatusBadRequest, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity,
		http.StatusInternalServerError:
		return true
	}
	return false
}

// Judge turns what a receiver says to a single event into a result. An error that
// is not about the event comes back as it is.
//
// A 409 says that the receiver has the event. Some say so with a 400 or 422; then
// the type of the problem tells, or, where there is none, the words of the answer.
// Words that stand in the event too prove nothing, as the answer may repeat it.
func Judge(e event.Event, err error) (sink.Result, error) {
	r := sink.Result{ID: e.ID}
	var f *fault.Error
	if !errors.As(err, &f) {
		return r, err
	}
	switch f.Status {
	case http.StatusConflict:
		r.Outcome = sink.Duplicate
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge:
		r.Outcome, r.Reason = sink.Rejected, sink.Reason(f.Error())
		duplicate := f.Kind == string(api.UrnTollgateProblemConflict)
		if f.Kind == "" && f.Status != http.StatusRequestEntityTooLarge {
			own, err := json.Marshal(e)
			duplicate = err == nil && saysDuplicate(f.Err.Error()) && !saysDuplicate(string(own))
		}
		if duplicate {
			r.Outcome, r.Reason = sink.Duplicate, ""
		}
	default:
		return r, err
	}
	return r, nil
}

func saysDuplicate(text string) bool {
	text = strings.NewReplacer(" ", "", "_", "", "-", "").Replace(strings.ToLower(text))
	for _, words := range []string{"duplicate", "alreadyexist", "alreadyprocessed", "alreadyreceived", "alreadyingested", "alreadystored"} {
		if strings.Contains(text, words) {
			return true
		}
	}
	return false
}

// Singly sends the events at places one at a time and sets their results. It goes
// on after one that fails with a 500, which may be that event's own fault, and
// stops when the receiver is away or wants nothing. err is the first error; away
// says that there is no point in going on with other events.
func Singly(ctx context.Context, events []event.Event, results []sink.Result, places []int, send func(context.Context, event.Event) error) (away bool, err error) {
	var first error
	failures := 0
	for _, at := range places {
		r := sink.Result{ID: events[at].ID, Outcome: sink.Accepted}
		err := send(ctx, events[at])
		if err != nil {
			r, err = Judge(events[at], err)
		}
		if err == nil {
			results[at] = r
			failures = 0
			continue
		}
		if first == nil {
			first = err
		}
		if failures++; status(err) != http.StatusInternalServerError || failures >= maxFailures {
			return true, first
		}
	}
	return false, first
}

// Delivery is the error of a delivery. What is left of the class Rejected, once
// events have been judged one by one, is about the address.
func Delivery(err error) error {
	var f *fault.Error
	if !errors.As(err, &f) || f.Class != fault.Rejected {
		return err
	}
	address := *f
	address.Class = fault.Misaddressed
	return fmt.Errorf("deliver events: %w", &address)
}

// Chunks yields the bounds of batches of at most n events and about size bytes.
func Chunks(events []event.Event, n, size int) iter.Seq2[int, int] {
	return func(yield func(from, to int) bool) {
		for from := 0; from < len(events); {
			to, bytes := from, 0
			if most := min(n, len(events)-from); most*event.MaxBytes <= size {
				to += most // however large they are
			}
			for ; to < len(events) && to-from < n; to++ {
				b, err := json.Marshal(events[to])
				if err != nil { // sending it will say so
					b = nil
				}
				if bytes += len(b) + 1; bytes > size && to > from {
					break
				}
			}
			if !yield(from, to) {
				return
			}
			from = to
		}
	}
}

// Between lists the places from from until before to.
func Between(from, to int) []int {
	places := make([]int, 0, to-from)
	for i := from; i < to; i++ {
		places = append(places, i)
	}
	return places
}
