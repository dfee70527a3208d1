package api

import (
	"errors"
	"fmt"
	"time"
)

// Defaults of an OrphanGCInput.
const (
	DefaultOrphanMinAge       = 10 * time.Minute
	DefaultOrphanConfirmAfter = 30 * time.Second
	DefaultOrphanCap          = 10
	// MaxOrphanCap is the largest cap; whoever needs more sweeps more often.
	MaxOrphanCap = 500
)

// OrphanGCInput starts one sweep of a provider.
type OrphanGCInput struct {
	Provider string `json:"provider"`
	// DryRun does everything but delete.
	DryRun bool `json:"dryRun,omitempty"`
	// MinAge: nothing younger is touched. 0 means 10 minutes.
	MinAge Duration `json:"minAge,omitempty"`
	// ConfirmAfter is the time between the two sightings. 0 means 30 seconds.
	ConfirmAfter Duration `json:"confirmAfter,omitempty"`
	// Cap: with more orphans than this, none is deleted. 0 means 10.
	Cap int `json:"cap,omitempty"`
}

// WithDefaults fills the fields that were left out.
func (in OrphanGCInput) WithDefaults() OrphanGCInput {
	if in.MinAge == 0 {
		in.MinAge = Duration(DefaultOrphanMinAge)
	}
	if in.ConfirmAfter == 0 {
		in.ConfirmAfter = Duration(DefaultOrphanConfirmAfter)
	}
	if in.Cap == 0 {
		in.Cap = DefaultOrphanCap
	}
	return in
}

// Validate checks the input and reports every problem: the field, the value and
// what is allowed.
func (in OrphanGCInput) Validate() error {
	var errs []error
	if in.Provider == "" {
		errs = append(errs, errors.New("provider: is required: the name of a configured provider (tollgate providers list)"))
	}
	if d := in.MinAge.Std(); d < 0 || d > 30*24*time.Hour {
		errs = append(errs, fmt.Errorf("minAge: %s is out of range: use up to 720h, or leave it out for %s", d, DefaultOrphanMinAge))
	}
	if d := in.ConfirmAfter.Std(); d < 0 || d > time.Hour {
		errs = append(errs, fmt.Errorf("confirmAfter: %s is out of range: use up to 1h, or leave it out for %s", d, DefaultOrphanConfirmAfter))
	}
	if in.Cap < 0 || in.Cap > MaxOrphanCap {
		errs = append(errs, fmt.Errorf("cap: %d is out of range: use 1 to %d, or leave it out for %d", in.Cap, MaxOrphanCap, DefaultOrphanCap))
	}
	return errors.Join(errs...)
}

// SweepOutcome is the one-word summary of a sweep.
type SweepOutcome string

// The outcomes. Nothing is deleted unless the outcome is Deleted or Incomplete.
const (
	// SweepClean: nothing to do.
	SweepClean SweepOutcome = "Clean"
	// SweepDeleted: every orphan is deleted, or was gone or owned again by then.
	SweepDeleted SweepOutcome = "Deleted"
	// SweepIncomplete: some deletes failed; the next sweep tries again.
	SweepIncomplete SweepOutcome = "Incomplete"
	// SweepDryRun: there are orphans and this was a dry run.
	SweepDryRun SweepOutcome = "DryRun"
	// SweepOverCap: there are more orphans than the cap allows. A person has to
	// look, and to raise the cap for a sweep if they are orphans indeed.
	SweepOverCap SweepOutcome = "OverCap"
	// SweepUnreadable: the provider or an owner could not be read.
	SweepUnreadable SweepOutcome = "Unreadable"
	// SweepCanceled: a person canceled the sweep.
	SweepCanceled SweepOutcome = "Canceled"
)

// SweepOutcomes lists every outcome.
func SweepOutcomes() []SweepOutcome {
	return []SweepOutcome{SweepClean, SweepDeleted, SweepIncomplete, SweepDryRun, SweepOverCap, SweepUnreadable, SweepCanceled}
}

// OrphanGCResult is the report of a sweep, and the result of its workflow.
type OrphanGCResult struct {
	Outcome SweepOutcome `json:"outcome,omitempty"`
	// Message says in a sentence what happened and, if anything, what to do.
	Message string `json:"message,omitempty"`
	// Instances and Companions are how many of each the latest listing had.
	Instances  int `json:"instances"`
	Companions int `json:"companions,omitempty"`
	// Verdicts counts the instances and companions of the latest listing by the
	// reason of the verdict.
	Verdicts map[string]int `json:"verdicts,omitempty"`
	// OrphanCount is the number of orphans; Orphans are the first 100 of them.
	OrphanCount int       `json:"orphanCount"`
	Orphans     []Orphan  `json:"orphans,omitempty"`
	StartedAt   time.Time `json:"startedAt,omitzero"`
	FinishedAt  time.Time `json:"finishedAt,omitzero"`
}

// Orphan is one thing at the provider that nobody owns.
type Orphan struct {
	// Kind is "instance", or the kind of a companion.
	Kind string `json:"kind"`
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
	// UID, Namespace and Proxy are its marks: whose it was.
	UID       string    `json:"uid,omitempty"`
	Namespace string    `json:"namespace,omitempty"`
	Proxy     string    `json:"proxy,omitempty"`
	CreatedAt time.Time `json:"createdAt,omitzero"`
	// Reason is why nobody owns it: OwnerNotFound, OwnerClosed or OwnerReplaced.
	Reason string `json:"reason"`
	// Action is what became of it, Message why.
	Action  OrphanAction `json:"action,omitempty"`
	Message string       `json:"message,omitempty"`
}

// KindInstance is the Kind of an Orphan that is an instance.
const KindInstance = "instance"

// OrphanAction is what a sweep did with an orphan.
type OrphanAction string

// The actions.
const (
	// OrphanDeleted: the provider says that it is gone.
	OrphanDeleted OrphanAction = "Deleted"
	// OrphanWouldDelete: this was a dry run.
	OrphanWouldDelete OrphanAction = "WouldDelete"
	// OrphanGone: it was gone by itself.
	OrphanGone OrphanAction = "Gone"
	// OrphanKept: the last look before the delete found a reason against it.
	OrphanKept OrphanAction = "Kept"
	// OrphanFailed: the delete failed.
	OrphanFailed OrphanAction = "Failed"
)

// OrphanSweep is the answer of an OrphanGC workflow to the query "status".
type OrphanSweep struct {
	APIVersion string        `json:"apiVersion"`
	Kind       string        `json:"kind"`
	Metadata   Metadata      `json:"metadata"`
	Spec       OrphanGCInput `json:"spec"`
	// Step is what the sweep does just now: Listing, Waiting, Confirming,
	// Deleting or Done.
	Step   string         `json:"step"`
	Status OrphanGCResult `json:"status"`
}

// Steps of an OrphanSweep.
const (
	SweepListing    = "Listing"
	SweepWaiting    = "Waiting"
	SweepConfirming = "Confirming"
	SweepDeleting   = "Deleting"
	SweepDone       = "Done"
)
