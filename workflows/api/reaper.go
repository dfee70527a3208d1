package api

import (
	"errors"
	"fmt"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// KindReap is the kind of the document that a Reaper workflow answers to the
// query "status".
const KindReap = "Reap"

// MinReapAge is the least age that a Reaper deletes from.
const MinReapAge = time.Minute

// ReaperInput deletes the instances of a provider that match a selector and are
// older than an age, whoever owns them. Only instances of this installation are
// looked at.
type ReaperInput struct {
	Provider string `json:"provider"`
	// Selector is by namespace, proxy or uid.
	Selector provider.Selector `json:"selector,omitzero"`
	// All is required for an empty selector: all instances of the installation.
	All bool `json:"all,omitempty"`
	// OlderThan is the age from which on instances are deleted, at least a minute.
	OlderThan Duration `json:"olderThan"`
	// DryRun deletes nothing and says what would be.
	DryRun bool `json:"dryRun,omitempty"`
}

// Validate checks the input and reports every problem: the field, the value and
// what is allowed.
func (in ReaperInput) Validate() error {
	var errs []error
	if in.Provider == "" {
		errs = append(errs, errors.New("provider: is required: the name of a configured provider (tollgate providers list)"))
	}
	if in.Selector.Installation != "" {
		errs = append(errs, fmt.Errorf("selector.installation: %q is not allowed: only instances of this installation are reaped", in.Selector.Installation))
	}
	switch empty := in.Selector == (provider.Selector{}); {
	case empty && !in.All:
		errs = append(errs, errors.New("selector: is required: namespace, proxy or uid; all instances of the installation need all: true"))
	case !empty && in.All:
		errs = append(errs, errors.New("all: is set beside a selector: use one of them"))
	}
	if d := in.OlderThan.Std(); d < MinReapAge {
		errs = append(errs, fmt.Errorf("olderThan: %s is out of range: use at least %s", d, MinReapAge))
	}
	return errors.Join(errs...)
}

// ReapOutcome is the one-word summary of a Reaper's run.
type ReapOutcome string

// The outcomes.
const (
	// ReapNothing: nothing is old enough.
	ReapNothing ReapOutcome = "Nothing"
	// ReapDone: everything old enough is being deleted.
	ReapDone ReapOutcome = "Reaped"
	// ReapIncomplete: some deletes failed; the next run tries again.
	ReapIncomplete ReapOutcome = "Incomplete"
	// ReapDryRun: something is old enough, and this was a dry run.
	ReapDryRun ReapOutcome = "DryRun"
	// ReapUnreadable: the provider could not be listed.
	ReapUnreadable ReapOutcome = "Unreadable"
	// ReapCanceled: a person canceled the run.
	ReapCanceled ReapOutcome = "Canceled"
)

// ReapOutcomes lists every outcome.
func ReapOutcomes() []ReapOutcome {
	return []ReapOutcome{ReapNothing, ReapDone, ReapIncomplete, ReapDryRun, ReapUnreadable, ReapCanceled}
}

// MaxReaped is how many instances a report lists.
const MaxReaped = 100

// ReaperResult is the report, and the result of the workflow.
type ReaperResult struct {
	Outcome ReapOutcome `json:"outcome,omitempty"`
	// Message says in a sentence what happened and, if anything, what to do.
	Message string `json:"message,omitempty"`
	// Matched is how many instances match the selector; UnknownAge how many of them
	// have no creation time, which are left alone.
	Matched    int `json:"matched"`
	UnknownAge int `json:"unknownAge,omitempty"`
	// Count is how many are old enough, and Failed how many of those could not be
	// deleted. Reaped are the first 100 of them, the oldest first.
	Count      int       `json:"count"`
	Failed     int       `json:"failed,omitempty"`
	Reaped     []Reaped  `json:"reaped,omitempty"`
	StartedAt  time.Time `json:"startedAt,omitzero"`
	FinishedAt time.Time `json:"finishedAt,omitzero"`
}

// ReapAction is what became of one instance.
type ReapAction string

// The actions.
const (
	// ReapActionDeleted: the instance is deleted, and its owner, if it runs, was
	// told to go.
	ReapActionDeleted ReapAction = "Deleted"
	// ReapActionWouldDelete: this was a dry run.
	ReapActionWouldDelete ReapAction = "WouldDelete"
	// ReapActionFailed: the delete failed.
	ReapActionFailed ReapAction = "Failed"
)

// Reaped is one instance that is old enough.
type Reaped struct {
	ID        provider.InstanceID `json:"id"`
	Name      string              `json:"name,omitempty"`
	Namespace string              `json:"namespace,omitempty"`
	Proxy     string              `json:"proxy,omitempty"`
	CreatedAt time.Time           `json:"createdAt,omitzero"`
	// Owned: the proxy runs, and is deleted with the instance.
	Owned   bool       `json:"owned,omitempty"`
	Action  ReapAction `json:"action,omitempty"`
	Message string     `json:"message,omitempty"`
}

// Reap is the answer of a Reaper workflow to the query "status".
type Reap struct {
	APIVersion string       `json:"apiVersion"`
	Kind       string       `json:"kind"`
	Metadata   Metadata     `json:"metadata"`
	Spec       ReaperInput  `json:"spec"`
	Status     ReaperResult `json:"status"`
}
