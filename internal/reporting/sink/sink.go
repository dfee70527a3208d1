// Package sink is the contract of a receiver of usage events.
package sink

import (
	"context"

	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/reporting/fault"
)

// Sink delivers events. Its methods are safe for concurrent use.
//
// Delivery is at least once on the wire, and exactly once as the receiver sees
// it: every send of an event, the first and any later one, has the same id, and
// an answer that says "I have this one" is a delivery.
type Sink interface {
	// Deliver sends the events and returns one result for each, in the same
	// order; both slices have the same length whatever happens. An event the
	// receiver will never take is Rejected and holds up no other.
	//
	// An error means that at least one result is Unknown: it may or may not have
	// arrived, and must be sent again. All other results stand. The error's
	// class (fault.ClassOf) says when sending again makes sense: Retryable,
	// Unauthorized or Misaddressed. It is never about an event: a sink finds out
	// by itself which event of a batch is refused, so the caller splits nothing
	// and gives up nothing because of an error. ctx ends it early; a deadline
	// that passes is Retryable. No events give no results and no call.
	Deliver(ctx context.Context, events []event.Event) ([]Result, error)
}

// Result is what became of one event.
type Result struct {
	// ID is the id of the event.
	ID      string  `json:"id"`
	Outcome Outcome `json:"outcome"`
	// Reason is the receiver's word on a rejected event, bounded; otherwise
	// empty.
	Reason string `json:"reason,omitempty"`
}

// Outcome is what became of an event. Values are stored: they are only ever
// added.
type Outcome string

// Outcomes.
const (
	// Unknown: nobody knows whether the event arrived. Send it again.
	Unknown Outcome = ""
	// Accepted: the receiver has stored the event.
	Accepted Outcome = "accepted"
	// Duplicate: the receiver had stored the event before.
	Duplicate Outcome = "duplicate"
	// Rejected: the receiver will never take this event as it is.
	Rejected Outcome = "rejected"
)

// Delivered reports whether the receiver has the event.
func (o Outcome) Delivered() bool { return o == Accepted || o == Duplicate }

// Done reports whether there is no point in sending the event again.
func (o Outcome) Done() bool { return o.Delivered() || o == Rejected }

// MaxReason is the most bytes that a Result's Reason has.
const MaxReason = 512

// Reason cuts a receiver's text to what a Result holds.
func Reason(text string) string {
	if len(text) <= MaxReason {
		return text
	}
	cut := MaxReason
	for cut > 0 && text[cut]&0xC0 == 0x80 { // within a character
		cut--
	}
	return text[:cut]
}

// Unsent is a result for each event with nothing known about any of them.
func Unsent(events []event.Event) []Result {
	results := make([]Result, len(events))
	for i, e := range events {
		results[i].ID = e.ID
	}
	return results
}

// Class is the class of a delivery's error.
func Class(err error) fault.Class { return fault.ClassOf(err) }
