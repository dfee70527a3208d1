// Package source is the contract of event sources: what reads a platform's feed
// of changes and turns it into events, page by page, from a cursor.
//
// A Source keeps nothing that matters. Whoever reads it holds the cursor, and
// moves it only after the events of a page are delivered; a page may be read any
// number of times, by any process, and gives events of the same ids. So a crash
// costs a page read twice and nothing else.
//
// Sources fail like providers do: their errors are provider.Errors, whose one
// table (provider.ClassRules) says what follows from each class.
package source

import (
	"context"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// Cursor is a position in a feed. Only the source that made it can read it. The
// empty cursor is the beginning: as far back as the platform keeps anything.
type Cursor string

// MaxCursor is the most bytes that a cursor may have: cursors travel through
// workflow histories.
const MaxCursor = 16 << 10

// Source reads one feed of one account. Its methods are safe for concurrent use
// and return promptly, with a Transient error, once ctx has ended.
type Source interface {
	// Next reads the page that follows c. Everything that happened is on some
	// page, in whatever order it became visible: entries that are not finished yet
	// are held in the cursor until they are.
	//
	// An error comes without a page, and the same cursor can be read again. Where a
	// feed has parts and some of them can be read, that is no error: see Page.Broken. A
	// cursor that is none of this source's is a Permanent error with
	// ReasonBadCursor; one that is older than what the platform keeps is no error:
	// reading goes on with the oldest entry there is, and Page.Gap says what is
	// missing.
	Next(ctx context.Context, c Cursor) (Page, error)
	// Seek returns a cursor from which everything that finished at t or later is
	// read, and what was unfinished at t. A little more may be read as well.
	Seek(ctx context.Context, t time.Time) (Cursor, error)
	// Derive makes the events of one entry again. NotFound means that the platform
	// no longer has it.
	Derive(ctx context.Context, ref Ref) ([]Item, error)
}

// Ref says where an entry is found again, in the source's own words. It holds no
// body and no secret.
type Ref string

// MaxRef is the most bytes that a Ref may have.
const MaxRef = 256

// Page is what Next found.
type Page struct {
	// Items are ordered by time, as far as the page goes.
	Items []Item
	// Rejected are entries of which no event could be made. They are passed over:
	// one bad entry holds up nobody.
	Rejected []Rejection
	// Next follows the page. It is set on every page, an empty one too.
	Next Cursor
	// CaughtUp means that there was nothing more when the page was read, of what
	// could be read.
	CaughtUp bool
	// UpTo is the time up to which everything is on this page or an earlier one, that
	// of broken parts as well. Zero means that this is not known.
	UpTo time.Time
	// Broken are the parts of the feed, such as regions, that could not be read. All
	// of the others is on the page as it would be without them; Next has the broken
	// ones where they were, so that nothing of them is lost. A feed of which no part
	// can be read is an error.
	Broken []Broken
	// Gap, when set, is a time of which entries are missing for good.
	Gap *Gap
	// Pending is the number of unfinished entries that Next holds.
	Pending int
	// Ignored is the number of entries that mean nothing to anybody who counts
	// usage.
	Ignored int
}

// Broken is a part of a feed that could not be read.
type Broken struct {
	// Part is its name in the configuration.
	Part string
	// Err says why, as an error of Next would.
	Err error
}

// Rejection is an entry of which no event could be made.
type Rejection struct {
	Ref    Ref    `json:"ref"`
	Reason string `json:"reason"`
}

// Gap is a time of which a feed no longer has all entries.
type Gap struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

func (g Gap) String() string {
	const layout = "2006-01-02T15:04:05Z"
	return "gap from " + g.From.UTC().Format(layout) + " to " + g.To.UTC().Format(layout)
}

// Operations of sources, as errors and metrics name them.
const (
	OpNext   provider.Op = "next"
	OpSeek   provider.Op = "seek"
	OpDerive provider.Op = "derive"
)

// ReasonBadCursor: the cursor, or the reference, is none of this source's.
const ReasonBadCursor = "BadCursor"
