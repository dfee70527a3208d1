package api

import (
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// Kinds of the documents that the watching workflows answer to the query
// "status".
const (
	KindFleet          = "Fleet"
	KindOrphanSweep    = "OrphanSweep"
	KindProviderHealth = "ProviderHealth"
)

// MaxFleetRows is the number of rows that one shard of a fleet table holds. A
// proxy beyond it is refused, which its shard's status, details and metrics say;
// more shards make room.
const MaxFleetRows = 2000

// FleetWatchInput starts a FleetWatch workflow. The workflow id must be
// fleet/<provider>/<shard>. Without a signal "configure" it keeps the table and
// makes no rounds.
type FleetWatchInput struct {
	Provider string `json:"provider"`
	Shard    int    `json:"shard"`
	// ContinueAfter is the number of history events after which the workflow
	// continues as new; 0 leaves it to the server's advice. For tests.
	ContinueAfter int `json:"continueAfter,omitempty"`
	// Carried is the state of the run before, set by continue-as-new only.
	Carried *CarriedFleet `json:"carried,omitempty"`
}

// CarriedFleet is the whole state of a FleetWatch workflow, and what it hands to
// its next run at a continue-as-new. All times are absolute; lists are sorted.
type CarriedFleet struct {
	Config *FleetConfig `json:"config,omitempty"`
	Rows   []FleetRow   `json:"rows,omitempty"`
	// Changes counts the changes of Rows; the table's version is made of it.
	Changes int64 `json:"changes,omitempty"`
	// Ended remembers proxies that are gone, so that a late report of one does
	// not bring its row back.
	Ended []FleetEnd `json:"ended,omitempty"`
	// Counters are the rows whose probes fail, or whose proxies were told so.
	Counters []ProbeCounter `json:"counters,omitempty"`
	Brake    FleetBrake     `json:"brake,omitzero"`
	// Outbox are the observations that are not delivered yet.
	Outbox []FleetObservation `json:"outbox,omitempty"`
	// NextDrift and NextProbe are when the next rounds are due. DriftAfter is set
	// within a round of several parts: the uid that the next part starts after.
	NextDrift  time.Time    `json:"nextDrift,omitzero"`
	DriftAfter string       `json:"driftAfter,omitempty"`
	NextProbe  time.Time    `json:"nextProbe,omitzero"`
	Drift      DriftState   `json:"drift,omitzero"`
	Probe      ProbeState   `json:"probe,omitzero"`
	Refused    RefusedState `json:"refused,omitzero"`
	// OwnersAfter is the uid after which the look at owners goes on.
	OwnersAfter string `json:"ownersAfter,omitempty"`
	// Jobs that are still to do: ask all proxies to report, tell latched ones to
	// try again, hand over rows that belong to other shards.
	Rebuild bool `json:"rebuild,omitempty"`
	Retry   bool `json:"retry,omitempty"`
	Forward bool `json:"forward,omitempty"`
	// Spend is what shard 0 knows about the costs.
	Spend SpendState `json:"spend,omitzero"`
}

// FleetEnd is a proxy that is gone.
type FleetEnd struct {
	UID string    `json:"uid"`
	Seq int64     `json:"seq"`
	At  time.Time `json:"at"`
}

// FleetObservation is an observation and the proxy that it is for.
type FleetObservation struct {
	UID         string      `json:"uid"`
	Namespace   string      `json:"namespace"`
	Name        string      `json:"name"`
	Observation Observation `json:"observation"`
}

// ProbeCounter counts the results of one proxy's probes. A proxy without one has
// no failures.
type ProbeCounter struct {
	UID string `json:"u"`
	// Instance is the instance that the counts are of: those of its successor
	// start anew.
	Instance provider.InstanceID `json:"i,omitempty"`
	// Fails and Passes are consecutive; one of them is zero.
	Fails  int `json:"f,omitempty"`
	Passes int `json:"p,omitempty"`
	// Down: the proxy was told that it is unhealthy.
	Down bool `json:"d,omitempty"`
	// Class is the probe class of the latest failure.
	Class string `json:"c,omitempty"`
}

// FleetBrake says whether probe results are believed. While it is on, no proxy
// is told that it is unhealthy.
type FleetBrake struct {
	On bool `json:"on,omitempty"`
	// Reason is ManyFailing or ControlFailed.
	Reason  string    `json:"reason,omitempty"`
	Message string    `json:"message,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	// Released: a person took the brake off; it stays off until fewer fail.
	Released bool `json:"released,omitempty"`
}

// Reasons of a FleetBrake.
const (
	ReasonManyFailing   = "ManyFailing"
	ReasonControlFailed = "ControlFailed"
)

// DriftState is about the latest comparison of the table with a listing. Only
// shard 0 makes them.
type DriftState struct {
	// ListedAt is the start of the latest complete listing.
	ListedAt  time.Time `json:"listedAt,omitzero"`
	Instances int       `json:"instances,omitempty"`
	Rows      int       `json:"rows,omitempty"`
	// Found counts the differences of the latest round by kind.
	Found map[string]int `json:"found,omitempty"`
	// Failures counts rounds in a row without a complete listing; Error and Class
	// say why. Such a round concludes nothing.
	Failures int    `json:"failures,omitempty"`
	Class    string `json:"class,omitempty"`
	Error    string `json:"error,omitempty"`
}

// ProbeState is about the latest probe round of the shard.
type ProbeState struct {
	At     time.Time `json:"at,omitzero"`
	Probed int       `json:"probed,omitempty"`
	// Failing counts the failures by probe class; Skipped the proxies whose
	// secret could not be read, which concludes nothing.
	Failing map[string]int `json:"failing,omitempty"`
	Skipped int            `json:"skipped,omitempty"`
	// Failures counts rounds in a row that could not be made; Error says why.
	Failures int    `json:"failures,omitempty"`
	Error    string `json:"error,omitempty"`
}

// RefusedState counts the reports that the shard had no room for.
type RefusedState struct {
	Count int64     `json:"count,omitempty"`
	Last  string    `json:"last,omitempty"`
	At    time.Time `json:"at,omitzero"`
}

// Fleet is the answer of a FleetWatch workflow to the query "status". The rows
// themselves are the answer to "table".
type Fleet struct {
	APIVersion string      `json:"apiVersion"`
	Kind       string      `json:"kind"`
	Metadata   Metadata    `json:"metadata"`
	Spec       FleetConfig `json:"spec,omitzero"`
	Status     FleetStatus `json:"status"`
}

// FleetStatus is what is.
type FleetStatus struct {
	Shard   int    `json:"shard"`
	Version string `json:"version"`
	Rows    int    `json:"rows"`
	Healthy int    `json:"healthy"`
	Latched int    `json:"latched,omitempty"`
	// Phases counts the rows by phase.
	Phases map[Phase]int `json:"phases,omitempty"`
	Brake  FleetBrake    `json:"brake,omitzero"`
	Drift  DriftState    `json:"drift,omitzero"`
	Probe  ProbeState    `json:"probe,omitzero"`
	// Failing are the proxies whose probes fail, at most 50 of them.
	Failing []FailingProxy `json:"failing,omitempty"`
	Refused RefusedState   `json:"refused,omitzero"`
	// Spend is about the costs; only shard 0 has it.
	Spend *SpendStatus `json:"spend,omitempty"`
	// Pending is the number of observations on their way to proxies.
	Pending    int         `json:"pending,omitempty"`
	NextDrift  time.Time   `json:"nextDrift,omitzero"`
	NextProbe  time.Time   `json:"nextProbe,omitzero"`
	Conditions []Condition `json:"conditions,omitempty"`
}

// FailingProxy is a proxy whose probes fail.
type FailingProxy struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Class     string `json:"class"`
	Fails     int    `json:"fails"`
	// Told: the proxy knows.
	Told bool `json:"told,omitempty"`
}

// Condition types of a Fleet.
const (
	// CondConfigured is True once the fleet was told its configuration.
	CondConfigured = "Configured"
	// CondListed is True while the listings of the provider work.
	CondListed = "Listed"
	// CondProbesTrusted is False while the brake is on.
	CondProbesTrusted = "ProbesTrusted"
	// CondRoom is False when the shard had to refuse a row of late.
	CondRoom = "Room"
)
