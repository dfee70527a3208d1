package api

import (
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// CarriedProxy is the whole state of a Proxy workflow, and what it hands to its
// next run at a continue-as-new. All times are absolute.
type CarriedProxy struct {
	Spec       ProxySpec         `json:"spec"`
	Labels     map[string]string `json:"labels,omitempty"`
	CreatedAt  time.Time         `json:"createdAt"`
	Generation int64             `json:"generation"`
	// ObservedGeneration is the generation that SpecHash was resolved for.
	ObservedGeneration int64  `json:"observedGeneration,omitempty"`
	SpecHash           string `json:"specHash,omitempty"`

	// What the provider's profile said when the spec was resolved.
	ReadyPoll Duration `json:"readyPoll,omitempty"`
	GonePoll  Duration `json:"gonePoll,omitempty"`
	Settle    Duration `json:"settle,omitempty"`
	Surge     bool     `json:"surge,omitempty"`

	// NextIncarnation numbers the next instance.
	NextIncarnation int `json:"nextIncarnation"`
	// Current serves, or is on its way to. Next is its successor while
	// CreateBeforeDelete is at work. Retiring are to be deleted.
	Current  *CarriedInstance  `json:"current,omitempty"`
	Next     *CarriedInstance  `json:"next,omitempty"`
	Retiring []CarriedInstance `json:"retiring,omitempty"`

	// ReplaceReason is why Current has to go; empty when it has not.
	ReplaceReason  string `json:"replaceReason,omitempty"`
	ReplaceMessage string `json:"replaceMessage,omitempty"`
	// Proofs counts the instances that came to serve.
	Proofs int `json:"proofs,omitempty"`
	// Failures counts instances in a row that never served, or not for long.
	Failures        int    `json:"failures,omitempty"`
	Replacements    int    `json:"replacements,omitempty"`
	LastReplacement string `json:"lastReplacement,omitempty"`

	// Conflicts counts creates in a row whose name was taken.
	Conflicts int `json:"conflicts,omitempty"`

	// Latched: no create is tried until something changes.
	Latched bool `json:"latched,omitempty"`
	// RetryAt: after a failure, no create and no delete is tried before.
	RetryAt time.Time `json:"retryAt,omitzero"`
	// CreateAt: the pause between instances that fail one after another.
	CreateAt time.Time `json:"createAt,omitzero"`
	// DeleteReason is set once the proxy has to go.
	DeleteReason string `json:"deleteReason,omitempty"`

	Conditions   []Condition           `json:"conditions,omitempty"`
	Observations []Observation         `json:"observations,omitempty"`
	Deleted      []provider.InstanceID `json:"deleted,omitempty"`

	// Answers are the latest updates by id and what they were answered: the
	// server knows an update's id within one run only.
	Answers []CarriedAnswer `json:"answers,omitempty"`

	// Reported is the row that the fleet has, Seq included.
	Reported FleetRow `json:"reported,omitzero"`
	// ContinueAfter is ProxyInput.ContinueAfter.
	ContinueAfter int `json:"continueAfter,omitempty"`
}

// CarriedAnswer is one update that was answered.
type CarriedAnswer struct {
	ID      string         `json:"id"`
	SetSpec *SetSpecResult `json:"setSpec,omitempty"`
	Replace *ReplaceResult `json:"replace,omitempty"`
}

// CarriedInstance is one instance in a Proxy workflow's state.
type CarriedInstance struct {
	Name        string              `json:"name"`
	Incarnation int                 `json:"incarnation"`
	ID          provider.InstanceID `json:"id,omitempty"`
	SpecHash    string              `json:"specHash,omitempty"`
	// Tried: a create was sent and its outcome is unknown while ID is empty.
	Tried bool `json:"tried,omitempty"`
	// MissedAt is when a retiring instance of unknown id was not found; it is
	// looked for once more when the provider has had time to settle.
	MissedAt time.Time `json:"missedAt,omitzero"`
	IP       string    `json:"ip,omitempty"`
	Port     int       `json:"port,omitempty"`
	// Price is what it costs per hour, as of its creation; nil when unknown.
	Price *provider.MicroEUR `json:"price,omitempty"`
	// Proven: a CONNECT went through.
	Proven   bool      `json:"proven,omitempty"`
	ProvenAt time.Time `json:"provenAt,omitzero"`
	// NeverHealthyAt is the deadline for the proof.
	NeverHealthyAt time.Time `json:"neverHealthyAt,omitzero"`
}
