package activities

import (
	"time"

	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// LookInventoryInput makes the first look at a source.
type LookInventoryInput struct {
	Source string `json:"source"`
	Sink   string `json:"sink,omitempty"`
}

// LookInventoryResult is what the first look saw.
type LookInventoryResult struct {
	// Sink is where events go.
	Sink    string         `json:"sink"`
	Streams []LookedStream `json:"streams"`
	// Extras says that the source compares something besides.
	Extras bool `json:"extras,omitempty"`
}

// LookedStream is what the first look saw of a stream.
type LookedStream struct {
	api.InventoryStream
	// At and Until are when the listing began and was over; zero when there is none.
	At    time.Time `json:"at,omitzero"`
	Until time.Time `json:"until,omitzero"`
	// Platform is Until by the platform's clock.
	Platform time.Time `json:"platform,omitzero"`
	// Seen are the differences, as hashes of eight bytes each: the second look sees
	// the same ones, or they are none.
	Seen []byte `json:"seen,omitempty"`
}

// RepairInventoryInput makes the second look and repairs what both saw.
type RepairInventoryInput struct {
	Source  string `json:"source"`
	Sink    string `json:"sink"`
	DryRun  bool   `json:"dryRun,omitempty"`
	MaxEnds int    `json:"maxEnds"`
	// Streams are those with differences.
	Streams []LookedStream `json:"streams"`
	// Before are the differences that the inventory before has left.
	Before []SeenDifference `json:"before,omitempty"`
}

// SeenDifference is a difference that was seen before.
type SeenDifference struct {
	Stream    string             `json:"stream"`
	Kind      api.DifferenceKind `json:"kind"`
	Account   string             `json:"account,omitempty"`
	Type      event.ResourceType `json:"type"`
	ID        string             `json:"id"`
	FirstSeen time.Time          `json:"firstSeen"`
}

// RepairInventoryResult is what became of the differences.
type RepairInventoryResult struct {
	Streams     []api.InventoryStream `json:"streams"`
	Count       int                   `json:"count"`
	Differences []api.Difference      `json:"differences,omitempty"`
	Delivered   int                   `json:"delivered,omitempty"`
	Duplicates  int                   `json:"duplicates,omitempty"`
	// Actions counts all differences by what was done.
	Actions map[api.DifferenceAction]int `json:"actions,omitempty"`
}

// InventoryDoneInput records the end of an inventory in the metrics and the log.
type InventoryDoneInput struct {
	Source  string               `json:"source"`
	Outcome api.InventoryOutcome `json:"outcome"`
	Count   int                  `json:"count"`
	Message string               `json:"message,omitempty"`
}
