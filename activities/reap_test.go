package activities_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/metrics"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/memory"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// aged makes instances older than they are, by name; one with a negative age has
// no creation time.
type aged struct {
	provider.Provider
	age  map[string]time.Duration
	fail map[string]error // of deletes, by name
	list error
}

func (a *aged) List(ctx context.Context, sel provider.Selector) ([]provider.Instance, error) {
	if a.list != nil {
		return nil, a.list
	}
	all, err := a.Provider.List(ctx, sel)
	for i := range all {
		if d := a.age[all[i].Name]; d < 0 {
			all[i].CreatedAt = time.Time{}
		} else {
			all[i].CreatedAt = all[i].CreatedAt.Add(-d)
		}
	}
	return all, err
}

func (a *aged) Delete(ctx context.Context, id provider.InstanceID) error {
	in, err := a.Get(ctx, id)
	if err == nil && a.fail[in.Name] != nil {
		return a.fail[in.Name]
	}
	return a.Provider.Delete(ctx, id)
}

// farm is a cloud with throw-away instances of different ages in it.
type farm struct {
	*memory.Backend
	*aged
	temporal *fakeTemporal
	reaper   *activities.Reaper
}

func newFarm(t *testing.T) *farm {
	t.Helper()
	b, lookup := cloud(t, memory.Options{PageSize: 3})
	p, profile, _, _ := lookup("mem")
	f := &farm{Backend: b, temporal: newTemporal(), aged: &aged{Provider: p, fail: map[string]error{}, age: map[string]time.Duration{
		"old-runs": 7 * time.Hour, "old-ended": 8 * time.Hour, "foreign": 9 * time.Hour, "unmarked": 9 * time.Hour, "elsewhere": 9 * time.Hour, "ageless": -1,
	}}}
	f.reaper = &activities.Reaper{Installation: installation, Temporal: f.temporal, Metrics: metrics.New(prometheus.NewPedanticRegistry()),
		Lookup: func(name string) (provider.Provider, provider.Profile, bool, error) {
			return f.aged, profile, name == "mem", nil
		}}
	place := func(name string, m provider.Marks) {
		labels := m.Labels()
		if m == (provider.Marks{}) {
			labels = nil
		}
		b.Place(memory.NewServer{Name: name, Labels: labels, Region: "north"})
	}
	f.temporal.proxy("runs", "uid-runs", running)
	f.temporal.proxy("ended", "uid-ended", completed)
	f.temporal.proxy("young", "uid-young", running)
	place("old-runs", marks("uid-runs", "runs"))
	place("old-ended", marks("uid-ended", "ended"))
	place("young", marks("uid-young", "young"))
	place("ageless", marks("uid-ageless", "ageless"))
	elsewhere := marks("uid-else", "else")
	elsewhere.Namespace = "prod"
	place("elsewhere", elsewhere)
	foreign := marks("uid-runs", "runs")
	foreign.Installation = "other"
	place("foreign", foreign)
	place("unmarked", provider.Marks{})
	return f
}

func (f *farm) reap(t *testing.T, change func(*api.ReaperInput)) (activities.ReapResult, error) {
	t.Helper()
	in := api.ReaperInput{Provider: "mem", Selector: provider.Selector{Namespace: "default"}, OlderThan: api.Duration(6 * time.Hour)}
	if change != nil {
		change(&in)
	}
	return call[activities.ReapResult](t, activityEnv(f.reaper), f.reaper.Reap, in)
}

func (f *farm) names() map[string]bool {
	out := map[string]bool{}
	for _, s := range f.Servers() {
		out[s.Name] = true
	}
	return out
}

// told are the signals to a proxy.
func (f *farm) told(name string) []fakeSignal {
	f.temporal.mu.Lock()
	defer f.temporal.mu.Unlock()
	return f.temporal.workflows[workflows.ProxyID("default", name)].signals
}

var sameButIDs = cmp.Options{cmpopts.IgnoreFields(api.Reaped{}, "ID", "CreatedAt", "Message")}

func TestReapDeletesWhatIsOld(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	before := len(f.names())
	want := activities.ReapResult{Matched: 4, UnknownAge: 1, Count: 2, Reaped: []api.Reaped{
		{Name: "old-ended", Namespace: "default", Proxy: "ended", Action: api.ReapActionWouldDelete},
		{Name: "old-runs", Namespace: "default", Proxy: "runs", Owned: true, Action: api.ReapActionWouldDelete},
	}}
	got, err := f.reap(t, func(in *api.ReaperInput) { in.DryRun = true })
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got, want, sameButIDs); diff != "" {
		t.Errorf("dry run (-got +want):\n%s", diff)
	}
	if len(f.names()) != before || len(f.told("runs")) != 0 {
		t.Error("a dry run did something")
	}

	if got, err = f.reap(t, nil); err != nil {
		t.Fatal(err)
	}
	for i := range want.Reaped {
		want.Reaped[i].Action = api.ReapActionDeleted
	}
	if diff := cmp.Diff(got, want, sameButIDs); diff != "" {
		t.Errorf("run (-got +want):\n%s", diff)
	}
	left := map[string]bool{"young": true, "ageless": true, "elsewhere": true, "foreign": true, "unmarked": true}
	if diff := cmp.Diff(f.names(), left); diff != "" {
		t.Errorf("what is left (-got +want):\n%s", diff)
	}
	signals := f.told("runs")
	if len(signals) != 1 || signals[0].name != workflows.SignalDelete || !strings.Contains(signals[0].arg.(api.DeleteInput).Reason, "older than 6h") {
		t.Errorf("the proxy was told %+v", signals)
	}
	if len(f.told("young")) != 0 || len(f.told("ended")) != 0 {
		t.Error("a proxy was told that must not be")
	}
	if got, err := f.reap(t, func(in *api.ReaperInput) { in.Selector = provider.Selector{}; in.All = true }); err != nil || got.Count != 1 || !f.names()["foreign"] {
		t.Errorf("all of the installation: %+v, %v", got, err)
	}
}

func TestReapGoesOnAfterFailures(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	f.fail["old-ended"] = provider.Wrap(provider.Transient, provider.OpDelete, "mem", "x", errors.New("busy"))
	f.temporal.broken[workflows.ProxyID("default", "runs")] = errors.New("no answer")
	got, err := f.reap(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got.Count != 2 || got.Failed != 2 || !strings.Contains(got.Reaped[0].Message, "busy") || !strings.Contains(got.Reaped[1].Message, "no answer") {
		t.Errorf("%+v", got)
	}
	if !f.names()["old-runs"] {
		t.Error("the instance of a proxy that could not be told was deleted")
	}
	f.list = provider.Wrap(provider.Transient, provider.OpList, "mem", "", errors.New("down"))
	if _, err := f.reap(t, nil); err == nil || !strings.Contains(err.Error(), "down") {
		t.Errorf("a listing that fails: %v", err)
	}
}

func TestReapRefuses(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	for what, change := range map[string]func(*api.ReaperInput){
		"provider: is required":               func(in *api.ReaperInput) { in.Provider = "" },
		"no provider \"x\" is configured":     func(in *api.ReaperInput) { in.Provider = "x" },
		"selector: is required":               func(in *api.ReaperInput) { in.Selector = provider.Selector{} },
		"selector.installation: \"other\"":    func(in *api.ReaperInput) { in.Selector.Installation = "other" },
		"all: is set beside a selector":       func(in *api.ReaperInput) { in.All = true },
		"olderThan: 59s is out of range":      func(in *api.ReaperInput) { in.OlderThan = api.Duration(59 * time.Second) },
		"olderThan: -1h0m0s is out of range:": func(in *api.ReaperInput) { in.OlderThan = api.Duration(-time.Hour) },
	} {
		if _, err := f.reap(t, change); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("got %v, want %s", err, what)
		}
	}
	if len(f.names()) != 7 {
		t.Error("something was deleted")
	}
}
