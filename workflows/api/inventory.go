package api

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tollgate-dev/tollgate/internal/reporting/event"
)

// KindInventory is the kind of an Inventory.
const KindInventory = "Inventory"

// Defaults and bounds of an InventoryInput.
const (
	DefaultInventoryInterval     = 15 * time.Minute
	DefaultInventoryConfirmAfter = 2 * time.Minute
	DefaultInventoryMaxEnds      = 20
	// MaxDifferences is the most differences that a report lists one by one; all are
	// counted.
	MaxDifferences = 250
)

// InventoryInput starts one inventory of a source.
type InventoryInput struct {
	Source string `json:"source"`
	// Sink is the configured name of where events go. Empty means that of the
	// source's configuration.
	Sink string `json:"sink,omitempty"`
	// DryRun does everything but deliver.
	DryRun bool `json:"dryRun,omitempty"`
	// ConfirmAfter is the time between the two looks. It has to be longer than the
	// interval at which the source is read: nothing is concluded that the feed may
	// still tell. 0 means 2 minutes.
	ConfirmAfter Duration `json:"confirmAfter,omitempty"`
	// MaxEnds: when more resources of a stream would end, and more than half of
	// them, none does. 0 means 20.
	MaxEnds int `json:"maxEnds,omitempty"`
}

// WithDefaults fills the fields that were left out.
func (in InventoryInput) WithDefaults() InventoryInput {
	if in.ConfirmAfter == 0 {
		in.ConfirmAfter = Duration(DefaultInventoryConfirmAfter)
	}
	if in.MaxEnds == 0 {
		in.MaxEnds = DefaultInventoryMaxEnds
	}
	return in
}

// Validate checks the input and reports every problem: the field, the value and
// what is allowed.
func (in InventoryInput) Validate() error {
	var errs []error
	if in.Source == "" {
		errs = append(errs, errors.New("source: is required: the name of a configured source (tollgate cursor list)"))
	}
	if d := in.ConfirmAfter.Std(); d < 0 || d > time.Hour {
		errs = append(errs, fmt.Errorf("confirmAfter: %s is out of range: use up to 1h, or leave it out for %s", d, DefaultInventoryConfirmAfter))
	}
	if in.MaxEnds < 0 {
		errs = append(errs, fmt.Errorf("maxEnds: %d is negative: use 1 or more, or leave it out for %d", in.MaxEnds, DefaultInventoryMaxEnds))
	}
	return errors.Join(errs...)
}

// InventoryOutcome is the one-word summary of an inventory.
type InventoryOutcome string

// The outcomes.
const (
	// InventoryClean: everything agrees.
	InventoryClean InventoryOutcome = "Clean"
	// InventoryRepaired: whatever events can repair is repaired, or will be told by
	// the feed.
	InventoryRepaired InventoryOutcome = "Repaired"
	// InventoryDiffers: there are differences that no event can repair.
	InventoryDiffers InventoryOutcome = "Differs"
	// InventoryDryRun: there are differences and this was a dry run.
	InventoryDryRun InventoryOutcome = "DryRun"
	// InventoryHeld: suspiciously much would have ended. A person has to look.
	InventoryHeld InventoryOutcome = "Held"
	// InventoryIncomplete: some streams could not be compared, or some repairs were
	// not delivered; the next inventory tries again.
	InventoryIncomplete InventoryOutcome = "Incomplete"
	// InventoryUnreadable: nothing could be compared.
	InventoryUnreadable InventoryOutcome = "Unreadable"
	// InventoryCanceled: a person canceled it.
	InventoryCanceled InventoryOutcome = "Canceled"
)

// InventoryOutcomes lists every outcome.
func InventoryOutcomes() []InventoryOutcome {
	return []InventoryOutcome{InventoryClean, InventoryRepaired, InventoryDiffers, InventoryDryRun, InventoryHeld,
		InventoryIncomplete, InventoryUnreadable, InventoryCanceled}
}

// InventoryResult is the report of an inventory, and the result of its workflow.
type InventoryResult struct {
	Outcome InventoryOutcome `json:"outcome,omitempty"`
	// Message says in a sentence what happened and, if anything, what to do.
	Message string            `json:"message,omitempty"`
	Streams []InventoryStream `json:"streams,omitempty"`
	// Count is the number of differences; Differences are the first 250 of them.
	Count       int          `json:"count"`
	Differences []Difference `json:"differences,omitempty"`
	// Delivered and Duplicates are the repairs that the sink took, and those that it
	// had already.
	Delivered  int       `json:"delivered"`
	Duplicates int       `json:"duplicates,omitempty"`
	StartedAt  time.Time `json:"startedAt,omitzero"`
	FinishedAt time.Time `json:"finishedAt,omitzero"`
}

// InventoryStream is what was compared of a stream.
type InventoryStream struct {
	Stream string `json:"stream"`
	// Error says why the stream was not compared, Note what was left out.
	Error string `json:"error,omitempty"`
	Note  string `json:"note,omitempty"`
	// Listed, Reported and Owned are how many resources exist, are open by what was
	// reported, and are this installation's own; Foreign belong to other
	// installations of Tollgate.
	Listed   int `json:"listed"`
	Reported int `json:"reported"`
	Owned    int `json:"owned,omitempty"`
	Foreign  int `json:"foreign,omitempty"`
	// ReadUpTo is how far the feed had been read.
	ReadUpTo time.Time `json:"readUpTo,omitzero"`
	// ListedAt is when the first listing of the inventory began.
	ListedAt time.Time `json:"listedAt,omitzero"`
	// Found counts the differences by kind, Repaired those that are repaired.
	Found    map[DifferenceKind]int `json:"found,omitempty"`
	Repaired map[DifferenceKind]int `json:"repaired,omitempty"`
}

// Text is what was compared of the stream, in words.
func (s InventoryStream) Text() string {
	if s.Error != "" {
		return fmt.Sprintf("%s: not compared: %s", s.Stream, s.Error)
	}
	text := fmt.Sprintf("%s: %d listed, %d reported", s.Stream, s.Listed, s.Reported)
	if s.Owned+s.Foreign > 0 {
		text += fmt.Sprintf(", %d ours, %d of other installations", s.Owned, s.Foreign)
	}
	for _, k := range slices.Sorted(maps.Keys(s.Found)) {
		text += fmt.Sprintf(", %d %s (%d repaired)", s.Found[k], k, s.Repaired[k])
	}
	if s.Note != "" {
		text += "; " + s.Note
	}
	return text
}

// DifferenceKind says in what two views of the world differ.
type DifferenceKind string

// The kinds of differences. Others come from what a source compares besides.
const (
	// MissingCreate: it exists and was never reported.
	MissingCreate DifferenceKind = "missing_create"
	// MissingDelete: it was reported and does not exist.
	MissingDelete DifferenceKind = "missing_delete"
	// SizeDiffers, StateDiffers: it was reported with another one.
	SizeDiffers  DifferenceKind = "size_differs"
	StateDiffers DifferenceKind = "state_differs"
	// UnknownSizeKnown: a size that nobody knew can be seen.
	UnknownSizeKnown DifferenceKind = "unknown_size_now_known"
	// EndedButListed: its end was reported and it exists.
	EndedButListed DifferenceKind = "ended_but_listed"
	// UnreadableEntry: the listing has something that cannot be told apart.
	UnreadableEntry DifferenceKind = "unreadable_entry"
	// OursNotListed: a proxy of this installation runs on an instance that does not
	// exist.
	OursNotListed DifferenceKind = "ours_not_listed"
	// OursWithoutOwner: it carries this installation's marks and no proxy has it.
	OursWithoutOwner DifferenceKind = "ours_without_owner"
	// OursTwice: two instances of one name carry the marks of one proxy.
	OursTwice DifferenceKind = "ours_twice"
)

// DifferenceAction is what was done about a difference.
type DifferenceAction string

// The actions.
const (
	// DifferenceRepaired: the sink has the event.
	DifferenceRepaired DifferenceAction = "Repaired"
	// DifferenceKnown: the sink had the event already.
	DifferenceKnown DifferenceAction = "Known"
	// DifferenceWouldRepair: this was a dry run.
	DifferenceWouldRepair DifferenceAction = "WouldRepair"
	// DifferenceWaits: the feed may still tell it.
	DifferenceWaits DifferenceAction = "Waits"
	// DifferenceHeld: it is one of suspiciously many.
	DifferenceHeld DifferenceAction = "Held"
	// DifferenceNone: no event can repair it, or somebody else does.
	DifferenceNone DifferenceAction = "None"
	// DifferenceRefused: the sink refuses the event.
	DifferenceRefused DifferenceAction = "Refused"
	// DifferenceFailed: the event was not delivered; the next inventory tries again.
	DifferenceFailed DifferenceAction = "Failed"
)

// Difference is one thing about which two views of the world differ.
type Difference struct {
	Stream   string         `json:"stream"`
	Kind     DifferenceKind `json:"kind"`
	Account  string         `json:"account,omitempty"`
	Resource event.Resource `json:"resource"`
	// Reported and Listed are what differs, in words.
	Reported string `json:"reported,omitempty"`
	Listed   string `json:"listed,omitempty"`
	// FirstSeen is when it was first seen, by this and the inventories before.
	FirstSeen time.Time `json:"firstSeen,omitzero"`
	// EventID, EventTime and NotBefore are those of the event that repairs it.
	EventID   string           `json:"eventID,omitempty"`
	EventTime time.Time        `json:"eventTime,omitzero"`
	NotBefore *time.Time       `json:"notBefore,omitempty"`
	Action    DifferenceAction `json:"action,omitempty"`
	// Message says why.
	Message string `json:"message,omitempty"`
}

// Open reports whether the difference is still there after the inventory.
func (d Difference) Open() bool {
	return d.Action != DifferenceRepaired && d.Action != DifferenceKnown
}

// Inventory is the answer of an Inventory workflow to the query "status".
type Inventory struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Metadata   Metadata       `json:"metadata"`
	Spec       InventoryInput `json:"spec"`
	// Step is what the inventory does just now: Looking, Waiting, Repairing or Done.
	Step   string          `json:"step"`
	Status InventoryResult `json:"status"`
}

// Steps of an Inventory.
const (
	InventoryLooking   = "Looking"
	InventoryWaiting   = "Waiting"
	InventoryRepairing = "Repairing"
	InventoryDone      = "Done"
)
