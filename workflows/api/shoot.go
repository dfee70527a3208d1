package api

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// KindShootRegistration is the kind of a ShootRegistration.
const KindShootRegistration = "ShootRegistration"

// ShootRegistrationInput starts a ShootRegistration workflow. The workflow id
// must be shoot/<project>/<name>/<uid>.
type ShootRegistrationInput struct {
	ShootFacts
	// End is set when the shoot is gone already.
	End *ShootEnd `json:"end,omitempty"`
	// ContinueAfter is the number of history events after which the workflow
	// continues as new; 0 leaves it to the server's advice. For tests.
	ContinueAfter int `json:"continueAfter,omitempty"`
	// Carried is the state of the run before, set by continue-as-new only.
	Carried *CarriedShoot `json:"carried,omitempty"`
}

// ShootFacts are what is known of a shoot. Only the first four are required; the
// others are found out while the shoot is there. It is the payload of the signal
// "created" and of the update "Register".
type ShootFacts struct {
	// Source is the configured event source of the Gardener landscape.
	Source string `json:"source"`
	// Project is the Gardener project; Name and UID are the shoot's.
	Project string `json:"project"`
	Name    string `json:"name"`
	UID     string `json:"uid"`
	// Namespace is that of the project in the garden cluster.
	Namespace string `json:"namespace,omitempty"`
	// CreatedAt is when the shoot was created: the relation begins then.
	CreatedAt time.Time `json:"createdAt,omitzero"`
	// ReportedAt is the time of the event that says that the shoot exists. It stands
	// in for CreatedAt when the shoot is gone.
	ReportedAt time.Time `json:"reportedAt,omitzero"`
	// Infrastructure is the shoot's provider type in Gardener's word, such as
	// openstack, hcloud, stackit or ionos.
	Infrastructure string `json:"infrastructure,omitempty"`
	// Binding is what names the shoot's credentials.
	Binding *ShootBinding `json:"binding,omitempty"`
	// CloudProfile is the name of the shoot's cloud profile.
	CloudProfile string `json:"cloudProfile,omitempty"`
	// Tenant, when set, is somebody's word on the tenant: nothing is resolved.
	Tenant *Tenant `json:"tenant,omitempty"`
}

// ShootBinding names the credentials of a shoot.
type ShootBinding struct {
	// Kind is CredentialsBinding or SecretBinding.
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// Tenant is an account, project or tenant at an infrastructure platform.
type Tenant struct {
	// Platform is the platform in the Reporting API's word, such as openstack or
	// hetzner.
	Platform string `json:"platform"`
	// ExternalID is what the platform's events have as their account.
	ExternalID string `json:"externalID"`
	// Name is for people.
	Name string `json:"name,omitempty"`
}

func (t Tenant) String() string { return t.Platform + "/" + t.ExternalID }

// Same reports whether both are the same tenant, whatever its name.
func (t Tenant) Same(o Tenant) bool { return t.Platform == o.Platform && t.ExternalID == o.ExternalID }

// ShootEnd says when a shoot was gone. It is the payload of the signal "ended"
// and of the update "End".
type ShootEnd struct {
	At time.Time `json:"at"`
	// Concluded: nobody saw the end, the shoot was missing in a listing. The
	// registration waits a while for somebody who did.
	Concluded bool `json:"concluded,omitempty"`
}

// ShootRotation says that the shoot's credentials may be of another tenant since
// a time. It is the payload of the signal "rotated"; the registration looks for
// itself.
type ShootRotation struct {
	At time.Time `json:"at"`
}

// CarriedShoot is the whole state of a ShootRegistration workflow.
type CarriedShoot struct {
	Facts     ShootFacts `json:"facts"`
	StartedAt time.Time  `json:"startedAt"`
	// Recalled: what the Reporting API knew of the shoot is in Status.Relations.
	Recalled bool `json:"recalled,omitempty"`
	// Presence is what Gardener said of the shoot last.
	Presence ShootPresence `json:"presence,omitempty"`
	// Look: the tenant is to be resolved and the relation to be checked; since
	// RotatedAt, when that is set.
	Look      bool      `json:"look,omitempty"`
	RotatedAt time.Time `json:"rotatedAt,omitzero"`
	// Check: the open relation is to be checked at the Reporting API.
	Check bool `json:"check,omitempty"`
	// Trouble is what keeps the step TroubleWith from getting on.
	Trouble     *ShootProblem `json:"trouble,omitempty"`
	TroubleWith string        `json:"troubleWith,omitempty"`
	// CloseBy is when a concluded end counts although nobody saw it.
	CloseBy time.Time   `json:"closeBy,omitzero"`
	Status  ShootStatus `json:"status"`
}

// ShootRegistration is the answer of a ShootRegistration workflow to the query
// "status", and its result.
type ShootRegistration struct {
	APIVersion string      `json:"apiVersion"`
	Kind       string      `json:"kind"`
	Metadata   Metadata    `json:"metadata"`
	Spec       ShootFacts  `json:"spec"`
	Status     ShootStatus `json:"status"`
}

// ShootPresence is whether a shoot is there.
type ShootPresence string

// The presences of a shoot; empty is unknown.
const (
	ShootPresent ShootPresence = "Present"
	ShootGone    ShootPresence = "Gone"
)

// ShootPhase is what a registration does.
type ShootPhase string

// The phases of a registration.
const (
	// ShootPending: it has just begun.
	ShootPending ShootPhase = "Pending"
	// ShootUnresolved: nobody knows which tenant the shoot runs in; Reason says
	// why. It is tried again.
	ShootUnresolved ShootPhase = "Unresolved"
	// ShootRegistering: a relation is being written or closed.
	ShootRegistering ShootPhase = "Registering"
	// ShootRegistered: the relation is there and open.
	ShootRegistered ShootPhase = "Registered"
	// ShootEnding: the shoot is gone, and the end is not written yet.
	ShootEnding ShootPhase = "Ending"
	// ShootEnded: everything is written and closed. The run is over.
	ShootEnded ShootPhase = "Ended"
)

// ShootPhases lists the phases.
func ShootPhases() []ShootPhase {
	return []ShootPhase{ShootPending, ShootUnresolved, ShootRegistering, ShootRegistered, ShootEnding, ShootEnded}
}

// Reasons of a registration beside the classes of errors.
const (
	// ReasonNotMapped: the platform does not say which account the credentials
	// are of; an operator has to.
	ReasonNotMapped = "NotMapped"
	// ReasonShootGone: the shoot was gone before its tenant was known.
	ReasonShootGone = "ShootGone"
	// ReasonBindingMissing and ReasonSecretMissing: the credentials are not there.
	ReasonBindingMissing = "BindingMissing"
	ReasonSecretMissing  = "SecretMissing"
	// ReasonSecretIncomplete: the Secret lacks what names the tenant.
	ReasonSecretIncomplete = "SecretIncomplete"
	// ReasonNoSecret: the credentials are no Secret, but a WorkloadIdentity.
	ReasonNoSecret = "NoSecret"
	// ReasonKeystoneNotAllowed: the Secret names a Keystone that no operator has
	// allowed.
	ReasonKeystoneNotAllowed = "KeystoneNotAllowed"
	// ReasonCredentialsRefused: Keystone does not accept the credentials.
	ReasonCredentialsRefused = "CredentialsRefused"
	// ReasonCreationUnknown: nobody has said when the shoot was created.
	ReasonCreationUnknown = "CreationUnknown"
	// ReasonNotConfigured: the source has no registration in the worker's
	// configuration.
	ReasonNotConfigured = "NotConfigured"
	// ReasonReportingUnavailable: the Reporting API does not answer.
	ReasonReportingUnavailable = "ReportingUnavailable"
	// ReasonReportingRefuses: the Reporting API refuses the call.
	ReasonReportingRefuses = "ReportingRefuses"
	// ReasonWaitingForEnd: the shoot is missing in Gardener and nobody saw its
	// end; it is waited for a while.
	ReasonWaitingForEnd = "WaitingForEnd"
)

// Condition types of a ShootRegistration.
const (
	// CondTenantResolved is True while the tenant is known.
	CondTenantResolved = "TenantResolved"
	// CondRegistered is True while every relation is written as it is wanted.
	CondRegistered = "Registered"
)

// MaxRelations is the most closed relations of a shoot that are kept one by one.
const MaxRelations = 20

// ShootStatus is what is.
type ShootStatus struct {
	Phase  ShootPhase `json:"phase"`
	Reason string     `json:"reason,omitempty"`
	// Message explains the reason to people.
	Message string `json:"message,omitempty"`
	// Since is when Phase last changed.
	Since time.Time `json:"since,omitzero"`
	// Tenant is the tenant that was resolved last, and ResolvedBy how: see the
	// constants.
	Tenant     *Tenant `json:"tenant,omitempty"`
	ResolvedBy string  `json:"resolvedBy,omitempty"`
	// ProjectID is the Gardener project's id at the Reporting API.
	ProjectID string `json:"projectID,omitempty"`
	// Relations are those of the shoot, in the order of time; only the last one
	// can be open. Dropped counts closed ones that there was no room for.
	Relations []ShootRelation `json:"relations,omitempty"`
	Dropped   int             `json:"dropped,omitempty"`
	// End is the end of the shoot, once it is known.
	End *ShootEnd `json:"end,omitempty"`
	// Failures counts failures in a row.
	Failures   int         `json:"failures,omitempty"`
	Conditions []Condition `json:"conditions,omitempty"`
}

// How a tenant was resolved.
const (
	ResolvedByInput    = "input"
	ResolvedByMap      = "map"
	ResolvedBySecret   = "secret"
	ResolvedByKeystone = "keystone"
	ResolvedByRecall   = "reporting"
)

// ShootProblem is why a step does not get on.
type ShootProblem struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// ShootRelation is the attribution of a tenant to a project for some time.
type ShootRelation struct {
	Tenant    Tenant    `json:"tenant"`
	ValidFrom time.Time `json:"validFrom"`
	// ValidTo is zero while the relation is to stay open.
	ValidTo time.Time `json:"validTo,omitzero"`
	// ID is its id at the Reporting API; empty until it is written.
	ID string `json:"id,omitempty"`
	// Closed: ValidTo is written too.
	Closed bool `json:"closed,omitempty"`
	// Adopted: it was there already, without our mark.
	Adopted bool `json:"adopted,omitempty"`
}

// Settled reports whether the Reporting API has it as it is wanted.
func (r ShootRelation) Settled() bool { return r.ID != "" && (r.ValidTo.IsZero() || r.Closed) }

// Validate checks what can be told from the facts alone. All problems are
// reported.
func (f ShootFacts) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if f.Source == "" {
		bad("source: is required: the name of the configured source of the shoot's Gardener landscape")
	} else if err := provider.ValidateName("source", f.Source); err != nil {
		errs = append(errs, err)
	}
	for _, p := range []struct{ field, value string }{{"project", f.Project}, {"name", f.Name}, {"uid", f.UID}} {
		switch {
		case p.value == "":
			bad("%s: is required", p.field)
		case len(p.value) > 253 || strings.ContainsFunc(p.value, func(r rune) bool { return r == '/' || unicode.IsSpace(r) || unicode.IsControl(r) }):
			bad("%s: %q is no name: want at most 253 characters without spaces and slashes", p.field, p.value)
		}
	}
	if b := f.Binding; b != nil && b.Kind != CredentialsBinding && b.Kind != SecretBinding {
		bad("binding.kind: %q is unknown: want %s or %s", b.Kind, CredentialsBinding, SecretBinding)
	}
	if f.Tenant != nil {
		errs = append(errs, f.Tenant.Validate("tenant"))
	}
	return errors.Join(errs...)
}

// Kinds of a ShootBinding.
const (
	CredentialsBinding = "CredentialsBinding"
	SecretBinding      = "SecretBinding"
)

// Validate checks a tenant that somebody gives.
func (t Tenant) Validate(field string) error {
	var errs []error
	word := t.Platform != "" && !strings.ContainsFunc(t.Platform, func(r rune) bool { return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_') })
	if !word || t.Platform[0] < 'a' {
		errs = append(errs, fmt.Errorf("%s.platform: %q is no platform: use one such as openstack, hetzner, stackit or ionos", field, t.Platform))
	}
	if t.ExternalID == "" || len(t.ExternalID) > 512 || strings.ContainsFunc(t.ExternalID, unicode.IsControl) {
		errs = append(errs, fmt.Errorf("%s.externalID: %q is no account: want 1 to 512 bytes without control characters", field, t.ExternalID))
	}
	return errors.Join(errs...)
}

// Merge takes over what o knows, which is newer. Who the shoot is and when it was
// created never changes once it is known.
func (f ShootFacts) Merge(o ShootFacts) ShootFacts {
	if f.CreatedAt.IsZero() {
		f.CreatedAt = o.CreatedAt.UTC()
	}
	if f.ReportedAt.IsZero() {
		f.ReportedAt = o.ReportedAt.UTC()
	}
	if o.Namespace != "" {
		f.Namespace = o.Namespace
	}
	if o.Infrastructure != "" {
		f.Infrastructure = o.Infrastructure
	}
	if o.CloudProfile != "" {
		f.CloudProfile = o.CloudProfile
	}
	if o.Binding != nil {
		f.Binding = o.Binding
	}
	if o.Tenant != nil {
		f.Tenant = o.Tenant
	}
	return f
}
