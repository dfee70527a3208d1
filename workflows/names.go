// Package workflows holds the names of Tollgate's public surface on Temporal:
// task queues, workflow types and ids, signals, updates, queries and search
// attributes. They are stored in histories and typed by people, so they are
// only ever added to. Package register lists the workflows themselves.
package workflows

import (
	"fmt"
	"strings"

	"go.temporal.io/sdk/temporal"
)

// Workflow types.
const (
	TypeProxy          = "Proxy"
	TypeFleetWatch     = "FleetWatch"
	TypeOrphanGC       = "OrphanGC"
	TypeProviderHealth = "ProviderHealth"
)

// Task queues. Workflows and the activities that call no provider share one
// queue; each provider account has a queue of its own, whose rate the server
// enforces.
const TaskQueue = "tollgate"

// ProviderTaskQueue is the task queue of a provider's activities.
func ProviderTaskQueue(provider string) string { return TaskQueue + "/" + provider }

// Workflow ids.

// ProxyID is the workflow id of a proxy.
func ProxyID(namespace, name string) string { return "proxy/" + namespace + "/" + name }

// ParseProxyID is the inverse of ProxyID.
func ParseProxyID(id string) (namespace, name string, err error) {
	parts := strings.Split(id, "/")
	if len(parts) != 3 || parts[0] != "proxy" || parts[1] == "" || parts[2] == "" {
		return "", "", fmt.Errorf("workflow id %q: want proxy/<namespace>/<name>", id)
	}
	return parts[1], parts[2], nil
}

// FleetID is the workflow id of one shard of a provider's fleet table. Shard 0
// also makes the provider's listings.
func FleetID(provider string, shard int) string { return fmt.Sprintf("fleet/%s/%d", provider, shard) }

// OrphanGCID is the workflow id of a provider's sweep; the schedule appends a
// time to it.
func OrphanGCID(provider string) string { return "gc/" + provider }

// ProviderHealthID is the workflow id of a provider's health.
func ProviderHealthID(provider string) string { return "health/" + provider }

// Schedule ids.

// OrphanGCSchedule is the schedule id of a provider's sweeps.
func OrphanGCSchedule(provider string) string { return "gc/" + provider }

// Signals of the Proxy workflow, for callers who need no answer.
const (
	SignalReplace  = "replace"
	SignalDelete   = "delete"
	SignalRetry    = "retry"
	SignalObserved = "observed" // api.Observation
)

// Updates of the Proxy workflow, which answer.
const (
	UpdateSetSpec = "SetSpec" // api.SetSpecInput -> api.SetSpecResult
	UpdateReplace = "Replace" // api.ReplaceInput -> api.ReplaceResult, when done
	UpdateDelete  = "Delete"  // api.DeleteInput -> api.DeleteResult, when done
)

// Queries.
const (
	QueryStatus = "status" // Proxy: api.Proxy; others: their own status
	QueryTable  = "table"  // FleetWatch: api.FleetTable
)

// Signals of the FleetWatch workflow.
const (
	SignalReport    = "report"    // api.FleetReport, from proxies
	SignalConfigure = "configure" // api.FleetConfig, from the worker at start and reload
	SignalRelease   = "release"   // takes the brake off
)

// Search attributes. They make the UI and workflow lists useful to people; no
// decision rests on them.
var (
	AttrProvider  = temporal.NewSearchAttributeKeyKeyword("TollgateProvider")
	AttrNamespace = temporal.NewSearchAttributeKeyKeyword("TollgateNamespace")
	AttrPhase     = temporal.NewSearchAttributeKeyKeyword("TollgatePhase")
	AttrReason    = temporal.NewSearchAttributeKeyKeyword("TollgateReason")
	AttrHealthy   = temporal.NewSearchAttributeKeyBool("TollgateHealthy")
	AttrInstance  = temporal.NewSearchAttributeKeyKeyword("TollgateInstance")
	AttrIP        = temporal.NewSearchAttributeKeyKeyword("TollgateIP")
)

// SearchAttributes lists what a namespace must have.
func SearchAttributes() []temporal.SearchAttributeKey {
	return append([]temporal.SearchAttributeKey{AttrProvider, AttrNamespace, AttrPhase, AttrReason, AttrHealthy, AttrInstance, AttrIP},
		append(cursorAttributes(), shootAttributes()...)...)
}
