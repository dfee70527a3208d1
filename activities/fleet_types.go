package activities

import (
	"time"

	"github.com/tollgate-dev/tollgate/workflows/api"
)

// SignalObservedInput delivers observations to proxies, at most
// MaxObservations of them.
type SignalObservedInput struct {
	Provider string                 `json:"provider"`
	Items    []api.FleetObservation `json:"items"`
}

// MaxObservations is how many observations travel in one activity.
const MaxObservations = 500

// SignalObservedResult says what became of them.
type SignalObservedResult struct {
	Sent int `json:"sent"`
	// Ended are the uids of proxies that are gone for certain: their workflow is
	// closed, unknown, or another one by now.
	Ended []string `json:"ended,omitempty"`
	// Failed counts the observations that could not be delivered; the next round
	// makes them anew. Error is the first failure.
	Failed int    `json:"failed,omitempty"`
	Error  string `json:"error,omitempty"`
}

// CompareFleetInput lists the provider once and compares all shards' tables
// with the listing.
type CompareFleetInput struct {
	Provider string `json:"provider"`
	Shards   int    `json:"shards"`
	// After is the Next of the part before, in a round of several parts.
	After string `json:"after,omitempty"`
}

// CompareFleetResult holds only the differences.
type CompareFleetResult struct {
	// ListedAt is the start of the listing.
	ListedAt  time.Time `json:"listedAt"`
	Instances int       `json:"instances"`
	Rows      int       `json:"rows"`
	// Found counts all differences by kind; Items are at most MaxObservations of
	// them, in the order of uids.
	Found map[string]int         `json:"found,omitempty"`
	Items []api.FleetObservation `json:"items,omitempty"`
	// Next is the uid after which the next part starts; empty when this was all.
	Next string `json:"next,omitempty"`
	// AtLeast is how long it should be until the next listing, so that listings take a
	// tenth of the account's requests at most; 0 when nobody counts.
	AtLeast api.Duration `json:"atLeast,omitempty"`
	// Spend is what the listed instances cost; nil when a price could not be read.
	Spend *api.SpendListing `json:"spend,omitempty"`
}

// ProbeFleetInput probes every running proxy of one shard.
type ProbeFleetInput struct {
	Provider string             `json:"provider"`
	Shard    int                `json:"shard"`
	Config   api.FleetConfig    `json:"config"`
	Counters []api.ProbeCounter `json:"counters,omitempty"`
	// Released: a person took the brake off.
	Released bool `json:"released,omitempty"`
	// OwnersAfter is the uid after which the look at owners goes on.
	OwnersAfter string `json:"ownersAfter,omitempty"`
	// Refused is for the metrics.
	Refused int64 `json:"refused,omitempty"`
}

// ProbeFleetResult holds only what is not as it should be.
type ProbeFleetResult struct {
	At     time.Time `json:"at"`
	Probed int       `json:"probed"`
	// Failing counts the failures by probe class; Skipped the proxies whose
	// secret could not be read.
	Failing map[string]int `json:"failing,omitempty"`
	Skipped int            `json:"skipped,omitempty"`
	// Counters replace the ones of the input.
	Counters []api.ProbeCounter `json:"counters,omitempty"`
	// Brake is the judgement of this round; Since is left to the workflow.
	Brake api.FleetBrake `json:"brake,omitzero"`
	// Items are the thresholds that were crossed.
	Items []api.FleetObservation `json:"items,omitempty"`
	// Ended are rows whose owners are gone for certain.
	Ended []RowRef `json:"ended,omitempty"`
	// OwnersAfter is where the next round's look at owners goes on.
	OwnersAfter string `json:"ownersAfter,omitempty"`
}

// RowRef names a row as it was at a report.
type RowRef struct {
	UID string `json:"uid"`
	Seq int64  `json:"seq"`
}

// ShardInput names one shard of a fleet table.
type ShardInput struct {
	Provider string `json:"provider"`
	Shard    int    `json:"shard"`
	// Shards is the number of shards there are to be.
	Shards int `json:"shards"`
}

// ForwardRowsResult lists the rows that other shards have by now, at most
// MaxForward of them; More says that there are others.
type ForwardRowsResult struct {
	Forwarded []RowRef `json:"forwarded,omitempty"`
	More      bool     `json:"more,omitempty"`
}

// MaxForward is how many rows one activity hands to other shards.
const MaxForward = 500

// CountResult counts the workflows that were signalled.
type CountResult struct {
	Signalled int `json:"signalled"`
	Failed    int `json:"failed,omitempty"`
}
