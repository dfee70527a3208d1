package exporter_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tollgate-dev/tollgate/internal/exporter"
	"github.com/tollgate-dev/tollgate/internal/inventory"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/internal/source/hetzner"
)

var now = time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)

func types() []source.Type { return []source.Type{hetzner.Type()} }

// rig is an exporter over a store.
type rig struct {
	t       *testing.T
	store   *inventory.Store
	streams []exporter.Stream
	clock   time.Time
	logs    bytes.Buffer
	*exporter.Exporter
}

func newRig(t *testing.T, o exporter.Options, streams ...string) *rig {
	r := &rig{t: t, store: inventory.NewStore(), clock: now}
	for _, s := range streams {
		name, stream, _ := strings.Cut(s, "/")
		r.streams = append(r.streams, exporter.Stream{StreamKey: inventory.StreamKey{Source: name, Stream: stream}, Interval: 10 * time.Minute})
	}
	if o.Types == nil {
		o.Types = types()
	}
	o.Store, o.Streams, o.Now = r.store, func() []exporter.Stream { return r.streams }, func() time.Time { return r.clock }
	o.Logger = slog.New(slog.NewTextHandler(&r.logs, nil))
	r.Exporter = exporter.New(o)
	return r
}

func (r *rig) put(name, stream string, at time.Time, resources ...source.Existing) {
	r.store.Put(inventory.Listed{
		StreamKey: inventory.StreamKey{Source: name, Stream: stream}, Platform: event.Hetzner,
		Snapshot: source.Snapshot{At: at, Resources: resources}, Took: 2 * time.Second,
	})
}

// text is what a scrape shows, without help, in the order of a scrape.
func text(t *testing.T, c prometheus.Collector) []string {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(c)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				if l.GetName() != "source" && l.GetName() != "stream" {
					labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
				}
			}
			out = append(out, fmt.Sprintf("%s{%s} %v", strings.TrimPrefix(f.GetName(), "tollgate_"), strings.Join(labels, ","), m.GetGauge().GetValue()))
		}
	}
	return out
}

func server(id string) source.Existing {
	return source.Existing{
		Account: "acme", Resource: event.Resource{Type: event.Server, ID: id, Name: "web-" + id}, CreatedAt: now.Add(-time.Hour),
		State: event.Active, Region: "fsn1",
		Size:   event.Size{event.VCPUs: event.Int(2), event.RAMGB: event.Int(4), event.DiskGB: event.Int(40), event.ServerType: event.Text("cx22")},
		Info:   map[string]string{"status": "running", "image": "debian-12"},
		Values: map[string]float64{"price_eur_per_hour": 0.006, "traffic_included_bytes": 2e13, "traffic_outgoing_bytes": 0},
	}
}

// A resource of which parts are missing keeps the rest, and takes nothing from
// the others; what is not known has no series and is counted.
func TestSeries(t *testing.T) {
	t.Parallel()
	r := newRig(t, exporter.Options{}, "h/server", "h/volume")
	bare := source.Existing{Resource: event.Resource{Type: event.Server, ID: "43"}}
	r.put("h", "server", now.Add(-time.Minute), server("42"), bare)
	r.store.Put(inventory.Listed{StreamKey: r.streams[1].StreamKey, Platform: event.Hetzner, Took: 2 * time.Second,
		Snapshot: source.Snapshot{At: now.Add(-5 * time.Minute), Unreadable: []string{"an entry without a number"}}})
	if diff := cmp.Diff(text(t, r), []string{
		`hetzner_server_created_timestamp_seconds{id="42"} 1.7936172e+09`,
		`hetzner_server_disk_bytes{id="42"} 4.294967296e+10`,
		`hetzner_server_info{account="",architecture="",id="43",image="",name="",region="",server_type=""} 1`,
		`hetzner_server_info{account="acme",architecture="",id="42",image="debian-12",name="web-42",region="fsn1",server_type="cx22"} 1`,
		`hetzner_server_memory_bytes{id="42"} 4.294967296e+09`,
		`hetzner_server_price_eur_per_hour{id="42"} 0.006`,
		`hetzner_server_state{id="42",state="active"} 1`,
		`hetzner_server_status{id="42",status="running"} 1`,
		`hetzner_server_traffic_included_bytes{id="42"} 2e+13`,
		`hetzner_server_traffic_outgoing_bytes{id="42"} 0`,
		`hetzner_server_vcpus{id="42"} 2`,
		`inventory_interval_seconds{} 600`,
		`inventory_interval_seconds{} 600`,
		`inventory_resources{type="server"} 2`,
		`inventory_resources{type="volume"} 0`,
		`inventory_snapshot_age_seconds{} 60`,
		`inventory_snapshot_age_seconds{} 300`,
		`inventory_snapshot_duration_seconds{} 2`,
		`inventory_snapshot_duration_seconds{} 2`,
		`inventory_snapshot_timestamp_seconds{} 1.79362074e+09`,
		`inventory_snapshot_timestamp_seconds{} 1.7936205e+09`,
		`inventory_unexported_resources{} 0`,
		`inventory_unexported_resources{} 0`,
		`inventory_unknown_values{metric="tollgate_hetzner_server_created_timestamp_seconds"} 1`,
		`inventory_unknown_values{metric="tollgate_hetzner_server_disk_bytes"} 1`,
		`inventory_unknown_values{metric="tollgate_hetzner_server_memory_bytes"} 1`,
		`inventory_unknown_values{metric="tollgate_hetzner_server_price_eur_per_hour"} 1`,
		`inventory_unknown_values{metric="tollgate_hetzner_server_state"} 1`,
		`inventory_unknown_values{metric="tollgate_hetzner_server_status"} 1`,
		`inventory_unknown_values{metric="tollgate_hetzner_server_traffic_included_bytes"} 1`,
		`inventory_unknown_values{metric="tollgate_hetzner_server_traffic_outgoing_bytes"} 1`,
		`inventory_unknown_values{metric="tollgate_hetzner_server_vcpus"} 1`,
		`inventory_unreadable_entries{} 0`,
		`inventory_unreadable_entries{} 1`,
	}); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
	problems, err := testutil.CollectAndLint(r)
	if err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
}

// Two sources, and two streams of one, may have the same ids.
func TestStreamsAreApart(t *testing.T) {
	t.Parallel()
	r := newRig(t, exporter.Options{}, "a/server", "b/server", "b/more")
	for _, s := range r.streams {
		r.put(s.Source, s.Stream, now, server("42"))
	}
	r.put("stray", "server", now, server("42"))
	got := testutil.CollectAndCount(r, "tollgate_hetzner_server_info")
	if got != 3 {
		t.Errorf("%d series, want one of each configured stream", got)
	}
}

// A snapshot is shown until it is three intervals old, and at once no more when
// its stream is not configured.
func TestOldSnapshotsAreDropped(t *testing.T) {
	t.Parallel()
	r := newRig(t, exporter.Options{}, "h/server", "h/volume")
	r.put("h", "server", now, server("42"))
	count := func() (resources, ages, intervals int) {
		t.Helper()
		n := map[string]int{}
		for _, line := range text(t, r) {
			name, _, _ := strings.Cut(line, "{")
			n[name]++
		}
		return n["hetzner_server_info"], n["inventory_snapshot_age_seconds"], n["inventory_interval_seconds"]
	}
	for _, tt := range []struct {
		after                      time.Duration
		resources, ages, intervals int
	}{
		{0, 1, 1, 2}, {-time.Minute, 1, 1, 2}, {30*time.Minute + 2*time.Second, 1, 1, 2}, {30*time.Minute + 3*time.Second, 0, 0, 2}, {0, 1, 1, 2},
	} {
		r.clock = now.Add(tt.after)
		if a, b, c := count(); a != tt.resources || b != tt.ages || c != tt.intervals {
			t.Errorf("after %v: %d resources, %d ages, %d intervals, want %v", tt.after, a, b, c, tt)
		}
	}
	r.put("h", "server", now.Add(time.Minute), server("42"), server("43"))
	if n, _, _ := count(); n != 2 {
		t.Errorf("%d resources after another listing, want 2", n)
	}
	r.streams = r.streams[1:]
	if a, b, c := count(); a+b != 0 || c != 1 {
		t.Errorf("%d resources, %d ages, %d intervals of a stream that is not configured", a, b, c)
	}
}

// What does not fit is counted, and the same resources are shown each time.
func TestSeriesAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t, exporter.Options{MaxSeries: 3 * 10}, "h/server")
	var all []source.Existing
	for i := range 10 {
		all = append(all, server(fmt.Sprint(i)))
	}
	all = append(all, source.Existing{Resource: event.Resource{Type: "network", ID: "1"}})
	var first []string
	for round := range 3 {
		r.put("h", "server", now.Add(time.Duration(round)*time.Second), all...)
		var shown []string
		for _, line := range text(t, r) {
			if strings.HasPrefix(line, "hetzner_server_info") || strings.HasPrefix(line, "inventory_unexported") || strings.HasPrefix(line, "inventory_resources") {
				shown = append(shown, line)
			}
		}
		if round == 0 {
			if first = shown; len(first) != 3+3 || !strings.Contains(first[0], `id="0"`) ||
				!strings.HasSuffix(first[3], `{type="network"} 1`) || !strings.HasSuffix(first[4], `{type="server"} 10`) || !strings.HasSuffix(first[5], "{} 8") {
				t.Fatalf("shown: %q", first)
			}
		}
		if diff := cmp.Diff(shown, first); diff != "" {
			t.Errorf("round %d (-got +first):\n%s", round, diff)
		}
		all = append(all[1:], all[0])
	}
	if !strings.Contains(r.logs.String(), "too many resources") {
		t.Errorf("nothing is said: %s", &r.logs)
	}
}

// Nothing that a platform or a type does wrong costs more than its own series.
func TestMistakesCostTheirOwnSeriesOnly(t *testing.T) {
	t.Parallel()
	typ := hetzner.Type()
	typ.Exports = []source.Export{{Type: event.Server, Families: []source.Family{
		source.InfoFamily("name"),
		{Name: "broken", Help: "Panics.", Read: func(e source.Existing) []source.Sample {
			if e.Resource.ID == "2" {
				e.Info["x"] = "y" // of a nil map
			}
			return []source.Sample{{Value: 1}}
		}},
		{Name: "labels", Help: "Has too many.", Read: func(source.Existing) []source.Sample { return []source.Sample{{Labels: []string{"a"}}} }},
		source.ValueFamily("ratio", "May be no number."),
	}}}
	r := newRig(t, exporter.Options{Types: []source.Type{typ}}, "h/server")
	one := server("1")
	one.Values = map[string]float64{"ratio": math.NaN()}
	two := server("2")
	two.Info, two.Values = nil, map[string]float64{"ratio": 0.5}
	three := server("3")
	three.Resource.Name = "caf\xff" + strings.Repeat("x", 1000)
	r.put("h", "server", now, two, one, one, three)
	var got []string
	for _, line := range text(t, r) {
		if strings.HasPrefix(line, "hetzner") {
			got = append(got, line)
		}
	}
	if diff := cmp.Diff(got, []string{
		`hetzner_server_broken{id="1"} 1`, `hetzner_server_broken{id="3"} 1`,
		`hetzner_server_info{id="1",name="web-1"} 1`, `hetzner_server_info{id="2",name="web-2"} 1`,
		`hetzner_server_info{id="3",name="caf` + strings.Repeat("x", 252) + `"} 1`,
		`hetzner_server_ratio{id="2"} 0.5`,
	}); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
	if n := strings.Count(r.logs.String(), "cannot be shown"); n != 1 {
		t.Errorf("said %d times, want once: %s", n, &r.logs)
	}
}

// A platform may have other names, other identities and parts of its own.
func TestOtherNames(t *testing.T) {
	t.Parallel()
	typ := source.Type{Name: "gardener", Kinds: []source.Kind{{Type: event.Shoot}}, Exports: []source.Export{{
		Type: event.Shoot, Prefix: "gardener_shoot", Identity: []string{"project", "name"},
		Families: []source.Family{
			source.InfoFamily("kubernetes_version", "infrastructure"),
			source.EachValue("worker_count", "Workers that a pool wants.", "pool", "worker_count/"),
			source.EachWord("worker_machine_type", "1 for the machine type of a pool.", "pool", "type", "machine_type/"),
			source.ValueFamily("hibernation_wanted", "1 when the shoot is to hibernate."),
			source.ValueFamily("hibernated", "1 when the shoot hibernates."),
		},
	}}}
	if err := source.CheckExports(typ); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, exporter.Options{Types: []source.Type{typ}}, "g/shoot")
	shoot := source.Existing{
		Resource: event.Resource{Type: event.Shoot, ID: "uid", Name: "web"},
		Info: map[string]string{"project": "alpha", "kubernetes_version": "1.33.4", "infrastructure": "openstack",
			"machine_type/a": "m1.small", "machine_type/b": "m1.xlarge"},
		// Put to sleep, and not asleep yet.
		Values: map[string]float64{"worker_count/a": 3, "worker_count/b": 0, "hibernation_wanted": 1, "hibernated": 0},
	}
	r.store.Put(inventory.Listed{
		StreamKey: inventory.StreamKey{Source: "g", Stream: "shoot"}, Platform: event.Gardener, Snapshot: source.Snapshot{At: now, Resources: []source.Existing{shoot}}})
	var got []string
	for _, line := range text(t, r) {
		if strings.HasPrefix(line, "gardener") {
			got = append(got, line)
		}
	}
	if diff := cmp.Diff(got, []string{
		`gardener_shoot_hibernated{name="web",project="alpha"} 0`,
		`gardener_shoot_hibernation_wanted{name="web",project="alpha"} 1`,
		`gardener_shoot_info{infrastructure="openstack",kubernetes_version="1.33.4",name="web",project="alpha"} 1`,
		`gardener_shoot_worker_count{name="web",pool="a",project="alpha"} 3`,
		`gardener_shoot_worker_count{name="web",pool="b",project="alpha"} 0`,
		`gardener_shoot_worker_machine_type{name="web",pool="a",project="alpha",type="m1.small"} 1`,
		`gardener_shoot_worker_machine_type{name="web",pool="b",project="alpha",type="m1.xlarge"} 1`,
	}); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
}

// Snapshots and configurations change while many scrape.
func TestConcurrentScrapes(t *testing.T) {
	t.Parallel()
	r := newRig(t, exporter.Options{}, "h/server", "h/volume")
	reg := prometheus.NewRegistry()
	reg.MustRegister(r)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 25 {
				families, err := reg.Gather()
				if err != nil {
					t.Error(err)
				}
				// A scrape shows one snapshot and not halves of two.
				n := map[string]int{}
				for _, f := range families {
					n[f.GetName()] = len(f.GetMetric())
				}
				if n["tollgate_hetzner_server_info"] != n["tollgate_hetzner_server_vcpus"] {
					t.Errorf("halves: %v", n)
				}
			}
		})
		all.Go(func() {
			for i := range 25 {
				var list []source.Existing
				for j := range i {
					list = append(list, server(fmt.Sprint(j)))
				}
				r.put("h", "server", now.Add(time.Duration(i)*time.Second), list...)
			}
		})
	}
	all.Wait()
}
