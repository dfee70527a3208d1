package shoot_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/registration"
	"github.com/tollgate-dev/tollgate/internal/registration/registrationtest"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
	"github.com/tollgate-dev/tollgate/workflows/shoot"
)

// sentinel is the password of all credentials: it is nowhere to be seen.
const sentinel = "sentinel-7f3a"

var (
	start   = time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)
	created = start.Add(-2 * time.Hour)
	facts   = api.ShootFacts{Source: "garden", Project: "dev", Name: "web", UID: "uid-1"}
	binding = api.ShootBinding{Kind: api.CredentialsBinding, Name: "cloud"}
)

var (
	begun = api.ShootRegistrationInput{ShootFacts: facts}
	gone  = start.Add(30 * time.Minute)
)

// world is one registration with the real activities, a garden cluster in memory
// and the reference server.
type world struct {
	t         *testing.T
	env       *testsuite.TestWorkflowEnvironment
	garden    *registrationtest.Garden
	reporting *registrationtest.Reporting
	settings  activities.ShootSettings
	off       bool // the source has no registration
	upserts   []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, garden: &registrationtest.Garden{}, reporting: registrationtest.NewReporting(t)}
	w.settings = activities.ShootSettings{Account: "landscape", Reporting: w.reporting, Garden: w.garden,
		Settings: registration.Settings{CreatedBy: "tollgate", OpenStack: registration.OpenStackSettings{ByName: true}}}
	w.there("tenant-a")
	w.newRun()
	return w
}

// there makes the shoot and its credentials, of a tenant.
func (w *world) there(tenant string) {
	f := facts
	f.Namespace, f.CreatedAt, f.Infrastructure, f.Binding, f.CloudProfile = "garden-dev", created, "openstack", &binding, "os"
	w.garden.SetShoot(f)
	w.garden.SetBinding("garden-dev", binding, registration.CredentialsRef{Kind: registration.KindSecret, Namespace: "garden-shared", Name: "cloud"})
	w.tenant(tenant)
}

// tenant changes the tenant of the credentials.
func (w *world) tenant(name string) {
	w.garden.SetSecret("garden-shared", "cloud", name, map[string]string{"domainName": "Default", "tenantName": name, "username": "u", "password": sentinel})
}

// newRun makes a new environment: a run of the workflow, with all that is outside
// as it is.
func (w *world) newRun() {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	w.env = suite.NewTestWorkflowEnvironment()
	w.env.SetStartTime(start)
	w.env.RegisterActivity(&activities.Shoots{
		Settings: func(source string) (activities.ShootSettings, bool) { return w.settings, source == "garden" && !w.off },
		Resolver: &registration.Resolver{Identify: (&registration.Identities{}).Identify},
	})
	w.env.RegisterWorkflowWithOptions(shoot.Workflow, workflow.RegisterOptions{Name: workflows.TypeShootRegistration})
	w.env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: workflows.ShootID("dev", "web", "uid-1"), TaskQueue: workflows.TaskQueue})
	w.env.SetTestTimeout(time.Minute)
	w.env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: 20 * time.Second}) // a machine may be busy
	w.env.OnUpsertTypedSearchAttributes(mock.MatchedBy(func(a temporal.SearchAttributes) bool {
		if v, ok := a.GetKeyword(workflows.AttrPhase); ok {
			reason, _ := a.GetKeyword(workflows.AttrReason)
			now := strings.TrimSpace(v + " " + reason)
			if n := len(w.upserts); n == 0 || w.upserts[n-1] != now {
				w.upserts = append(w.upserts, now)
			}
		}
		return true
	})).Return(nil).Maybe()
}

func (w *world) at(after time.Duration, step func()) { w.env.RegisterDelayedCallback(step, after) }

func (w *world) signal(after time.Duration, name string, v any) {
	w.at(after, func() { w.env.SignalWorkflow(name, v) })
}

// run runs until the workflow ends, at most until stop.
func (w *world) run(in api.ShootRegistrationInput, stop time.Duration) error {
	w.at(stop, w.env.CancelWorkflow)
	w.env.ExecuteWorkflow(workflows.TypeShootRegistration, in)
	return w.env.GetWorkflowError()
}

// completes wants the run to be complete before stop.
func (w *world) completes(in api.ShootRegistrationInput, stop time.Duration) api.ShootRegistration {
	w.t.Helper()
	if err := w.run(in, stop); err != nil {
		w.t.Fatalf("ended with %v (%+v), want it complete", err, w.status().Status)
	}
	var out api.ShootRegistration
	if err := w.env.GetWorkflowResult(&out); err != nil {
		w.t.Fatal(err)
	}
	if out.Status.Phase != api.ShootEnded {
		w.t.Errorf("phase %s, want it ended", out.Status.Phase)
	}
	return out
}

// sleeps wants the run to go on until stop.
func (w *world) sleeps(in api.ShootRegistrationInput, stop time.Duration) api.ShootRegistration {
	w.t.Helper()
	if err := w.run(in, stop); !temporal.IsCanceledError(err) {
		w.t.Fatalf("ended with %v, want it to go on", err)
	}
	return w.status()
}

func (w *world) status() (s api.ShootRegistration) {
	w.t.Helper()
	v, err := w.env.QueryWorkflow(workflows.QueryStatus)
	if err == nil {
		err = v.Get(&s)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) wantRelations(want ...registrationtest.Relation) {
	w.t.Helper()
	if diff := cmp.Diff(w.reporting.All(w.t, "landscape/dev"), want); diff != "" {
		w.t.Errorf("relations (-got +want):\n%s", diff)
	}
}

func relation(tenant string, begin, end time.Time) registrationtest.Relation {
	return registrationtest.Relation{From: "gardener:landscape/dev", To: "openstack:Default/" + tenant, Shoot: "web", CreatedBy: "tollgate", Begin: begin, End: end}
}
