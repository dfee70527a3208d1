// Package activities is the only place where workflows meet I/O. Activities are
// thin: they call, convert errors by the one table (provider.ClassRules) and
// decide nothing.
package activities

import (
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// ResolveSpecInput asks what a spec amounts to at its provider just now.
type ResolveSpecInput struct {
	Namespace string        `json:"namespace"`
	Name      string        `json:"name"`
	Spec      api.ProxySpec `json:"spec"`
}

// ResolveSpecResult holds no secret: SpecHash is keyed by the installation.
type ResolveSpecResult struct {
	// SpecHash covers provider, placement, port, and the secrets' contents.
	SpecHash string `json:"specHash"`
	// ReadyPoll, GonePoll, Settle and Surge are the provider's profile.
	ReadyPoll api.Duration `json:"readyPoll"`
	GonePoll  api.Duration `json:"gonePoll"`
	Settle    api.Duration `json:"settle"`
	Surge     bool         `json:"surge,omitempty"`
}

// InstanceRef names an instance to an activity. Name is always set; ID once it
// is known. Installation is added to the marks by the activity.
type InstanceRef struct {
	Provider  string              `json:"provider"`
	ID        provider.InstanceID `json:"id,omitempty"`
	Name      string              `json:"name"`
	UID       string              `json:"uid"`
	Namespace string              `json:"namespace"`
	Proxy     string              `json:"proxy"`
}

// CreateInstanceInput makes one instance; Name in Ref is the idempotency key.
type CreateInstanceInput struct {
	Ref      InstanceRef   `json:"ref"`
	Spec     api.ProxySpec `json:"spec"`
	SpecHash string        `json:"specHash"`
}

// CreateInstanceResult carries the id and the profile-free facts.
type CreateInstanceResult struct {
	ID provider.InstanceID `json:"id"`
}

// WaitRunningInput waits until the instance runs; the workflow's retry policy
// is the poll.
type WaitRunningInput struct {
	Ref InstanceRef `json:"ref"`
	// Poll is the wait until the next attempt.
	Poll api.Duration `json:"poll"`
}

// WaitRunningResult is the running instance.
type WaitRunningResult struct {
	IP        string    `json:"ip"`
	CreatedAt time.Time `json:"createdAt,omitzero"`
	// Price is what it costs per hour just now; nil when that is not known.
	Price *provider.MicroEUR `json:"price,omitempty"`
}

// ProbeInput proves a proxy by a CONNECT through it.
type ProbeInput struct {
	Provider string `json:"provider"`
	IP       string `json:"ip"`
	Port     int    `json:"port"`
	AuthRef  string `json:"authRef,omitempty"`
	// Poll is the wait until the next attempt of a Prove.
	Poll api.Duration `json:"poll,omitempty"`
}

// ProbeResult is the outcome of one probe.
type ProbeResult struct {
	OK bool `json:"ok"`
	// Class is empty when OK, otherwise one of probe.Class.
	Class   string       `json:"class,omitempty"`
	Message string       `json:"message,omitempty"`
	Latency api.Duration `json:"latency,omitempty"`
}

// GetInstanceResult is what the provider says of an instance. Exists is false
// when it is gone for certain.
type GetInstanceResult struct {
	Exists   bool           `json:"exists"`
	State    provider.State `json:"state,omitempty"`
	RawState string         `json:"rawState,omitempty"`
	IP       string         `json:"ip,omitempty"`
}

// DeleteInstanceInput deletes an instance and waits until it is gone. With an
// empty ID it is looked for by name and marks first, and absent is success.
type DeleteInstanceInput struct {
	Ref      InstanceRef  `json:"ref"`
	GonePoll api.Duration `json:"gonePoll,omitempty"`
}

// DeleteInstanceResult says what was deleted; ID is empty when nothing was.
type DeleteInstanceResult struct {
	ID provider.InstanceID `json:"id,omitempty"`
}

// ReportFleetInput delivers a report to the shard of the provider's fleet.
type ReportFleetInput struct {
	Provider string          `json:"provider"`
	Report   api.FleetReport `json:"report"`
}
