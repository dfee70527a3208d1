//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/registration"
	"github.com/tollgate-dev/tollgate/internal/reporting"
	reportingapi "github.com/tollgate-dev/tollgate/internal/reporting/api"
	"github.com/tollgate-dev/tollgate/internal/reporting/reportingserver"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// nowhere is the kubeconfig of a garden cluster that is not there: what an
// operator's map says needs none.
const nowhere = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
users: [{name: u, user: {token: none}}]
`

// TestShootKillMatrix kills the worker while registrations of shoots are at other
// points of their beginning, and again while they are at other points of their
// end. All shoots of a round share a tenant. Each ends with exactly one relation,
// from its creation to its deletion.
func TestShootKillMatrix(t *testing.T) {
	t.Parallel()
	const rounds, perRound = 2, 24
	server, err := reportingserver.New(t.Context(), reportingserver.Options{Path: filepath.Join(t.TempDir(), "r.db"),
		Fault: func(*http.Request) reportingserver.Fault { return reportingserver.Fault{Delay: 15 * time.Millisecond} }})
	if err != nil {
		t.Fatal(err)
	}
	billing := httptest.NewServer(server)
	t.Cleanup(func() {
		billing.Close()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	ask, err := reporting.New(reporting.Options{URL: billing.URL})
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(nowhere), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, settings{extra: fmt.Sprintf(`  kube: {file: %q}
sinks:
  - {name: billing, type: reporting, url: %q}
sources:
  - name: garden
    type: gardener
    account: landscape
    sink: billing
    interval: 1h
    inventory: {enabled: false}
    gardener: {kubeconfig: kube}
    registration:
      tenants:
        - {infrastructure: openstack, tenant: shared}`, kubeconfig, billing.URL)})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()

	points, kills := map[string]map[string]bool{"register": {}, "end": {}}, 0
	// killDuring begins something on each shoot, step apart, kills the worker when
	// the last one began, and starts another.
	killDuring := func(op string, shoots []api.ShootFacts, step time.Duration, begin func(api.ShootFacts)) {
		for _, f := range shoots {
			begin(f)
			time.Sleep(step) // the distance between the points of the matrix
		}
		w.killWorker()
		for _, f := range shoots {
			points[op][w.pointOf(workflows.ShootID(f.Project, f.Name, f.UID))] = true
			kills++
		}
		w.startWorker()
	}
	created := time.Date(2026, 11, 2, 10, 0, 0, 0, time.UTC)
	for round := range rounds {
		var shoots []api.ShootFacts
		for i := range perRound {
			shoots = append(shoots, api.ShootFacts{Source: "garden", Project: fmt.Sprintf("dev-%d", round), Name: fmt.Sprintf("web-%d", i), UID: fmt.Sprintf("uid-%d-%d", round, i),
				CreatedAt: created.Add(time.Duration(i) * time.Minute), Infrastructure: "openstack"})
		}
		step := time.Duration(6+12*round) * time.Millisecond
		killDuring("register", shoots, step, func(f api.ShootFacts) {
			if err := activities.TellShoot(ctx, w.client, f, workflows.SignalShootCreated, f); err != nil {
				t.Fatal(err)
			}
		})
		for _, f := range shoots {
			w.eventually(time.Minute, func() string {
				s, err := w.shoot(ctx, f)
				if err != nil || s.Status.Phase != api.ShootRegistered || s.Status.Reason != "" {
					return fmt.Sprintf("%s: %+v, %v", f.Name, s.Status, err)
				}
				return ""
			})
		}
		killDuring("end", shoots, step, func(f api.ShootFacts) {
			if err := activities.TellShoot(ctx, w.client, f, workflows.SignalShootEnded, api.ShootEnd{At: endOf(f)}); err != nil {
				t.Fatal(err)
			}
		})
		for _, f := range shoots {
			var out api.ShootRegistration
			if err := w.client.GetWorkflow(ctx, workflows.ShootID(f.Project, f.Name, f.UID), "").Get(ctx, &out); err != nil {
				t.Fatalf("%s: %v", f.Name, err)
			}
		}
		wantRelations(t, ask, shoots)
	}
	projects, err := ask.Projects(ctx, "")
	if err != nil || len(projects) != rounds+1 {
		t.Errorf("%d projects, %v: want one for each round and the tenant", len(projects), err)
	}
	if kills < 40 || len(points["register"]) < 3 || len(points["end"]) < 2 {
		t.Errorf("%d points of kill, of these kinds: %v: want at least 40 and several kinds", kills, points)
	}
	for op, at := range points {
		t.Logf("killed during %s at: %v", op, slices.Sorted(maps.Keys(at)))
	}
}

func endOf(f api.ShootFacts) time.Time { return f.CreatedAt.Add(5 * time.Hour) }

// wantRelations wants exactly one relation for each shoot of a project, with its
// times.
func wantRelations(t *testing.T, ask *reporting.Client, shoots []api.ShootFacts) {
	t.Helper()
	p, ok, err := ask.FindProject(t.Context(), "gardener", "landscape/"+shoots[0].Project)
	if err != nil || !ok {
		t.Fatalf("project %s: %v, %v", shoots[0].Project, ok, err)
	}
	all, err := ask.Relations(t.Context(), p.ID, reportingapi.ListRelationsParams{})
	if err != nil {
		t.Fatal(err)
	}
	byUID := map[string][]reportingapi.Relation{}
	for _, r := range all {
		byUID[r.Metadata[registration.MetaShootUID]] = append(byUID[r.Metadata[registration.MetaShootUID]], r)
	}
	if len(all) != len(shoots) {
		t.Errorf("%d relations for %d shoots", len(all), len(shoots))
	}
	for _, f := range shoots {
		rs := byUID[f.UID]
		if len(rs) != 1 {
			t.Errorf("%s has %d relations", f.Name, len(rs))
			continue
		}
		if r := rs[0]; !r.ValidFrom.Equal(f.CreatedAt) || r.ValidTo == nil || !r.ValidTo.Equal(endOf(f)) || r.Metadata["shoot_name"] != f.Name || r.Metadata["created_by"] != "tollgate" {
			t.Errorf("%s: relation %+v, want it from %s to %s", f.Name, r, f.CreatedAt, endOf(f))
		}
	}
}

func (w *world) shoot(ctx context.Context, f api.ShootFacts) (s api.ShootRegistration, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	v, err := w.client.QueryWorkflow(ctx, workflows.ShootID(f.Project, f.Name, f.UID), "", workflows.QueryStatus)
	if err == nil {
		err = v.Get(&s)
	}
	return s, err
}

// pointOf is where a workflow was when the worker died.
func (w *world) pointOf(id string) string {
	iter := w.client.GetWorkflowHistory(w.t.Context(), id, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	n, last := 0, "not started"
	for iter.HasNext() {
		e, err := iter.Next()
		if err != nil {
			return err.Error()
		}
		n, last = n+1, e.GetEventType().String()
		if a := e.GetActivityTaskScheduledEventAttributes(); a != nil {
			last = "scheduled " + a.GetActivityType().GetName()
		}
	}
	return fmt.Sprintf("%02d %s", n, last)
}
