package activities

import (
	"time"

	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// ErrNothingNew: the source had nothing new; the poll goes on.
const ErrNothingNew = "NothingNew"

// StreamRef names a stream and the sink of its events.
type StreamRef struct {
	Source string `json:"source"`
	Stream string `json:"stream"`
	Sink   string `json:"sink"`
}

// ReadSourceInput reads a source from a cursor and delivers what is found.
type ReadSourceInput struct {
	StreamRef
	Cursor source.Cursor `json:"cursor,omitempty"`
	// Interval is the time between two reads while there is nothing new, and
	// ReturnBy when the activity returns although there was nothing. A zero
	// ReturnBy means at once.
	Interval api.Duration `json:"interval,omitempty"`
	ReturnBy time.Time    `json:"returnBy,omitzero"`
	// From and To, when To is set, limit what is delivered to events of that time;
	// the activity is done with the range when the result says Done.
	From time.Time `json:"from,omitzero"`
	To   time.Time `json:"to,omitzero"`
	// DeadLetters is how many there are already, for the metrics.
	DeadLetters int `json:"deadLetters,omitempty"`
	// Broken are the parts of which the workflow knows that they cannot be read.
	Broken []api.BrokenPart `json:"broken,omitempty"`
}

// ReadSourceResult is how far a read has come. Everything before Cursor is
// delivered or a dead letter. It is also what an attempt leaves to the next one.
type ReadSourceResult struct {
	Cursor   source.Cursor    `json:"cursor,omitempty"`
	CaughtUp bool             `json:"caughtUp,omitempty"`
	UpTo     time.Time        `json:"upTo,omitzero"`
	ReadAt   time.Time        `json:"readAt,omitzero"`
	Pending  int              `json:"pending,omitempty"`
	Counts   api.CursorCounts `json:"counts,omitzero"`
	// LastEventAt is the time of the latest event that was delivered.
	LastEventAt time.Time        `json:"lastEventAt,omitzero"`
	Gaps        []source.Gap     `json:"gaps,omitempty"`
	DeadLetters []api.DeadLetter `json:"deadLetters,omitempty"`
	// Done: everything before To is delivered.
	Done bool `json:"done,omitempty"`
	// Broken are the parts of the source that could not be read.
	Broken []api.BrokenPart `json:"broken,omitempty"`
	// Stop is set when something keeps the read from going on.
	Stop *api.Stop `json:"stop,omitempty"`
}

// SeekSourceInput finds a time in a source.
type SeekSourceInput struct {
	StreamRef
	To time.Time `json:"to"`
}

// SeekSourceResult is the cursor from which everything that finished at the time
// or later is read.
type SeekSourceResult struct {
	Cursor source.Cursor `json:"cursor"`
}

// CheckSinkInput asks whether a sink answers.
type CheckSinkInput struct {
	StreamRef
}

// RedriveInput tries dead letters again.
type RedriveInput struct {
	StreamRef
	Letters []api.DeadLetter `json:"letters"`
}
