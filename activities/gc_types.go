package activities

import "github.com/tollgate-dev/tollgate/workflows/api"

// FindOrphansInput looks at everything of this installation at the provider and
// at the owner of each thing.
type FindOrphansInput struct {
	Provider string       `json:"provider"`
	MinAge   api.Duration `json:"minAge"`
	// Seen are the orphans of the first sighting; empty at the first.
	Seen []OrphanRef `json:"seen,omitempty"`
}

// OrphanRef identifies an orphan between two sightings.
type OrphanRef struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
	UID  string `json:"uid"`
}

// FindOrphansResult is one sighting.
type FindOrphansResult struct {
	Instances  int `json:"instances"`
	Companions int `json:"companions,omitempty"`
	// Verdicts counts what was listed by the reason of the verdict.
	Verdicts map[string]int `json:"verdicts,omitempty"`
	// Count is the number of orphans that this sighting adds to, or confirms;
	// Orphans are at most api.MaxOrphanCap of them.
	Count   int          `json:"count"`
	Orphans []api.Orphan `json:"orphans,omitempty"`
	// Unreadable, when not empty, says what could not be read. Then nothing may
	// be deleted.
	Unreadable string `json:"unreadable,omitempty"`
}

// DeleteOrphanInput deletes one confirmed orphan after a last look at it and at
// its owner.
type DeleteOrphanInput struct {
	Provider string       `json:"provider"`
	MinAge   api.Duration `json:"minAge"`
	Orphan   api.Orphan   `json:"orphan"`
}

// DeleteOrphanResult says what became of it.
type DeleteOrphanResult struct {
	Action  api.OrphanAction `json:"action"`
	Message string           `json:"message,omitempty"`
}

// SweepDoneInput records the end of a sweep in the metrics and the log.
type SweepDoneInput struct {
	Provider string           `json:"provider"`
	Outcome  api.SweepOutcome `json:"outcome"`
	Orphans  int              `json:"orphans"`
	Message  string           `json:"message,omitempty"`
}
