package activities_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.temporal.io/api/serviceerror"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/metrics"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/memory"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

func row(uid, name string, edit ...func(*api.FleetRow)) api.FleetRow {
	r := api.FleetRow{UID: uid, Namespace: "default", Name: name, Seq: 1, Phase: api.PhaseRunning, Healthy: true,
		InstanceID: provider.InstanceID("id-" + uid), InstanceName: "inst-" + uid, IP: "10.0.0.1", Port: 3128,
		Own: []string{"inst-" + uid}, Since: time.Now().Add(-time.Hour)}
	for _, e := range edit {
		e(&r)
	}
	return r
}

func fleet(f *fakeTemporal, edit ...func(*activities.Fleet)) *activities.Fleet {
	a := &activities.Fleet{
		Temporal: f, Shards: func(string) int { return 1 }, Metrics: metrics.New(prometheus.NewPedanticRegistry()),
		ProbeProxy: func(context.Context, string, *provider.BasicAuth) activities.ProbeResult {
			return activities.ProbeResult{OK: true}
		},
		ProbeControl: func(context.Context) activities.ProbeResult { return activities.ProbeResult{OK: true} },
		Secret: func(_ context.Context, name string) (provider.Sensitive, error) {
			if name != "login" {
				return provider.Sensitive{}, fmt.Errorf("no secret %q", name)
			}
			return provider.NewSensitive([]byte("user:pass")), nil
		},
	}
	for _, e := range edit {
		e(a)
	}
	return a
}

func TestReportFleetStartsTheRightShard(t *testing.T) {
	t.Parallel()
	f := newTemporal()
	a := fleet(f, func(a *activities.Fleet) { a.Shards = func(string) int { return 4 } })
	env := activityEnv(a)
	for i := range 20 {
		uid := fmt.Sprint("uid-", i)
		in := activities.ReportFleetInput{Provider: "mem", Report: api.FleetReport{Row: row(uid, "p")}}
		if _, err := call[struct{}](t, env, a.ReportFleet, in); err != nil {
			t.Fatal(err)
		}
		got := f.received(workflows.FleetID("mem", workflows.ShardOf(uid, 4)))
		if len(got) == 0 || got[len(got)-1].name != workflows.SignalReport || got[len(got)-1].arg.(api.FleetReport).Row.UID != uid {
			t.Errorf("the shard of %s received %v", uid, names(got))
		}
	}
	f.broken[workflows.FleetID("mem", workflows.ShardOf("x", 4))] = serviceerror.NewUnavailable("down")
	if _, err := call[struct{}](t, env, a.ReportFleet, activities.ReportFleetInput{Provider: "mem", Report: api.FleetReport{Row: row("x", "p")}}); err == nil {
		t.Error("a report that was not delivered succeeded")
	}
}

func TestSignalObserved(t *testing.T) {
	t.Parallel()
	f := newTemporal()
	f.proxy("runs", "uid-runs", running)
	f.proxy("ended", "uid-ended", completed)
	f.proxy("renewed", "uid-new", running)
	f.proxy("renewed-ended", "uid-new", completed)
	f.broken[workflows.ProxyID("default", "unreachable")] = serviceerror.NewUnavailable("down")
	item := func(uid, name string, k api.ObservationKind) api.FleetObservation {
		return api.FleetObservation{UID: uid, Namespace: "default", Name: name, Observation: api.Observation{Kind: k}}
	}
	a := fleet(f)
	out, err := call[activities.SignalObservedResult](t, activityEnv(a), a.SignalObserved, activities.SignalObservedInput{Provider: "mem", Items: []api.FleetObservation{
		item("uid-runs", "runs", api.ObservedMissing), item("uid-runs", "runs", api.ObservedExtra),
		item("uid-ended", "ended", api.ObservedMissing), item("uid-ended", "ended", api.ObservedExtra),
		item("uid-never", "never", api.ObservedMissing),
		item("uid-old", "renewed", api.ObservedExtra), item("uid-old", "renewed-ended", api.ObservedUnhealthy),
		item("uid-u", "unreachable", api.ObservedMissing),
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := activities.SignalObservedResult{Sent: 2, Failed: 1, Error: "down", Ended: []string{"uid-ended", "uid-never", "uid-old"}}
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("SignalObserved (-want +got):\n%s", diff)
	}
	got := names(f.received("proxy/default/runs"))
	slices.Sort(got)
	if diff := cmp.Diff([]string{"observed Extra", "observed Missing"}, got); diff != "" {
		t.Errorf("signals (-want +got):\n%s", diff)
	}
	if got := f.received("proxy/default/renewed"); got != nil {
		t.Errorf("a later proxy of the same name received %v", names(got))
	}
}

func TestRetryLatchedTellsOnlyThose(t *testing.T) {
	t.Parallel()
	f := newTemporal()
	f.proxy("a", "uid-a", running)
	f.proxy("b", "uid-b", running)
	latched := func(r *api.FleetRow) { r.Latched = true }
	f.fleet(0, row("uid-a", "a", latched), row("uid-b", "b"), row("uid-c", "gone", latched))
	a := fleet(f)
	out, err := call[activities.CountResult](t, activityEnv(a), a.RetryLatched, activities.ShardInput{Provider: "mem"})
	if err != nil || out.Signalled != 1 || out.Failed != 0 {
		t.Errorf("RetryLatched = %+v, %v; want one told and no failure", out, err)
	}
	if got := names(f.received("proxy/default/a")); !slices.Equal(got, []string{"retry"}) {
		t.Errorf("a received %v", got)
	}
	if got := f.received("proxy/default/b"); got != nil {
		t.Errorf("b received %v", names(got))
	}
}

func TestRequestReportsReadsAllPages(t *testing.T) {
	t.Parallel()
	f := newTemporal()
	for i := range 8 {
		f.proxy(fmt.Sprint("p", i), fmt.Sprint("uid-", i), running)
	}
	f.proxy("q", "", running) // a server that does not say the first run
	f.proxy("ended", "uid-e", completed)
	a := fleet(f)
	if _, err := call[activities.CountResult](t, activityEnv(a), a.RequestReports, activities.ShardInput{Provider: "mem", Shard: 1, Shards: 2}); err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		want := workflows.ShardOf(fmt.Sprint("uid-", i), 2) == 1
		if got := f.received(fmt.Sprint("proxy/default/p", i)); (len(got) == 1) != want {
			t.Errorf("p%d received %v, is of shard 1: %v", i, names(got), want)
		}
	}
	if got := names(f.received("proxy/default/q")); !slices.Equal(got, []string{"observed ReportWanted"}) {
		t.Errorf("q received %v", got)
	}
}

func TestForwardRows(t *testing.T) {
	t.Parallel()
	f := newTemporal()
	var rows []api.FleetRow
	moved := 0
	for i := range activities.MaxForward * 3 {
		rows = append(rows, row(fmt.Sprintf("uid-%04d", i), "p"))
		if workflows.ShardOf(rows[i].UID, 2) == 1 {
			moved++
		}
	}
	f.fleet(0, rows...)
	a := fleet(f)
	in := activities.ShardInput{Provider: "mem", Shard: 0, Shards: 2}
	out, err := call[activities.ForwardRowsResult](t, activityEnv(a), a.ForwardRows, in)
	if err != nil || len(out.Forwarded) != min(moved, activities.MaxForward) || out.More != (moved > activities.MaxForward) {
		t.Errorf("%d of %d forwarded, more %v, error %v", len(out.Forwarded), moved, out.More, err)
	}
	if got := f.received(workflows.FleetID("mem", 1)); len(got) != len(out.Forwarded) {
		t.Errorf("shard 1 received %d reports", len(got))
	}
	f.broken[workflows.FleetID("mem", 1)] = serviceerror.NewUnavailable("down")
	if _, err := call[activities.ForwardRowsResult](t, activityEnv(a), a.ForwardRows, in); err == nil {
		t.Error("rows that were not delivered count as forwarded")
	}
}

func probeConfig() api.FleetConfig {
	return api.FleetConfig{ProbeInterval: api.Duration(time.Minute), UnhealthyAfter: 1, HealthyAfter: 1, BrakeFraction: .5, BrakeMin: 2}
}

func TestProbeFleet(t *testing.T) {
	t.Parallel()
	f := newTemporal()
	f.fleet(0,
		row("uid-a", "a"), row("uid-b", "b", func(r *api.FleetRow) { r.IP = "10.0.0.2" }),
		row("uid-c", "c", func(r *api.FleetRow) { r.IP, r.AuthRef = "10.0.0.3", "login" }),
		row("uid-d", "d", func(r *api.FleetRow) { r.AuthRef = "nonsense" }),
		row("uid-e", "e", func(r *api.FleetRow) { r.Phase = api.PhaseProvisioning }),
		row("uid-f", "f", func(r *api.FleetRow) { r.IP = "" }),
	)
	f.proxy("a", "uid-a", running)
	f.proxy("b", "uid-b", terminated)
	f.proxy("c", "uid-c", paused)
	f.proxy("d", "uid-another", running)
	f.broken[workflows.ProxyID("default", "e")] = serviceerror.NewUnavailable("down")
	f.proxy("f", "uid-f", running)
	var mu sync.Mutex
	probed := map[string]string{}
	controls := 0
	a := fleet(f, func(a *activities.Fleet) {
		a.ProbeProxy = func(_ context.Context, addr string, auth *provider.BasicAuth) activities.ProbeResult {
			mu.Lock()
			defer mu.Unlock()
			probed[addr] = ""
			if auth != nil {
				probed[addr] = auth.Username + ":" + string(auth.Password.Reveal())
			}
			if strings.HasPrefix(addr, "10.0.0.2:") {
				return activities.ProbeResult{Class: "timeout", Message: "CONNECT took too long"}
			}
			return activities.ProbeResult{OK: true}
		}
		a.ProbeControl = func(context.Context) activities.ProbeResult { controls++; return activities.ProbeResult{OK: true} }
	})
	out, err := call[activities.ProbeFleetResult](t, activityEnv(a), a.ProbeFleet, activities.ProbeFleetInput{Provider: "mem", Config: probeConfig(),
		Counters: []api.ProbeCounter{{UID: "uid-a", Instance: "id-uid-a", Fails: 4, Down: true}, {UID: "uid-d", Instance: "id-uid-d", Fails: 2}}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"10.0.0.1:3128": "", "10.0.0.2:3128": "", "10.0.0.3:3128": "user:pass"}, probed); diff != "" {
		t.Errorf("probed (-want +got):\n%s", diff)
	}
	if out.Probed != 3 || out.Skipped != 1 || out.Failing["timeout"] != 1 || controls != 1 || out.Brake.On {
		t.Errorf("ProbeFleet = %+v with %d controls", out, controls)
	}
	var kinds []string
	for _, i := range out.Items {
		kinds = append(kinds, i.UID+" "+string(i.Observation.Kind))
	}
	if diff := cmp.Diff([]string{"uid-a Healthy", "uid-b Unhealthy"}, kinds); diff != "" {
		t.Errorf("items (-want +got):\n%s", diff)
	}
	// The one whose secret is not readable keeps its count.
	if len(out.Counters) != 2 || out.Counters[0].UID != "uid-b" || out.Counters[1].UID != "uid-d" || out.Counters[1].Fails != 2 {
		t.Errorf("counters %+v", out.Counters)
	}
	if diff := cmp.Diff([]activities.RowRef{{UID: "uid-b", Seq: 1}, {UID: "uid-d", Seq: 1}}, out.Ended); diff != "" {
		t.Errorf("rows of owners that are gone (-want +got):\n%s", diff)
	}
}

func TestProbeFleetBelievesNothingWhenTheControlFails(t *testing.T) {
	t.Parallel()
	f := newTemporal()
	f.fleet(0, row("uid-a", "a"))
	a := fleet(f, func(a *activities.Fleet) {
		bad := activities.ProbeResult{Class: "target_down", Message: "nothing listens at the target"}
		a.ProbeProxy = func(context.Context, string, *provider.BasicAuth) activities.ProbeResult { return bad }
		a.ProbeControl = func(context.Context) activities.ProbeResult { return bad }
	})
	out, err := call[activities.ProbeFleetResult](t, activityEnv(a), a.ProbeFleet, activities.ProbeFleetInput{Provider: "mem", Config: probeConfig()})
	if err != nil || len(out.Items) != 0 || !out.Brake.On || out.Brake.Reason != api.ReasonControlFailed || !strings.Contains(out.Brake.Message, "nothing listens") {
		t.Errorf("ProbeFleet = %+v, %v; want the brake on", out, err)
	}
}

func TestProbeFleetBoundsItsConcurrency(t *testing.T) {
	t.Parallel()
	f := newTemporal()
	var rows []api.FleetRow
	for i := range 200 {
		rows = append(rows, row(fmt.Sprintf("uid-%03d", i), "p"))
	}
	f.fleet(0, rows...)
	var mu sync.Mutex
	now, most := 0, 0
	gate := make(chan struct{})
	a := fleet(f, func(a *activities.Fleet) {
		a.Concurrency = func() int { return 7 }
		a.ProbeProxy = func(context.Context, string, *provider.BasicAuth) activities.ProbeResult {
			mu.Lock()
			now++
			if most = max(most, now); now == 7 && most == 7 {
				select {
				case <-gate:
				default:
					close(gate)
				}
			}
			mu.Unlock()
			<-gate // until seven are here at once
			mu.Lock()
			now--
			mu.Unlock()
			return activities.ProbeResult{OK: true}
		}
	})
	out, err := call[activities.ProbeFleetResult](t, activityEnv(a), a.ProbeFleet, activities.ProbeFleetInput{Provider: "mem", Config: probeConfig()})
	if err != nil || out.Probed != 200 || most != 7 {
		t.Errorf("%d probed, %d at once, error %v; want 200 and 7", out.Probed, most, err)
	}
}

// TestProbeFleetLooksAtAllOwnersInTurn runs rounds until every owner was looked
// at.
func TestProbeFleetLooksAtAllOwnersInTurn(t *testing.T) {
	t.Parallel()
	f := newTemporal()
	var rows []api.FleetRow
	for i := range 130 {
		rows = append(rows, row(fmt.Sprintf("uid-%03d", i), fmt.Sprint("p", i)))
	}
	rows = append(rows, row("uid-new", "new", func(r *api.FleetRow) { r.Since = time.Now() }))
	f.fleet(0, rows...)
	a := fleet(f)
	ended := map[string]bool{}
	after, rounds := "", 0
	for {
		out, err := call[activities.ProbeFleetResult](t, activityEnv(a), a.ProbeFleet, activities.ProbeFleetInput{Provider: "mem", Config: probeConfig(), OwnersAfter: after})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range out.Ended {
			ended[e.UID] = true
		}
		if rounds++; out.OwnersAfter == "" {
			break
		}
		if out.OwnersAfter <= after || rounds > 10 {
			t.Fatalf("round %d goes on after %q", rounds, out.OwnersAfter)
		}
		after = out.OwnersAfter
	}
	if len(ended) != 130 || ended["uid-new"] {
		t.Errorf("%d owners found gone in %d rounds, want 130 and not the new one", len(ended), rounds)
	}
}

func TestProbeFleetFailsWithoutATable(t *testing.T) {
	t.Parallel()
	f := newTemporal()
	f.broken[workflows.FleetID("mem", 0)] = errors.New("query timed out")
	a := fleet(f)
	if _, err := call[activities.ProbeFleetResult](t, activityEnv(a), a.ProbeFleet, activities.ProbeFleetInput{Provider: "mem", Config: probeConfig()}); err == nil {
		t.Error("a round without a table succeeded")
	}
}

func TestCompareFleet(t *testing.T) {
	t.Parallel()
	backend, lookup := cloud(t, memory.Options{})
	for _, uid := range []string{"uid-a", "uid-x"} {
		backend.Place(memory.NewServer{Name: "inst-" + uid, Labels: marks(uid, uid[4:]).Labels(), Region: "north"})
	}
	a := &activities.Drift{Installation: installation, Lookup: lookup, Temporal: newTemporal(), Metrics: metrics.New(prometheus.NewPedanticRegistry())}
	f := a.Temporal.(*fakeTemporal)
	servers := backend.Servers()
	known := row("uid-a", "a", func(r *api.FleetRow) { r.InstanceID, r.IP = memory.ID(servers[0]), servers[0].IP.String() })
	f.fleet(0, known)
	f.fleet(1, row("uid-b", "b"))
	in := activities.CompareFleetInput{Provider: "mem", Shards: 3} // the third shard was never started
	out, err := call[activities.CompareFleetResult](t, activityEnv(a), a.CompareFleet, in)
	if err != nil {
		t.Fatal(err)
	}
	// uid-x is too young to be asked for.
	if out.Instances != 2 || out.Rows != 2 || len(out.Items) != 1 || out.Items[0].UID != "uid-b" || out.Found["Missing"] != 1 || out.Next != "" {
		t.Errorf("CompareFleet = %+v, want b missing", out)
	}

	t.Run("a listing that breaks off", func(t *testing.T) {
		backend.Inject(memory.Fault{Err: &memory.APIError{Status: 503, Code: "unavailable"}})
		if out, err := call[activities.CompareFleetResult](t, activityEnv(a), a.CompareFleet, in); err == nil {
			t.Errorf("CompareFleet = %+v, want an error", out)
		}
	})
	t.Run("a provider that is not configured", func(t *testing.T) {
		_, err := call[activities.CompareFleetResult](t, activityEnv(a), a.CompareFleet, activities.CompareFleetInput{Provider: "other"})
		if err == nil || !strings.Contains(err.Error(), `no provider "other" is configured`) {
			t.Errorf("error %v", err)
		}
	})
}

func TestCompareFleetFailsWithoutATable(t *testing.T) {
	t.Parallel()
	_, lookup := cloud(t, memory.Options{})
	f := newTemporal()
	f.fleet(0, row("uid-a", "a"))
	f.broken[workflows.FleetID("mem", 1)] = errors.New("query timed out")
	a := &activities.Drift{Installation: installation, Lookup: lookup, Temporal: f}
	if out, err := call[activities.CompareFleetResult](t, activityEnv(a), a.CompareFleet, activities.CompareFleetInput{Provider: "mem", Shards: 2}); err == nil {
		t.Errorf("CompareFleet = %+v, want an error", out)
	}
}
