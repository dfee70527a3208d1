package activities_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/temporal"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/metrics"
	"github.com/tollgate-dev/tollgate/internal/orphan"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/memory"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// yard is a cloud with something of every kind in it.
type yard struct {
	*memory.Backend
	temporal *fakeTemporal
	gc       *activities.GC
}

func newYard(t *testing.T) *yard {
	t.Helper()
	b, lookup := cloud(t, memory.Options{PageSize: 3})
	f := newTemporal()
	return &yard{b, f, &activities.GC{
		Installation: installation, Lookup: lookup, Temporal: f, Shards: func(string) int { return 1 },
		Metrics: metrics.New(prometheus.NewPedanticRegistry()),
	}}
}

// place makes a server with these marks and returns its id.
func (y *yard) place(name string, labels map[string]string) string {
	return string(memory.ID(y.Place(memory.NewServer{Name: name, Labels: labels, Region: "north"})))
}

func (y *yard) find(t *testing.T, seen ...activities.OrphanRef) (activities.FindOrphansResult, error) {
	t.Helper()
	return call[activities.FindOrphansResult](t, activityEnv(y.gc), y.gc.FindOrphans,
		activities.FindOrphansInput{Provider: "mem", MinAge: api.Duration(1), Seen: seen})
}

// has reports whether a server of that name exists.
func (y *yard) has(name string) bool {
	return slices.ContainsFunc(y.Servers(), func(s memory.Server) bool { return s.Name == name })
}

func refs(all []api.Orphan) []activities.OrphanRef {
	var out []activities.OrphanRef
	for _, o := range all {
		out = append(out, activities.OrphanRef{Kind: o.Kind, ID: o.ID, UID: o.UID})
	}
	return out
}

func ids(all []api.Orphan) []string {
	var out []string
	for _, o := range all {
		out = append(out, o.Kind+" "+o.Name+" "+o.Reason)
	}
	slices.Sort(out)
	return out
}

func TestFindOrphansJudgesEverything(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	for name, status := range map[string]enumspb.WorkflowExecutionStatus{
		"runs": running, "paused": paused, "completed": completed, "terminated": terminated,
		"failed": enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, "canceled": enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED,
		"timedout": enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT,
	} {
		y.temporal.proxy(name, "uid-"+name, status)
		y.place(name, marks("uid-"+name, name).Labels())
	}
	y.temporal.proxy("renewed", "uid-later", running)
	y.place("renewed", marks("uid-earlier", "renewed").Labels())
	y.place("never", marks("uid-never", "never").Labels())
	y.place("foreign", provider.Marks{UID: "u", Installation: "other", Namespace: "default", Proxy: "never"}.Labels())
	y.place("unmarked", map[string]string{"app": "web"})
	unmanaged := marks("uid-never", "never").Labels()
	delete(unmanaged, provider.LabelManaged)
	y.place("unmanaged", unmanaged)
	y.place("whose", provider.Marks{Installation: installation}.Labels())
	if _, err := y.CreateAddress(t.Context(), "", "left-behind", marks("uid-never", "never").Labels()); err != nil {
		t.Fatal(err)
	}

	first, err := y.find(t)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"address left-behind OwnerNotFound", "instance canceled OwnerClosed", "instance completed OwnerClosed", "instance failed OwnerClosed",
		"instance never OwnerNotFound", "instance renewed OwnerReplaced", "instance terminated OwnerClosed", "instance timedout OwnerClosed",
	}
	if diff := cmp.Diff(want, ids(first.Orphans)); diff != "" {
		t.Errorf("orphans (-want +got):\n%s", diff)
	}
	if first.Count != len(want) || first.Unreadable != "" || first.Verdicts[string(orphan.Owned)] != 2 || first.Verdicts[string(orphan.Unattributed)] != 1 {
		t.Errorf("sighting %+v", first)
	}
	if first.Orphans[len(first.Orphans)-1].Kind != memory.KindAddress {
		t.Error("instances do not come first")
	}

	// Between the sightings one owner comes back, one orphan goes and one comes.
	y.temporal.proxy("failed", "uid-failed", running)
	y.Kill("never")
	y.place("latecomer", marks("uid-late", "latecomer").Labels())
	second, err := y.find(t, refs(first.Orphans)...)
	if err != nil {
		t.Fatal(err)
	}
	want = []string{
		"address left-behind OwnerNotFound", "instance canceled OwnerClosed", "instance completed OwnerClosed",
		"instance renewed OwnerReplaced", "instance terminated OwnerClosed", "instance timedout OwnerClosed",
	}
	if diff := cmp.Diff(want, ids(second.Orphans)); diff != "" {
		t.Errorf("confirmed (-want +got):\n%s", diff)
	}
}

func TestFindOrphansLeavesYoungOnesAlone(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.place("new", marks("uid-new", "new").Labels())
	out, err := call[activities.FindOrphansResult](t, activityEnv(y.gc), y.gc.FindOrphans,
		activities.FindOrphansInput{Provider: "mem", MinAge: api.Duration(time.Hour)})
	if err != nil || out.Count != 0 || out.Verdicts[string(orphan.Young)] != 1 || y.temporal.described != 0 {
		t.Errorf("FindOrphans = %+v, %v after %d look-ups; want it young without one", out, err, y.temporal.described)
	}
}

func TestFindOrphansFailsClosed(t *testing.T) {
	t.Parallel()
	t.Run("listing", func(t *testing.T) {
		t.Parallel()
		y := newYard(t)
		for i := range 7 {
			y.place(fmt.Sprint("s", i), marks("uid-never", "never").Labels())
		}
		y.BreakPage(2)
		if out, err := y.find(t); err == nil {
			t.Errorf("FindOrphans = %+v with a broken page, want an error", out)
		}
	})
	t.Run("companions", func(t *testing.T) {
		t.Parallel()
		y := newYard(t)
		y.place("s", marks("uid-never", "never").Labels())
		y.Inject(memory.Fault{Calls: []memory.Call{memory.CallListAddresses}, Err: &memory.APIError{Status: 503, Code: "unavailable"}})
		if out, err := y.find(t); err == nil {
			t.Errorf("FindOrphans = %+v without companions, want an error", out)
		}
	})
	for name, err := range map[string]error{
		"unavailable":          serviceerror.NewUnavailable("down"),
		"namespace not found":  serviceerror.NewNamespaceNotFound("tollgate"),
		"permission":           serviceerror.NewPermissionDenied("no", ""),
		"deadline":             context.DeadlineExceeded,
		"an error of no class": errors.New("odd"),
	} {
		t.Run("owner, "+name, func(t *testing.T) {
			t.Parallel()
			y := newYard(t)
			y.place("s", marks("uid-gone", "gone").Labels())
			y.place("x", marks("uid-x", "x").Labels())
			y.temporal.broken["proxy/default/x"] = err
			out, ferr := y.find(t)
			if ferr != nil || !strings.Contains(out.Unreadable, "owner proxy/default/x") {
				t.Errorf("FindOrphans = %+v, %v; want it unreadable", out, ferr)
			}
		})
	}
	for name, w := range map[string]*fakeWorkflow{
		"continued as new":  {status: enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW, firstRun: "uid-x"},
		"unspecified":       {status: enumspb.WORKFLOW_EXECUTION_STATUS_UNSPECIFIED, firstRun: "uid-x"},
		"of a later server": {status: 99, firstRun: "uid-x"},
		"without first run": {status: running},
	} {
		t.Run("status "+name, func(t *testing.T) {
			t.Parallel()
			y := newYard(t)
			y.place("x", marks("uid-x", "x").Labels())
			y.temporal.workflows["proxy/default/x"] = w
			if out, err := y.find(t); err != nil || out.Unreadable == "" || out.Count != 0 {
				t.Errorf("FindOrphans = %+v, %v; want it unreadable", out, err)
			}
		})
	}
}

func TestFindOrphansBoundsWhatItReturns(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	for i := range api.MaxOrphanCap + 50 {
		y.place(fmt.Sprint("s", i), marks(fmt.Sprint("uid-", i), "never").Labels())
	}
	out, err := y.find(t)
	if err != nil || out.Count != api.MaxOrphanCap+50 || len(out.Orphans) != api.MaxOrphanCap {
		t.Errorf("%d of %d orphans returned, error %v", len(out.Orphans), out.Count, err)
	}
}

// orphaned places one orphan and returns it as a sweep would have found it.
func (y *yard) orphaned(t *testing.T) api.Orphan {
	t.Helper()
	y.place("lost", marks("uid-lost", "lost").Labels())
	out, err := y.find(t)
	if err != nil || len(out.Orphans) != 1 {
		t.Fatalf("FindOrphans = %+v, %v", out, err)
	}
	return out.Orphans[0]
}

func (y *yard) delete(t *testing.T, o api.Orphan) (activities.DeleteOrphanResult, error) {
	t.Helper()
	return call[activities.DeleteOrphanResult](t, activityEnv(y.gc), y.gc.DeleteOrphan,
		activities.DeleteOrphanInput{Provider: "mem", MinAge: api.Duration(1), Orphan: o})
}

func TestDeleteOrphan(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	o := y.orphaned(t)
	out, err := y.delete(t, o)
	if err != nil || out.Action != api.OrphanDeleted || y.has("lost") {
		t.Errorf("DeleteOrphan = %+v, %v; exists %v", out, err, y.has("lost"))
	}
	told := y.temporal.received(workflows.FleetID("mem", 0))
	if len(told) != 1 || !told[0].arg.(api.FleetReport).Gone || told[0].arg.(api.FleetReport).Row.UID != "uid-lost" {
		t.Errorf("the fleet was told %v, want the end of the proxy", told)
	}
	if out, err := y.delete(t, o); err != nil || out.Action != api.OrphanGone {
		t.Errorf("DeleteOrphan again = %+v, %v; want it gone", out, err)
	}
}

func TestDeleteOrphanKeepsWhatIsNoOrphanAnyMore(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*yard){
		"its owner runs again":  func(y *yard) { y.temporal.proxy("lost", "uid-lost", running) },
		"it has another owner":  func(y *yard) { relabel(y, marks("uid-other", "lost").Labels()) },
		"it lost its marks":     func(y *yard) { relabel(y, nil) },
		"it is somebody else's": func(y *yard) { relabel(y, provider.Marks{UID: "uid-lost", Installation: "other"}.Labels()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newYard(t)
			o := y.orphaned(t)
			change(y)
			if name != "its owner runs again" {
				o.ID = string(memory.ID(y.Servers()[0])) // the same thing under new marks
			}
			out, err := y.delete(t, o)
			if err != nil || out.Action != api.OrphanKept || out.Message == "" || !y.has("lost") {
				t.Errorf("DeleteOrphan = %+v, %v; exists %v, want it kept", out, err, y.has("lost"))
			}
			if told := y.temporal.received(workflows.FleetID("mem", 0)); told != nil {
				t.Errorf("the fleet was told %v", names(told))
			}
		})
	}
}

// relabel gives the one server other labels, by making it anew.
func relabel(y *yard, labels map[string]string) {
	y.Kill("lost")
	y.place("lost", labels)
}

func TestDeleteOrphanWaitsUntilTheProviderSaysGone(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	o := y.orphaned(t)
	release := y.HoldDeletes()
	_, err := y.delete(t, o)
	var app *temporal.ApplicationError
	if !errors.As(err, &app) || app.Type() != activities.ErrStillExists || app.NonRetryable() {
		t.Fatalf("DeleteOrphan = %v, want the poll to go on", err)
	}
	calls := y.Calls(memory.CallDeleteServer)
	// The next attempt finds in its heartbeat that the delete was sent.
	env := activityEnv(y.gc)
	env.SetHeartbeatDetails(map[string]any{"submittedAt": time.Now()})
	in := activities.DeleteOrphanInput{Provider: "mem", MinAge: api.Duration(1), Orphan: o}
	if _, err := call[activities.DeleteOrphanResult](t, env, y.gc.DeleteOrphan, in); !errors.As(err, &app) || app.Type() != activities.ErrStillExists {
		t.Errorf("DeleteOrphan = %v, want the poll to go on", err)
	}
	if n := y.Calls(memory.CallDeleteServer); n != calls {
		t.Errorf("%d deletes were sent, want %d", n, calls)
	}
	release()
	out, err := call[activities.DeleteOrphanResult](t, env, y.gc.DeleteOrphan, in)
	if err != nil || out.Action != api.OrphanDeleted {
		t.Errorf("DeleteOrphan = %+v, %v; want it deleted", out, err)
	}
}

func TestDeleteOrphanDeletesNothingItCannotBeSureOf(t *testing.T) {
	t.Parallel()
	for name, breakIt := range map[string]func(*yard){
		"owner unreadable":  func(y *yard) { y.temporal.broken["proxy/default/lost"] = serviceerror.NewUnavailable("down") },
		"fleet unreachable": func(y *yard) { y.temporal.broken[workflows.FleetID("mem", 0)] = serviceerror.NewUnavailable("down") },
		"get fails": func(y *yard) {
			y.Inject(memory.Fault{Calls: []memory.Call{memory.CallGetServer}, Err: &memory.APIError{Status: 500}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newYard(t)
			o := y.orphaned(t)
			breakIt(y)
			if out, err := y.delete(t, o); err == nil {
				t.Errorf("DeleteOrphan = %+v, want an error", out)
			}
			if !y.has("lost") || y.Calls(memory.CallDeleteServer) != 0 {
				t.Error("it was deleted")
			}
		})
	}
}

func TestDeleteOrphanCompanion(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	if _, err := y.CreateAddress(t.Context(), "", "left-behind", marks("uid-lost", "lost").Labels()); err != nil {
		t.Fatal(err)
	}
	found, err := y.find(t)
	if err != nil || len(found.Orphans) != 1 || found.Orphans[0].Kind != memory.KindAddress {
		t.Fatalf("FindOrphans = %+v, %v", found, err)
	}
	out, err := y.delete(t, found.Orphans[0])
	if err != nil || out.Action != api.OrphanDeleted || len(y.Addresses()) != 0 {
		t.Errorf("DeleteOrphan = %+v, %v; addresses %v", out, err, y.Addresses())
	}
	if out, err := y.delete(t, found.Orphans[0]); err != nil || out.Action != api.OrphanGone {
		t.Errorf("DeleteOrphan again = %+v, %v; want it gone", out, err)
	}
}

func TestRecordSweepCounts(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewPedanticRegistry()
	a := &activities.Sweeps{Metrics: metrics.New(reg)}
	for _, o := range api.SweepOutcomes() {
		if _, err := call[struct{}](t, activityEnv(a), a.RecordSweep, activities.SweepDoneInput{Provider: "mem", Outcome: o, Orphans: 2}); err != nil {
			t.Fatal(err)
		}
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "tollgate_gc_sweeps_total" && len(f.GetMetric()) != len(api.SweepOutcomes()) {
			t.Errorf("%d outcomes counted, want %d", len(f.GetMetric()), len(api.SweepOutcomes()))
		}
	}
}
