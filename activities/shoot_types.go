package activities

import (
	"context"
	"time"

	"github.com/tollgate-dev/tollgate/internal/registration"
	"github.com/tollgate-dev/tollgate/internal/reporting/api"
	objects "github.com/tollgate-dev/tollgate/workflows/api"
)

// ErrShootWaits: the step does not get on, for the reason that its caller knows
// already; it goes on trying.
const ErrShootWaits = "ShootWaits"

// ShootStep is what all steps of a registration get. A step whose trouble is Known
// already goes on trying and costs no history; one that meets other trouble
// returns it.
type ShootStep struct {
	Facts objects.ShootFacts `json:"facts"`
	// Known is the reason that the workflow shows; empty means that it shows none.
	Known string `json:"known,omitempty"`
	// Failures counts failures in a row before this call, for the backoff.
	Failures int `json:"failures,omitempty"`
}

// RecallShootResult is what the Reporting API knows of a shoot.
type RecallShootResult struct {
	ProjectID string                  `json:"projectID,omitempty"`
	Relations []objects.ShootRelation `json:"relations,omitempty"`
	Problem   *objects.ShootProblem   `json:"problem,omitempty"`
}

// ResolveTenantResult is the tenant of a shoot, or why nobody knows it.
type ResolveTenantResult struct {
	Facts    objects.ShootFacts    `json:"facts"`
	Presence objects.ShootPresence `json:"presence,omitempty"`
	Tenant   *objects.Tenant       `json:"tenant,omitempty"`
	By       string                `json:"by,omitempty"`
	Problem  *objects.ShootProblem `json:"problem,omitempty"`
}

// SettleRelationInput has one relation written as it is wanted.
type SettleRelationInput struct {
	ShootStep
	Relation objects.ShootRelation `json:"relation"`
}

// SettleRelationResult is the relation as it is.
type SettleRelationResult struct {
	ProjectID string                `json:"projectID,omitempty"`
	Relation  objects.ShootRelation `json:"relation"`
	Problem   *objects.ShootProblem `json:"problem,omitempty"`
}

// ShootSettings are how the shoots of one source are registered.
type ShootSettings struct {
	registration.Settings
	// Account is that of the source: the Gardener landscape.
	Account   string
	Reporting RelationWriter
	// Garden is nil when the garden cluster cannot be read.
	Garden registration.Garden
}

// RelationWriter is the part of the Reporting API's client that registrations
// need. Its errors have a fault.Class.
type RelationWriter interface {
	EnsureProject(ctx context.Context, p api.ProjectCreate) (api.Project, error)
	FindProject(ctx context.Context, platform, externalID string) (p api.Project, ok bool, err error)
	Project(ctx context.Context, id string) (api.Project, error)
	Projects(ctx context.Context, platform string) ([]api.Project, error)
	Relations(ctx context.Context, projectID string, p api.ListRelationsParams) ([]api.Relation, error)
	EnsureRelation(ctx context.Context, projectID string, r api.RelationCreate) (api.Relation, error)
	CloseRelation(ctx context.Context, projectID, relationID string, validTo time.Time) (api.Relation, error)
}
