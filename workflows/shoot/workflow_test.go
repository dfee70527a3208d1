package shoot_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/tollgate-dev/tollgate/internal/registration"
	"github.com/tollgate-dev/tollgate/internal/registration/registrationtest"
	reportingapi "github.com/tollgate-dev/tollgate/internal/reporting/api"
	"github.com/tollgate-dev/tollgate/internal/reporting/reportingserver"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
	"github.com/tollgate-dev/tollgate/workflows/shoot"
)

func TestALife(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.at(time.Minute, func() {
		if s := w.status(); s.Status.Phase != api.ShootRegistered || s.Spec.Infrastructure != "openstack" || s.Status.ResolvedBy != api.ResolvedBySecret {
			t.Errorf("status %+v", s)
		}
		w.wantRelations(relation("tenant-a", created, time.Time{}))
	})
	w.signal(31*time.Minute, workflows.SignalShootEnded, api.ShootEnd{At: gone})
	out := w.completes(begun, time.Hour)
	w.wantRelations(relation("tenant-a", created, gone))
	if c := out.Status.Conditions; len(c) != 2 || c[0].Status != api.True || c[1].Status != api.True {
		t.Errorf("conditions %+v", c)
	}
	if diff := cmp.Diff(w.upserts, []string{"Pending", "Registering", "Registered", "Ending", "Ended"}); diff != "" {
		t.Errorf("phases (-got +want):\n%s", diff)
	}
}

// The end is known before the beginning is; the shoot and its Secret are still, or
// no longer, there.
func TestEndBeforeCreate(t *testing.T) {
	t.Parallel()
	in := begun
	in.End = &api.ShootEnd{At: start.Add(-time.Minute)}
	t.Run("still there", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.completes(in, time.Minute)
		w.wantRelations(relation("tenant-a", created, in.End.At))
	})
	t.Run("the create comes later", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.garden.DeleteShoot("dev", "web")
		w.settings.Tenants = []registration.Mapping{{Project: "dev", Tenant: api.Tenant{Platform: "openstack", ExternalID: "Default/tenant-a"}}}
		w.at(10*time.Minute, func() {
			if s := w.status().Status; s.Phase != api.ShootUnresolved || s.Reason != api.ReasonCreationUnknown || !strings.Contains(s.Message, "--created") {
				t.Errorf("status %+v, want it to ask for the creation", s)
			}
			f := facts
			f.CreatedAt = created
			w.env.SignalWorkflow(workflows.SignalShootCreated, f)
		})
		w.completes(in, time.Hour)
		w.wantRelations(relation("tenant-a", created, in.End.At))
	})
}

// A start that is repeated after everything is over writes nothing more, even
// when the shoot and its Secret are gone: the Reporting API knows.
func TestCreatedAgainAfterTheEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.signal(5*time.Minute, workflows.SignalShootEnded, api.ShootEnd{At: gone.Add(-29 * time.Minute)})
	w.completes(begun, time.Hour)
	want := relation("tenant-a", created, gone.Add(-29*time.Minute))
	w.wantRelations(want)
	w.garden.DeleteShoot("dev", "web")
	for _, again := range []api.ShootRegistrationInput{begun, {ShootFacts: facts, End: &api.ShootEnd{At: gone}}} {
		w.newRun()
		w.completes(again, time.Hour)
		w.wantRelations(want)
	}
}

// A run that is started anew while the shoot lives goes on with the relation that
// there is.
func TestStartedAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sleeps(begun, time.Minute)
	w.newRun()
	w.signal(31*time.Minute, workflows.SignalShootEnded, api.ShootEnd{At: gone})
	w.completes(begun, time.Hour)
	w.wantRelations(relation("tenant-a", created, gone))
}

// Somebody wrote the relation by hand: it is taken over, not doubled.
func TestAnExistingRelationIsAdopted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var ids []string
	for _, p := range []reportingapi.ProjectCreate{{Platform: "gardener", ExternalID: "landscape/dev"}, {Platform: "openstack", ExternalID: "Default/tenant-a"}} {
		made, err := w.reporting.EnsureProject(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, made.ID)
	}
	later := created.Add(time.Hour)
	if _, err := w.reporting.EnsureRelation(t.Context(), ids[0], reportingapi.RelationCreate{TargetID: ids[1], RelationType: registration.RelationType,
		ValidFrom: &later, Metadata: &map[string]string{"shoot_name": "web", "created_by": "gardener-controller"}}); err != nil {
		t.Fatal(err)
	}
	w.signal(31*time.Minute, workflows.SignalShootEnded, api.ShootEnd{At: gone})
	out := w.completes(begun, time.Hour)
	want := relation("tenant-a", later, gone)
	want.CreatedBy = "gardener-controller"
	w.wantRelations(want)
	if !out.Status.Relations[0].Adopted {
		t.Errorf("relations %+v, want it adopted", out.Status.Relations)
	}
}

// Credentials of another tenant close one relation and open the next one.
func TestRotation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, second := start.Add(10*time.Minute), start.Add(20*time.Minute)
	w.signal(5*time.Minute, workflows.SignalShootRotated, api.ShootRotation{At: start}) // of the same tenant
	w.at(10*time.Minute, func() { w.tenant("tenant-b") })
	w.signal(11*time.Minute, workflows.SignalShootRotated, api.ShootRotation{At: first})
	w.at(20*time.Minute, func() { w.tenant("tenant-a") })
	w.signal(21*time.Minute, workflows.SignalShootRotated, api.ShootRotation{At: second})
	w.signal(31*time.Minute, workflows.SignalShootEnded, api.ShootEnd{At: gone})
	w.completes(begun, time.Hour)
	w.wantRelations(relation("tenant-a", created, first), relation("tenant-b", first, second), relation("tenant-a", second, gone))
}

// While the new tenant is not known the old relation stays, and people see why.
func TestRotationToNobodyKnowsWhat(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at := start.Add(10 * time.Minute)
	w.at(10*time.Minute, func() {
		w.garden.SetSecret("garden-shared", "cloud", "2", map[string]string{"applicationCredentialID": "x", "applicationCredentialSecret": sentinel})
		w.env.SignalWorkflow(workflows.SignalShootRotated, api.ShootRotation{At: at})
	})
	w.at(2*time.Hour, func() {
		if s := w.status().Status; s.Phase != api.ShootUnresolved || s.Reason != api.ReasonSecretIncomplete {
			t.Errorf("status %+v, want it unresolved", s)
		}
		w.wantRelations(relation("tenant-a", created, time.Time{}))
		w.tenant("tenant-b")
	})
	w.sleeps(begun, 3*time.Hour)
	w.wantRelations(relation("tenant-a", created, at), relation("tenant-b", at, time.Time{}))
}

// What nobody can resolve is visible, is tried again, and is resolved by an
// operator's word or map.
func TestUnresolvedIsVisibleAndTriedAgain(t *testing.T) {
	t.Parallel()
	hetzner := facts
	hetzner.Namespace, hetzner.CreatedAt, hetzner.Infrastructure, hetzner.Binding = "garden-dev", created, "hcloud", &binding
	want := registrationtest.Relation{From: "gardener:landscape/dev", To: "hetzner:acme", Shoot: "web", CreatedBy: "tollgate", Begin: created}
	for name, help := range map[string]func(w *world){
		"map": func(w *world) {
			w.settings.Tenants = []registration.Mapping{{Project: "dev", Tenant: api.Tenant{ExternalID: "acme"}}}
		},
		"word": func(w *world) {
			f := facts
			f.Tenant = &api.Tenant{Platform: "hetzner", ExternalID: "acme"}
			w.env.UpdateWorkflow(workflows.UpdateShootRegister, "1", &testsuite.TestUpdateCallback{
				OnAccept: func() {}, OnReject: func(err error) { t.Error(err) }, OnComplete: func(any, error) {}}, f)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.garden.SetShoot(hetzner)
			w.at(6*time.Hour, func() {
				s := w.status().Status
				if s.Phase != api.ShootUnresolved || s.Reason != api.ReasonNotMapped || !strings.Contains(s.Message, "registration.tenants") ||
					s.Conditions[0].Status != api.False {
					t.Errorf("status %+v, want it unresolved with a hint", s)
				}
				if diff := cmp.Diff(w.upserts, []string{"Pending", "Unresolved NotMapped"}); diff != "" {
					t.Errorf("phases (-got +want):\n%s", diff)
				}
				help(w)
			})
			w.sleeps(begun, 7*time.Hour)
			w.wantRelations(want)
		})
	}
}

// A Reporting API that is down for hours costs a few events, and nothing is lost.
func TestReportingDownForHours(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	down := func(*http.Request) reportingserver.Fault { return reportingserver.Fault{Status: 503} }
	w.reporting.SetFault(down)
	w.at(3*time.Hour, func() {
		if s := w.status().Status; s.Phase != api.ShootRegistering || s.Reason != api.ReasonReportingUnavailable {
			t.Errorf("status %+v, want it to wait", s)
		}
		w.reporting.SetFault(nil)
	})
	w.at(4*time.Hour, func() {
		w.wantRelations(relation("tenant-a", created, time.Time{}))
		w.reporting.SetFault(down)
		w.env.SignalWorkflow(workflows.SignalShootEnded, api.ShootEnd{At: gone})
	})
	w.at(9*time.Hour, func() {
		if s := w.status().Status; s.Phase != api.ShootEnding || s.Reason != api.ReasonReportingUnavailable {
			t.Errorf("status %+v, want it to wait for the end to be written", s)
		}
		w.reporting.SetFault(nil)
	})
	w.completes(begun, 10*time.Hour)
	w.wantRelations(relation("tenant-a", created, gone))
	want := []string{"Pending", "Registering ReportingUnavailable", "Pending", "Registering", "Registered", "Ending", "Ending ReportingUnavailable", "Ended"}
	if diff := cmp.Diff(w.upserts, want); diff != "" {
		t.Errorf("phases (-got +want):\n%s", diff)
	}
}

// Answers are lost after the work was done, each in its turn.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := 0
	w.reporting.SetFault(func(*http.Request) reportingserver.Fault {
		n++
		return reportingserver.Fault{LoseAnswer: n%2 == 1, CutAnswer: n%3 == 1}
	})
	w.signal(25*time.Hour, workflows.SignalShootEnded, api.ShootEnd{At: gone})
	w.at(70*time.Hour, func() { w.reporting.SetFault(nil) })
	w.completes(begun, 72*time.Hour)
	w.reporting.SetFault(nil)
	w.wantRelations(relation("tenant-a", created, gone))
}

// An end that was only concluded waits for somebody who saw it.
func TestConcludedEnd(t *testing.T) {
	t.Parallel()
	concluded := api.ShootEnd{At: gone, Concluded: true}
	t.Run("nobody saw it", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.signal(31*time.Minute, workflows.SignalShootEnded, concluded)
		w.at(40*time.Minute, func() {
			if s := w.status().Status; s.Phase != api.ShootRegistered || s.Reason != api.ReasonWaitingForEnd {
				t.Errorf("status %+v, want it to wait", s)
			}
			w.wantRelations(relation("tenant-a", created, time.Time{}))
		})
		w.completes(begun, 2*time.Hour)
		w.wantRelations(relation("tenant-a", created, gone))
	})
	t.Run("somebody did", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.signal(31*time.Minute, workflows.SignalShootEnded, concluded)
		seen := gone.Add(-7 * time.Minute)
		w.signal(50*time.Minute, workflows.SignalShootEnded, api.ShootEnd{At: seen})
		w.completes(begun, 2*time.Hour)
		w.wantRelations(relation("tenant-a", created, seen))
	})
}

// Somebody closed the relation while the shoot lives: what is missing is written.
// Without a garden cluster to ask, it counts as the end.
func TestClosedBySomebody(t *testing.T) {
	t.Parallel()
	for name, cluster := range map[string]bool{"the shoot is there": true, "nobody knows": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			closed := start.Add(10 * time.Minute)
			in := begun
			if !cluster {
				w.settings.Garden = nil
				in.CreatedAt, in.Tenant = created, &api.Tenant{Platform: "openstack", ExternalID: "Default/tenant-a"}
			}
			w.at(10*time.Minute, func() {
				s := w.status().Status
				if _, err := w.reporting.CloseRelation(t.Context(), s.ProjectID, s.Relations[0].ID, closed); err != nil {
					t.Error(err)
				}
				w.env.SignalWorkflow(workflows.SignalRetry, nil)
			})
			if !cluster {
				w.completes(in, time.Hour)
				w.wantRelations(relation("tenant-a", created, closed))
				return
			}
			w.sleeps(in, time.Hour)
			w.wantRelations(relation("tenant-a", created, closed), relation("tenant-a", closed, time.Time{}))
		})
	}
}

func TestUnconfiguredSourceAndDownCluster(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.off = true
	w.garden.SetDown(errors.New("connection refused"))
	w.at(time.Hour, func() {
		if s := w.status().Status; s.Reason != api.ReasonNotConfigured {
			t.Errorf("status %+v", s)
		}
		w.off = false
	})
	w.at(2*time.Hour, func() {
		if s := w.status().Status; s.Phase != api.ShootUnresolved || s.Reason != "Transient" {
			t.Errorf("status %+v, want the garden cluster away", s)
		}
		w.garden.SetDown(nil)
		w.env.SignalWorkflow(workflows.SignalRetry, nil) // no need to wait for the next try
	})
	w.at(2*time.Hour+time.Second, func() { w.wantRelations(relation("tenant-a", created, time.Time{})) })
	w.sleeps(begun, 3*time.Hour)
}

func TestInvalidInput(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*api.ShootRegistrationInput){
		"no source": func(in *api.ShootRegistrationInput) { in.Source = "" },
		"other id":  func(in *api.ShootRegistrationInput) { in.UID = "uid-2" },
		"a slash":   func(in *api.ShootRegistrationInput) { in.Name = "a/b" },
		"tenant":    func(in *api.ShootRegistrationInput) { in.Tenant = &api.Tenant{Platform: "OpenStack"} },
		"binding":   func(in *api.ShootRegistrationInput) { in.Binding = &api.ShootBinding{Kind: "Secret"} },
	} {
		w := newWorld(t)
		in := begun
		change(&in)
		var app *temporal.ApplicationError
		if err := w.run(in, time.Minute); !errors.As(err, &app) || app.Type() != shoot.ErrInvalidInput || !app.NonRetryable() {
			t.Errorf("%s: %v, want it refused for good", name, err)
		}
	}
}

func TestUpdatesAreValidated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := facts
	other.UID = "uid-2"
	wrong := facts
	wrong.CreatedAt = created.Add(time.Second)
	tenant := facts
	tenant.Tenant = &api.Tenant{Platform: "x"}
	for i, u := range []struct {
		name string
		arg  any
		want string
	}{
		{workflows.UpdateShootRegister, other, "uid-2"},
		{workflows.UpdateShootRegister, wrong, "contradicts"},
		{workflows.UpdateShootRegister, tenant, "externalID"},
		{workflows.UpdateShootEnd, api.ShootEnd{}, "is required"},
		{workflows.UpdateShootEnd, api.ShootEnd{At: start.Add(24 * time.Hour)}, "in the future"},
		{workflows.UpdateShootEnd, api.ShootEnd{At: created.Add(-time.Hour)}, "before the shoot was created"},
		{workflows.UpdateShootRegister, facts, ""},
		{workflows.UpdateShootEnd, api.ShootEnd{At: start}, ""},
	} {
		w.at(time.Duration(i+1)*time.Minute, func() {
			w.env.UpdateWorkflow(u.name, fmt.Sprint(i), &testsuite.TestUpdateCallback{
				OnAccept: func() {},
				OnReject: func(err error) {
					if u.want == "" || !strings.Contains(err.Error(), u.want) {
						t.Errorf("%s %+v: %v, want %q", u.name, u.arg, err, u.want)
					}
				},
				OnComplete: func(_ any, err error) {
					if u.want != "" || err != nil {
						t.Errorf("%s %+v: taken, want %q", u.name, u.arg, u.want)
					}
				},
			}, u.arg)
		})
	}
	w.completes(begun, time.Hour)
	w.wantRelations(relation("tenant-a", created, start))
}
