package inventory

import (
	"context"
	"time"

	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// Extra compares something else of a source with what was reported: relations,
// for one. The activities take a list of them for each source (Inventory.Extras);
// each is asked once in every inventory of the source, after its resources were
// compared and repaired.
//
// What it does must be idempotent, and safe when another worker does the same at
// the same time. It may take minutes and returns promptly once ctx has ended. An
// error says why it could not compare; the rest of the inventory stands.
type Extra interface {
	// Name stands in the report as the stream of its differences.
	Name() string
	Compare(ctx context.Context, in ExtraInput) (ExtraResult, error)
}

// ExtraInput is what an Extra gets.
type ExtraInput struct {
	Source, Sink string
	Platform     event.Platform
	// DryRun: nothing may be changed; what would be is DifferenceWouldRepair.
	DryRun bool
	// Streams are the latest listings of the source's streams that succeeded in this
	// inventory.
	Streams []Listed
	Now     time.Time
}

// ExtraResult is what it found and did.
type ExtraResult struct {
	// Listed and Reported are how many things there are on either side.
	Listed, Reported int
	// Differences have their Action set: an Extra makes its repairs itself. Stream
	// is set for it.
	Differences []api.Difference
}
