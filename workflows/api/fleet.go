package api

import (
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// FleetRow is what the fleet table knows of one proxy.
type FleetRow struct {
	UID       string `json:"uid"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Seq orders the reports of one proxy; a report with a lower or equal one is
	// dropped.
	Seq          int64               `json:"seq"`
	Phase        Phase               `json:"phase"`
	InstanceID   provider.InstanceID `json:"instanceID,omitempty"`
	InstanceName string              `json:"instanceName,omitempty"`
	IP           string              `json:"ip,omitempty"`
	Port         int                 `json:"port,omitempty"`
	// Own are the names of all instances the proxy answers for just now: the
	// current one, the next, and those it is deleting.
	Own []string `json:"own,omitempty"`
	// AuthRef names the secret with which probes and clients log in.
	AuthRef string `json:"authRef,omitempty"`
	// Healthy: the proxy is proven and serves. Discovery lists it only then.
	Healthy bool   `json:"healthy,omitempty"`
	Reason  string `json:"reason,omitempty"`
	// Latched: the proxy waits for a change of the provider's configuration.
	Latched   bool               `json:"latched,omitempty"`
	Placement provider.Placement `json:"placement,omitzero"`
	Labels    map[string]string  `json:"labels,omitempty"`
	// Price is what the instance costs per hour, as of its creation; nil when that is
	// not known.
	Price *provider.MicroEUR `json:"price,omitempty"`
	// Since is when Phase or Healthy last changed.
	Since     time.Time `json:"since,omitzero"`
	CreatedAt time.Time `json:"createdAt,omitzero"`
}

// FleetReport is the payload of the signal "report": the proxy's whole row, or
// its end.
type FleetReport struct {
	Row FleetRow `json:"row"`
	// Gone: the proxy is deleted, drop the row.
	Gone bool `json:"gone,omitempty"`
}

// FleetConfig is the payload of the signal "configure".
type FleetConfig struct {
	// ConfigHash changes when the provider's block or its secrets change; then
	// latched proxies are told to try again.
	ConfigHash string `json:"configHash"`
	// Shards is the number of shards of this provider's table, at least 1.
	Shards        int      `json:"shards"`
	DriftInterval Duration `json:"driftInterval"`
	ProbeInterval Duration `json:"probeInterval"`
	// UnhealthyAfter and HealthyAfter are consecutive probe results.
	UnhealthyAfter int `json:"unhealthyAfter"`
	HealthyAfter   int `json:"healthyAfter"`
	// BrakeFraction (0 to 1) and BrakeMin: when at least BrakeMin proxies and at
	// least this share of the probed ones fail at once, nobody is told.
	BrakeFraction float64 `json:"brakeFraction"`
	BrakeMin      int     `json:"brakeMin"`
	// SpendCap is the most that the provider's instances may cost per hour, in
	// millionths of a euro; 0 means no cap.
	SpendCap provider.MicroEUR `json:"spendCap,omitempty"`
}

// FleetTable is the answer of the query "table".
type FleetTable struct {
	Provider string `json:"provider"`
	Shard    int    `json:"shard"`
	Shards   int    `json:"shards"`
	// Version changes with every change of Rows.
	Version string     `json:"version"`
	Rows    []FleetRow `json:"rows"`
	// Held are the instances, by name, that hold a place below the spend cap; only
	// shard 0 has them.
	Held []string `json:"held,omitempty"`
}
