// Package reportingsink delivers events to the Reporting API, in batches.
package reportingsink

import (
	"context"

	"github.com/tollgate-dev/tollgate/internal/reporting"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/reporting/sink"
	"github.com/tollgate-dev/tollgate/internal/reporting/sink/internal/wire"
)

// Limits of a batch. They are below those of the API.
const (
	DefaultBatch = 500
	maxBatch     = 1000
	maxBytes     = 8 << 20
)

// Sink delivers to the Reporting API.
type Sink struct {
	client *reporting.Client
	batch  int
}

var _ sink.Sink = (*Sink)(nil)

// New returns a Sink. batch is how many events a call has at most; 0 means
// DefaultBatch.
func New(c *reporting.Client, batch int) *Sink {
	if batch <= 0 {
		batch = DefaultBatch
	}
	return &Sink{client: c, batch: min(batch, maxBatch)}
}

// Deliver sends the events; see sink.Sink.
func (s *Sink) Deliver(ctx context.Context, events []event.Event) ([]sink.Result, error) {
	results := sink.Unsent(events)
	return results, wire.Delivery(s.deliver(ctx, events, results))
}

func (s *Sink) deliver(ctx context.Context, events []event.Event, results []sink.Result) error {
	var first error // of events that the receiver breaks on
	for from, to := range wire.Chunks(events, s.batch, maxBytes) {
		got, err := s.client.PostEvents(ctx, events[from:to])
		switch {
		case err == nil:
			copy(results[from:to], got)
		case !wire.AboutEvents(err):
			return err
		default:
			away, err := wire.Singly(ctx, events, results, wire.Between(from, to), func(ctx context.Context, e event.Event) error {
				_, err := s.client.PostEvent(ctx, e)
				return err
			})
			if away {
				return err
			}
			if first == nil {
				first = err
			}
		}
	}
	return first
}
