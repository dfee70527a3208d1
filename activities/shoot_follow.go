package activities

import (
	"context"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"golang.org/x/sync/errgroup"

	"github.com/tollgate-dev/tollgate/internal/registration"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// ShootFollower starts and tells the registrations of the shoots that a source
// reports. It implements Follower.
type ShootFollower struct {
	Temporal client.Client
	// Account is that of a source whose shoots are registered; ok is false for
	// others.
	Account func(source string) (account string, ok bool)
}

// tellAtOnce is how many registrations are told at once.
const tellAtOnce = 8

// Follow implements Follower: the beginning of a shoot starts its registration, its
// end tells it. What happens in between is no matter of registrations. An end that
// was concluded may be followed by one that somebody saw, with another time.
func (f *ShootFollower) Follow(ctx context.Context, name string, items []source.Item) error {
	account, ok := f.Account(name)
	if !ok {
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(tellAtOnce)
	for _, i := range items {
		e := i.Event
		if e.Data.Resource.Type != event.Shoot || e.Type != event.ShootCreate && e.Type != event.ShootDelete {
			continue
		}
		project, ok := registration.ProjectOf(account, e.Data.Account)
		if !ok || e.Data.Resource.Name == "" {
			continue // it is of no project of this Gardener
		}
		facts := api.ShootFacts{Source: name, Project: project, Name: e.Data.Resource.Name, UID: e.Data.Resource.ID}
		g.Go(func() error {
			if e.Type == event.ShootDelete {
				return TellShoot(ctx, f.Temporal, facts, workflows.SignalShootEnded, api.ShootEnd{At: e.Time, Concluded: e.Data.Derived != ""})
			}
			facts.ReportedAt = e.Time
			return TellShoot(ctx, f.Temporal, facts, workflows.SignalShootCreated, facts)
		})
	}
	return g.Wait()
}

// TellShoot signals a registration, which is started if it does not run. One that
// is over stays so: that is no error.
func TellShoot(ctx context.Context, c client.Client, f api.ShootFacts, signal string, arg any) error {
	o := ShootStart(f)
	_, err := c.SignalWithStartWorkflow(ctx, o.ID, signal, arg, o, workflows.TypeShootRegistration, api.ShootRegistrationInput{ShootFacts: f})
	if temporal.IsWorkflowExecutionAlreadyStartedError(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("tell %s: %w", o.ID, err)
	}
	return nil
}

// ShootStart are the options with which a registration is started. One that is
// complete is not started again.
func ShootStart(f api.ShootFacts) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{
		ID: workflows.ShootID(f.Project, f.Name, f.UID), TaskQueue: workflows.TaskQueue,
		WorkflowIDReusePolicy:                    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		StaticSummary:                            fmt.Sprintf("Attributes the tenant of shoot %s/%s", f.Project, f.Name),
		TypedSearchAttributes:                    temporal.NewSearchAttributes(workflows.AttrSource.ValueSet(f.Source), workflows.AttrNamespace.ValueSet(f.Project)),
	}
}
