package api

import (
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/source"
)

// KindCursor is the kind of a Cursor.
const KindCursor = "Cursor"

// DefaultCursorInterval is the time between two reads of a source that has
// nothing new.
const DefaultCursorInterval = time.Minute

// Bounds of what a cursor keeps.
const (
	// MaxDeadLetters is the most dead letters that are kept one by one. Older ones
	// are dropped; the time that they span is kept, so that a backfill derives
	// them again.
	MaxDeadLetters = 200
	// MaxGaps is the most gaps that are kept.
	MaxGaps = 20
)

// EventCursorInput starts an EventCursor workflow. The workflow id must be
// cursor/<source>/<stream>.
type EventCursorInput struct {
	Source string       `json:"source"`
	Stream string       `json:"stream"`
	Config CursorConfig `json:"config,omitzero"`
	// From is where reading begins; nil means as far back as the platform keeps
	// anything.
	From *time.Time `json:"from,omitempty"`
	// ContinueAfter is the number of history events after which the workflow
	// continues as new; 0 leaves it to the server's advice. For tests.
	ContinueAfter int `json:"continueAfter,omitempty"`
	// Carried is the state of the run before, set by continue-as-new only.
	Carried *CarriedCursor `json:"carried,omitempty"`
}

// CursorConfig is the payload of the signal "configure".
type CursorConfig struct {
	// Sink is the configured name of where events go.
	Sink string `json:"sink"`
	// Interval is the time between two reads with nothing new. 0 means one minute.
	Interval Duration `json:"interval,omitempty"`
	// ConfigHash changes when the source's or the sink's block or their secrets
	// change; then a cursor that fails tries again at once.
	ConfigHash string `json:"configHash,omitempty"`
}

// CarriedCursor is the whole state of an EventCursor workflow.
type CarriedCursor struct {
	Config    CursorConfig  `json:"config"`
	CreatedAt time.Time     `json:"createdAt"`
	Cursor    source.Cursor `json:"cursor,omitempty"`
	Status    CursorStatus  `json:"status"`
	// NextRead is when the source is read again.
	NextRead time.Time `json:"nextRead,omitzero"`
	// Rewind is a rewind that was asked for and not made yet.
	Rewind *time.Time `json:"rewind,omitempty"`
	// Backfill is the cursor of the backfill under way.
	Backfill source.Cursor `json:"backfill,omitempty"`
	// BackfillFound says that Backfill was found.
	BackfillFound bool `json:"backfillFound,omitempty"`
	// BackfillAfter is when a backfill that waits for a part of the source goes on.
	BackfillAfter time.Time `json:"backfillAfter,omitzero"`
}

// Cursor is the answer of an EventCursor workflow to the query "status".
type Cursor struct {
	APIVersion string       `json:"apiVersion"`
	Kind       string       `json:"kind"`
	Metadata   Metadata     `json:"metadata"`
	Spec       CursorConfig `json:"spec"`
	Status     CursorStatus `json:"status"`
}

// CursorPhase is what a cursor does.
type CursorPhase string

// The phases of a cursor.
const (
	// CursorReading: there is more to read.
	CursorReading CursorPhase = "Reading"
	// CursorCaughtUp: everything that there was is delivered.
	CursorCaughtUp CursorPhase = "CaughtUp"
	CursorPaused   CursorPhase = "Paused"
	// CursorSinkDown: the sink takes nothing; the source is left alone.
	CursorSinkDown CursorPhase = "SinkDown"
	// CursorFailing: the source cannot be read.
	CursorFailing CursorPhase = "Failing"
	// CursorDegraded: parts of the source cannot be read; the others are read and
	// delivered.
	CursorDegraded CursorPhase = "Degraded"
)

// Reasons of a cursor beside the classes of errors.
const (
	ReasonAsked           = "Asked"
	ReasonSinkUnavailable = "SinkUnavailable"
	ReasonSinkRefuses     = "SinkRefuses"
	ReasonTimeout         = "Timeout"
	// ReasonFollowerFailed: the sink has everything, and what acts on it beside
	// the sink did not.
	ReasonFollowerFailed = "FollowerFailed"
)

// CursorStatus is what is.
type CursorStatus struct {
	Source string      `json:"source"`
	Stream string      `json:"stream"`
	Phase  CursorPhase `json:"phase"`
	Reason string      `json:"reason,omitempty"`
	// Message explains the reason to people.
	Message string `json:"message,omitempty"`
	// Since is when Phase last changed.
	Since  time.Time `json:"since,omitzero"`
	Paused bool      `json:"paused,omitempty"`

	// CaughtUpTo: everything that was finished by then is delivered, except for
	// the dead letters, the gaps and the Pending.
	CaughtUpTo time.Time `json:"caughtUpTo,omitzero"`
	// ReadAt is when the source was last read, and Lag what CaughtUpTo lay behind
	// it then.
	ReadAt time.Time `json:"readAt,omitzero"`
	Lag    Duration  `json:"lag,omitempty"`
	// LastEventAt is the time of the latest event that was delivered.
	LastEventAt time.Time `json:"lastEventAt,omitzero"`
	// Pending is the number of changes that have begun and not ended.
	Pending int          `json:"pending"`
	Counts  CursorCounts `json:"counts"`
	// Failures is the number of failures in a row.
	Failures int64 `json:"failures,omitempty"`
	// Broken are the parts of the source that could not be read lately. All of the
	// others is read and delivered; CaughtUpTo is that of all parts.
	Broken []BrokenPart `json:"broken,omitempty"`

	// Gaps are the latest times of which the source no longer had all entries;
	// GapCount counts all.
	Gaps     []source.Gap `json:"gaps,omitempty"`
	GapCount int64        `json:"gapCount,omitempty"`
	// DeadLetters are what could not be delivered, the latest last.
	DeadLetters []DeadLetter `json:"deadLetters,omitempty"`
	// Dropped counts the dead letters that there was no room for, and says from
	// when to when they are.
	Dropped *DroppedLetters `json:"dropped,omitempty"`
	// Backfill is the backfill under way, or the latest one.
	Backfill *BackfillStatus `json:"backfill,omitempty"`
}

// BrokenPart is a part of a source, such as a region, that cannot be read.
type BrokenPart struct {
	Part string `json:"part"`
	// Class is the provider.Class of the failure.
	Class   string `json:"class"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message"`
}

// CursorCounts count since the cursor was started.
type CursorCounts struct {
	Pages int64 `json:"pages"`
	// Delivered are new to the sink, Duplicates it had before.
	Delivered  int64 `json:"delivered"`
	Duplicates int64 `json:"duplicates"`
	Rejected   int64 `json:"rejected"`
	// Ignored are entries that mean nothing to usage.
	Ignored int64 `json:"ignored"`
	// UnknownSizes are events with a size that nobody can know.
	UnknownSizes int64 `json:"unknownSizes"`
}

// Add adds counts up.
func (c *CursorCounts) Add(o CursorCounts) {
	c.Pages += o.Pages
	c.Delivered += o.Delivered
	c.Duplicates += o.Duplicates
	c.Rejected += o.Rejected
	c.Ignored += o.Ignored
	c.UnknownSizes += o.UnknownSizes
}

// DeadLetter is an entry or event that could not be delivered. It has no body:
// the event is derived again from the source by its reference.
type DeadLetter struct {
	Ref source.Ref `json:"ref"`
	// EventID is empty when no event could be made of the entry.
	EventID string `json:"eventID,omitempty"`
	// Reason is the sink's or the source's word, bounded.
	Reason string `json:"reason"`
	// At is the time of the event, or when the entry was read.
	At time.Time `json:"at"`
	// Tries counts the redrives.
	Tries int `json:"tries,omitempty"`
}

// DroppedLetters are dead letters that are not kept one by one.
type DroppedLetters struct {
	Count int64     `json:"count"`
	From  time.Time `json:"from"`
	To    time.Time `json:"to"`
}

// BackfillStatus is how a backfill stands.
type BackfillStatus struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Done is when it was done; zero means that it is under way.
	Done time.Time `json:"done,omitzero"`
	// UpTo is how far it has come.
	UpTo   time.Time    `json:"upTo,omitzero"`
	Counts CursorCounts `json:"counts"`
	// Message says why it does not get on.
	Message string `json:"message,omitempty"`
}

// RewindInput is the argument of the update "Rewind".
type RewindInput struct {
	// To is the time from which everything is read again.
	To time.Time `json:"to"`
}

// BackfillInput is the argument of the update "Backfill": what finished from From
// on and before To is delivered again. The cursor itself stays where it is.
type BackfillInput struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// RedriveInput is the argument of the update "Redrive".
type RedriveInput struct {
	// Refs are those of the dead letters to try again; empty means all.
	Refs []source.Ref `json:"refs,omitempty"`
}

// RedriveResult is what became of the dead letters.
type RedriveResult struct {
	Delivered int `json:"delivered"`
	// Gone are those that the source no longer has, or that mean nothing by now.
	Gone int `json:"gone"`
	// Left stay dead letters.
	Left []DeadLetter `json:"left,omitempty"`
}

// Stop says why reading has stopped.
type Stop struct {
	// Sink is true when the sink is the cause, otherwise the source is.
	Sink bool `json:"sink,omitempty"`
	// Class is the provider.Class of a source's failure, the fault.Class of a
	// sink's.
	Class   string `json:"class"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message"`
	// RetryAfter is how long it asks to be left alone.
	RetryAfter Duration `json:"retryAfter,omitempty"`
}

// SourceClass is the class of a source's failure.
func (s Stop) SourceClass() provider.Class { return provider.Class(s.Class) }
