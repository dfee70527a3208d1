// Package api holds the objects that cross Tollgate's public surface: workflow
// inputs, results, signals, updates and queries, which are also the YAML and
// JSON documents of the command line and the discovery API. Fields are only
// ever added.
package api

import (
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// APIVersion and KindProxy identify the documents.
const (
	APIVersion = "tollgate/v1"
	KindProxy  = "Proxy"
)

// DefaultNamespace is used where none is given. A namespace groups proxies and
// is part of their workflow ids; it is no Temporal namespace.
const DefaultNamespace = "default"

// Proxy is one egress proxy: what is wanted and what is.
type Proxy struct {
	APIVersion string      `json:"apiVersion" yaml:"apiVersion"`
	Kind       string      `json:"kind" yaml:"kind"`
	Metadata   Metadata    `json:"metadata" yaml:"metadata"`
	Spec       ProxySpec   `json:"spec" yaml:"spec"`
	Status     ProxyStatus `json:"status,omitzero" yaml:"status,omitempty"`
}

// Metadata identifies an object.
type Metadata struct {
	Name      string `json:"name" yaml:"name"`
	Namespace string `json:"namespace,omitempty" yaml:"namespace,omitempty"`
	// Labels are free for users; the discovery API filters by them.
	Labels map[string]string `json:"labels,omitempty" yaml:"labels,omitempty"`
	// UID, Generation and CreationTimestamp are set by Tollgate and ignored when
	// a document is applied. Generation counts changes of the spec.
	UID               string    `json:"uid,omitempty" yaml:"uid,omitempty"`
	Generation        int64     `json:"generation,omitempty" yaml:"generation,omitempty"`
	CreationTimestamp time.Time `json:"creationTimestamp,omitzero" yaml:"creationTimestamp,omitempty"`
}

// ProxySpec is what is wanted. A change of anything but Replacement,
// NeverHealthyAfter and the probe's settings replaces the instance.
type ProxySpec struct {
	// Provider is the configured name of the provider; it cannot be changed.
	Provider string `json:"provider" yaml:"provider"`
	// Port is the TCP port of the proxy, 1-65535. 0 means 3128.
	Port      int                `json:"port,omitempty" yaml:"port,omitempty"`
	Placement provider.Placement `json:"placement,omitzero" yaml:"placement,omitempty"`
	// CloudInit configures the guest.
	CloudInit *SecretSource `json:"cloudInit,omitempty" yaml:"cloudInit,omitempty"`
	// Auth are the credentials the proxy asks of its clients, as a secret of the
	// form username:password. Only a secretRef is allowed, because every probe
	// of the fleet needs it.
	Auth *SecretSource `json:"auth,omitempty" yaml:"auth,omitempty"`
	// Replacement says in which order a replacement happens.
	Replacement ReplacementStrategy `json:"replacement,omitempty" yaml:"replacement,omitempty"`
	// NeverHealthyAfter is how long a new instance may take until it is proven;
	// then it is replaced. 0 means 10 minutes.
	NeverHealthyAfter Duration `json:"neverHealthyAfter,omitempty" yaml:"neverHealthyAfter,omitempty"`
}

// SecretSource says where a secret value comes from: exactly one field is set.
type SecretSource struct {
	// Inline is the value itself. The command line encrypts it before it leaves
	// the machine; in a workflow started by hand it would stand in the history
	// in the clear, so use SecretRef there.
	Inline string `json:"inline,omitempty" yaml:"inline,omitempty"`
	// SecretRef names an entry of secrets in the workers' configuration.
	SecretRef string `json:"secretRef,omitempty" yaml:"secretRef,omitempty"`
}

// ReplacementStrategy is the order of a replacement.
type ReplacementStrategy string

// The strategies.
const (
	// Recreate deletes the old instance before it makes the new one. Default.
	Recreate ReplacementStrategy = "Recreate"
	// CreateBeforeDelete makes and proves the new instance first. Allowed where
	// the provider can run two.
	CreateBeforeDelete ReplacementStrategy = "CreateBeforeDelete"
)

// Phase is the one-word summary of a proxy.
type Phase string

// The phases.
const (
	PhasePending      Phase = "Pending"
	PhaseProvisioning Phase = "Provisioning"
	PhaseRunning      Phase = "Running"
	PhaseReplacing    Phase = "Replacing"
	PhaseDeleting     Phase = "Deleting"
	PhaseDeleted      Phase = "Deleted"
)

// ProxyStatus is what is.
type ProxyStatus struct {
	Phase        Phase               `json:"phase,omitempty" yaml:"phase,omitempty"`
	IP           string              `json:"ip,omitempty" yaml:"ip,omitempty"`
	Port         int                 `json:"port,omitempty" yaml:"port,omitempty"`
	InstanceID   provider.InstanceID `json:"instanceID,omitempty" yaml:"instanceID,omitempty"`
	InstanceName string              `json:"instanceName,omitempty" yaml:"instanceName,omitempty"`
	// EURPerHour is what the instance costs, net, as of its creation; empty when that
	// is not known.
	EURPerHour         string      `json:"eurPerHour,omitempty" yaml:"eurPerHour,omitempty"`
	ObservedGeneration int64       `json:"observedGeneration,omitempty" yaml:"observedGeneration,omitempty"`
	SpecHash           string      `json:"specHash,omitempty" yaml:"specHash,omitempty"`
	Conditions         []Condition `json:"conditions,omitempty" yaml:"conditions,omitempty"`
	// Replacements counts completed replacements; LastReplacement says why the
	// latest one happened.
	Replacements    int    `json:"replacements,omitempty" yaml:"replacements,omitempty"`
	LastReplacement string `json:"lastReplacement,omitempty" yaml:"lastReplacement,omitempty"`
	// Latched: nothing is tried until the spec or the provider's configuration
	// changes, or somebody says retry.
	Latched bool `json:"latched,omitempty" yaml:"latched,omitempty"`
	// NextRetry is when a waiting proxy tries again.
	NextRetry time.Time `json:"nextRetry,omitzero" yaml:"nextRetry,omitempty"`
}

// Condition is one aspect of an object's state, as in Kubernetes.
type Condition struct {
	Type   string          `json:"type" yaml:"type"`
	Status ConditionStatus `json:"status" yaml:"status"`
	Reason string          `json:"reason" yaml:"reason"`
	// Message is for people.
	Message            string    `json:"message,omitempty" yaml:"message,omitempty"`
	LastTransitionTime time.Time `json:"lastTransitionTime,omitzero" yaml:"lastTransitionTime,omitempty"`
	ObservedGeneration int64     `json:"observedGeneration,omitempty" yaml:"observedGeneration,omitempty"`
}

// ConditionStatus is True, False or Unknown.
type ConditionStatus string

// The statuses of a condition.
const (
	True    ConditionStatus = "True"
	False   ConditionStatus = "False"
	Unknown ConditionStatus = "Unknown"
)

// Condition types of a Proxy.
const (
	// CondProvisioned is True while an instance of the wanted spec runs.
	CondProvisioned = "Provisioned"
	// CondHealthy is True while the instance is proven by a CONNECT.
	CondHealthy = "Healthy"
)

// Reasons of conditions, beside the provider error classes and the probe
// classes, which are reasons too.
const (
	ReasonPending               = "Pending"
	ReasonCreating              = "Creating"
	ReasonBooting               = "Booting"
	ReasonRunning               = "Running"
	ReasonProving               = "Proving"
	ReasonProven                = "Proven"
	ReasonReplacing             = "Replacing"
	ReasonDeleting              = "Deleting"
	ReasonDeleted               = "Deleted"
	ReasonInstanceGone          = "InstanceGone"
	ReasonInstanceStopped       = "InstanceStopped"
	ReasonNeverHealthy          = "NeverHealthy"
	ReasonUnhealthy             = "Unhealthy"
	ReasonSpecChanged           = "SpecChanged"
	ReasonRequested             = "Requested"
	ReasonInvalidSpec           = "InvalidSpec"
	ReasonSecretUnavailable     = "SecretUnavailable"
	ReasonProviderNotConfigured = "ProviderNotConfigured"
)

// ProxyInput starts a Proxy workflow. The workflow id must be
// proxy/<namespace>/<name>; namespace and name come from it.
type ProxyInput struct {
	Spec ProxySpec `json:"spec"`
	// Labels become metadata.labels.
	Labels map[string]string `json:"labels,omitempty"`
	// ContinueAfter is the history length after which the workflow continues as
	// new; 0 leaves it to the server's suggestion.
	ContinueAfter int `json:"continueAfter,omitempty"`
	// Carried is the state of the run before, set by continue-as-new only.
	Carried *CarriedProxy `json:"carried,omitempty"`
}

// ProxyResult is what a Proxy workflow returns once all is deleted.
type ProxyResult struct {
	// Reason says what led to the delete: Requested, or Canceled.
	Reason string `json:"reason"`
	// Deleted are the instances that were deleted at the end.
	Deleted      []provider.InstanceID `json:"deleted,omitempty"`
	Replacements int                   `json:"replacements"`
}

// SetSpecInput replaces the spec.
type SetSpecInput struct {
	Spec ProxySpec `json:"spec"`
	// Labels replace metadata.labels when not nil.
	Labels map[string]string `json:"labels,omitempty"`
}

// SetSpecResult says which generation the spec became. Unchanged is true when
// neither spec nor labels differed. Labels alone make no new generation.
type SetSpecResult struct {
	Generation int64 `json:"generation"`
	Unchanged  bool  `json:"unchanged,omitempty"`
}

// ReplaceInput asks for a replacement of the instance.
type ReplaceInput struct {
	// Reason is free text for people.
	Reason string `json:"reason,omitempty"`
}

// ReplaceResult is the proven new instance.
type ReplaceResult struct {
	InstanceID provider.InstanceID `json:"instanceID"`
	IP         string              `json:"ip"`
	Port       int                 `json:"port"`
	// Joined: another caller's replacement was under way and served this call.
	Joined bool `json:"joined,omitempty"`
}

// DeleteInput asks for the end of the proxy.
type DeleteInput struct {
	Reason string `json:"reason,omitempty"`
}

// DeleteResult is the answer once nothing is left.
type DeleteResult struct {
	Deleted []provider.InstanceID `json:"deleted,omitempty"`
}

// ObservationKind is what a fleet watch saw.
type ObservationKind string

// The observations.
const (
	// ObservedMissing: the instance is in no listing.
	ObservedMissing ObservationKind = "Missing"
	// ObservedStopped: the listing says Stopped or Terminated.
	ObservedStopped ObservationKind = "Stopped"
	// ObservedMoved: the instance has another address.
	ObservedMoved ObservationKind = "Moved"
	// ObservedUnhealthy and ObservedHealthy: the probes crossed a threshold.
	ObservedUnhealthy ObservationKind = "Unhealthy"
	ObservedHealthy   ObservationKind = "Healthy"
	// ObservedExtra: an instance with this proxy's marks that the table does not
	// know; the proxy deletes it unless it is one of its own.
	ObservedExtra ObservationKind = "Extra"
	// ObservedReportWanted: the fleet table lost its row; report again.
	ObservedReportWanted ObservationKind = "ReportWanted"
)

// Observation is the payload of the signal "observed". A proxy verifies it with
// a call of its own before it acts.
type Observation struct {
	Kind ObservationKind `json:"kind"`
	// InstanceID is the instance that was observed. The proxy ignores
	// observations of instances that are no longer its own (but for Extra).
	InstanceID   provider.InstanceID `json:"instanceID,omitempty"`
	InstanceName string              `json:"instanceName,omitempty"`
	// Reason is the probe class or the raw state.
	Reason  string    `json:"reason,omitempty"`
	Message string    `json:"message,omitempty"`
	At      time.Time `json:"at,omitzero"`
}
