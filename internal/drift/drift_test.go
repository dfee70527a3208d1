package drift_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/drift"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

const ours = "acme"

var listedAt = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// old is long enough before the listing, fresh is not.
var (
	old   = listedAt.Add(-time.Hour)
	fresh = listedAt.Add(-drift.Lag)
)

func instance(n int, edit ...func(*provider.Instance)) provider.Instance {
	uid := fmt.Sprintf("uid-%02d", n)
	i := provider.Instance{
		ID: provider.InstanceID(fmt.Sprintf("id-%02d", n)), Name: provider.InstanceName(uid, 0),
		IP: netip.AddrFrom4([4]byte{10, 0, 0, byte(n)}), State: provider.StateRunning, CreatedAt: old,
		Marks: provider.Marks{UID: uid, Installation: ours, Namespace: "default", Proxy: fmt.Sprintf("p%02d", n)},
	}
	for _, e := range edit {
		e(&i)
	}
	return i
}

func row(n int, edit ...func(*api.FleetRow)) api.FleetRow {
	i := instance(n)
	r := api.FleetRow{
		UID: i.Marks.UID, Namespace: i.Marks.Namespace, Name: i.Marks.Proxy, Seq: 3, Phase: api.PhaseRunning,
		InstanceID: i.ID, InstanceName: i.Name, IP: i.IP.String(), Port: 3128, Own: []string{i.Name}, Healthy: true, Since: old,
	}
	for _, e := range edit {
		e(&r)
	}
	return r
}

func TestCompare(t *testing.T) {
	t.Parallel()
	stopped := func(i *provider.Instance) { i.State, i.RawState = provider.StateStopped, "off" }
	for name, tc := range map[string]struct {
		rows    []api.FleetRow
		listing []provider.Instance
		want    []string
	}{
		"nothing":                            {nil, nil, nil},
		"all is well":                        {[]api.FleetRow{row(1), row(2)}, []provider.Instance{instance(2), instance(1)}, nil},
		"missing":                            {[]api.FleetRow{row(1), row(2)}, []provider.Instance{instance(2)}, []string{"uid-01 Missing id-01 "}},
		"all missing":                        {[]api.FleetRow{row(2), row(1)}, nil, []string{"uid-01 Missing id-01 ", "uid-02 Missing id-02 "}},
		"missing, new":                       {[]api.FleetRow{row(1, func(r *api.FleetRow) { r.Since = fresh })}, nil, nil},
		"missing, changed after the listing": {[]api.FleetRow{row(1, func(r *api.FleetRow) { r.Since = listedAt.Add(time.Second) })}, nil, nil},
		"missing, time unknown":              {[]api.FleetRow{row(1, func(r *api.FleetRow) { r.Since = time.Time{} })}, nil, []string{"uid-01 Missing id-01 "}},
		"still provisioning":                 {[]api.FleetRow{row(1, func(r *api.FleetRow) { r.Phase = api.PhaseProvisioning })}, nil, nil},
		"replacing":                          {[]api.FleetRow{row(1, func(r *api.FleetRow) { r.Phase = api.PhaseReplacing })}, nil, nil},
		"deleting":                           {[]api.FleetRow{row(1, func(r *api.FleetRow) { r.Phase = api.PhaseDeleting })}, nil, nil},
		"running without an id":              {[]api.FleetRow{row(1, func(r *api.FleetRow) { r.InstanceID = "" })}, nil, nil},
		"stopped":                            {[]api.FleetRow{row(1)}, []provider.Instance{instance(1, stopped)}, []string{"uid-01 Stopped id-01 off"}},
		"terminated": {[]api.FleetRow{row(1)},
			[]provider.Instance{instance(1, func(i *provider.Instance) { i.State = provider.StateTerminated })}, []string{"uid-01 Stopped id-01 Terminated"}},
		"stopped, new": {[]api.FleetRow{row(1, func(r *api.FleetRow) { r.Since = fresh })}, []provider.Instance{instance(1, stopped)}, nil},
		"reboots": {[]api.FleetRow{row(1)},
			[]provider.Instance{instance(1, func(i *provider.Instance) { i.State, i.IP = provider.StateProvisioning, netip.Addr{} })}, nil},
		"moved": {[]api.FleetRow{row(1)},
			[]provider.Instance{instance(1, func(i *provider.Instance) { i.IP = netip.MustParseAddr("10.9.9.9") })}, []string{"uid-01 Moved id-01 "}},
		"extra": {[]api.FleetRow{row(1)},
			[]provider.Instance{instance(1), instance(1, func(i *provider.Instance) { i.ID, i.Name = "id-99", "proxy-x" })}, []string{"uid-01 Extra id-99 Running"}},
		"extra beside missing": {[]api.FleetRow{row(1)},
			[]provider.Instance{instance(1, func(i *provider.Instance) { i.ID, i.Name = "id-99", "proxy-x" })},
			[]string{"uid-01 Extra id-99 Running", "uid-01 Missing id-01 "}},
		"extra, new": {[]api.FleetRow{row(1)},
			[]provider.Instance{instance(1), instance(1, func(i *provider.Instance) { i.ID, i.Name, i.CreatedAt = "id-99", "proxy-x", fresh })}, nil},
		"extra, age unknown": {[]api.FleetRow{row(1)},
			[]provider.Instance{instance(1), instance(1, func(i *provider.Instance) { i.ID, i.Name, i.CreatedAt = "id-99", "proxy-x", time.Time{} })},
			[]string{"uid-01 Extra id-99 Running"}},
		"the next instance is no extra": {[]api.FleetRow{row(1, func(r *api.FleetRow) { r.Own = append(r.Own, "proxy-next") })},
			[]provider.Instance{instance(1), instance(1, func(i *provider.Instance) { i.ID, i.Name = "id-99", "proxy-next" })}, nil},
		"extra of a proxy that just changed": {[]api.FleetRow{row(1, func(r *api.FleetRow) { r.Since = fresh })},
			[]provider.Instance{instance(1), instance(1, func(i *provider.Instance) { i.ID, i.Name = "id-99", "proxy-x" })}, nil},
		"no row":      {nil, []provider.Instance{instance(1)}, []string{"uid-01 ReportWanted  "}},
		"no row, new": {nil, []provider.Instance{instance(1, func(i *provider.Instance) { i.CreatedAt = fresh })}, nil},
		"no row, two instances": {nil, []provider.Instance{instance(1), instance(1, func(i *provider.Instance) { i.ID = "id-99" })},
			[]string{"uid-01 ReportWanted  "}},
		"no row, no name":    {nil, []provider.Instance{instance(1, func(i *provider.Instance) { i.Marks.Proxy = "" })}, nil},
		"no uid":             {nil, []provider.Instance{instance(1, func(i *provider.Instance) { i.Marks.UID = "" })}, nil},
		"other installation": {nil, []provider.Instance{instance(1, func(i *provider.Instance) { i.Marks.Installation = "other" })}, nil},
		"the same in two shards, the later one wins": {
			[]api.FleetRow{row(1, func(r *api.FleetRow) { r.Seq, r.Phase = 4, api.PhaseDeleting }), row(1)}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := drift.Compare(drift.Input{Installation: ours, ListedAt: listedAt, Listing: tc.listing, Rows: tc.rows})
			if diff := cmp.Diff(tc.want, words(got)); diff != "" {
				t.Errorf("Compare (-want +got):\n%s", diff)
			}
			for _, o := range got {
				if !o.Observation.At.Equal(listedAt) || o.Namespace != "default" || o.Name == "" {
					t.Errorf("observation %+v lacks its time or its proxy", o)
				}
			}
		})
	}
}

func TestCompareWithoutAnInstallationSeesNothingOfItsOwn(t *testing.T) {
	t.Parallel()
	i := instance(1, func(i *provider.Instance) { i.Marks.Installation = "" })
	if got := drift.Compare(drift.Input{ListedAt: listedAt, Listing: []provider.Instance{i}}); len(got) != 0 {
		t.Errorf("Compare = %v, want nothing", words(got))
	}
}

func words(items []api.FleetObservation) []string {
	var out []string
	for _, i := range items {
		o := i.Observation
		out = append(out, fmt.Sprintf("%s %s %s %s", i.UID, o.Kind, o.InstanceID, o.Reason))
	}
	return out
}

// life is one proxy of a simulated fleet: what was true when.
type life struct {
	n                int
	created, running time.Time
	gone             time.Time // zero: never
	// told is whether the proxy knows that its instance is gone.
	told bool
}

// TestCompareAgainstSimulatedFleets makes fleets with instances that come, go
// and vanish around a listing that lags behind by up to drift.Lag, and a table
// that is read afterwards.
func TestCompareAgainstSimulatedFleets(t *testing.T) {
	t.Parallel()
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 1))
		at := func(from, to time.Duration) time.Time {
			return listedAt.Add(from + time.Duration(rng.Int64N(int64(to-from))))
		}
		var lives []life
		for n := range 1 + rng.IntN(40) {
			l := life{n: n, created: at(-10*time.Minute, 2*time.Minute), told: rng.IntN(2) == 0}
			l.running = l.created.Add(time.Duration(rng.Int64N(int64(2 * time.Minute))))
			if rng.IntN(2) == 0 {
				l.gone = at(-8*time.Minute, 2*time.Minute)
				if l.gone.Before(l.running) {
					l.gone = time.Time{}
				}
			}
			lives = append(lives, l)
		}
		readAt := listedAt.Add(time.Duration(rng.Int64N(int64(30 * time.Second))))
		in := drift.Input{Installation: ours, ListedAt: listedAt}
		for _, l := range lives {
			lag := time.Duration(rng.Int64N(int64(drift.Lag)))
			seen := listedAt.Add(-lag)
			if l.created.Before(seen) && (l.gone.IsZero() || l.gone.After(seen)) {
				in.Listing = append(in.Listing, instance(l.n, func(i *provider.Instance) { i.CreatedAt = l.created }))
			}
			switch {
			case readAt.Before(l.created):
			case readAt.Before(l.running):
				in.Rows = append(in.Rows, row(l.n, func(r *api.FleetRow) { r.Phase, r.Since, r.InstanceID = api.PhaseProvisioning, l.created, "" }))
			case l.told && !l.gone.IsZero() && readAt.After(l.gone):
				in.Rows = append(in.Rows, row(l.n, func(r *api.FleetRow) { r.Phase, r.Since = api.PhaseReplacing, l.gone }))
			default:
				in.Rows = append(in.Rows, row(l.n, func(r *api.FleetRow) { r.Since = l.running }))
			}
		}
		got := drift.Compare(in)
		missing := map[string]bool{}
		for _, o := range got {
			if o.Observation.Kind == api.ObservedMissing {
				missing[o.UID] = true
			} else {
				t.Errorf("seed %d: %s of %s", seed, o.Observation.Kind, o.UID)
			}
		}
		for _, l := range lives {
			uid := instance(l.n).Marks.UID
			vanished := !l.gone.IsZero() && !l.told
			if missing[uid] && !vanished {
				t.Errorf("seed %d: %s is said to be missing and is not: %+v", seed, uid, l)
			}
			if vanished && l.gone.Before(listedAt.Add(-drift.Lag)) && l.running.Before(listedAt.Add(-drift.Lag-time.Second)) && !missing[uid] {
				t.Errorf("seed %d: %s is missing and nobody says so: %+v", seed, uid, l)
			}
		}
		shuffled := in
		shuffled.Rows, shuffled.Listing = slices.Clone(in.Rows), slices.Clone(in.Listing)
		rng.Shuffle(len(shuffled.Rows), func(i, j int) { shuffled.Rows[i], shuffled.Rows[j] = shuffled.Rows[j], shuffled.Rows[i] })
		rng.Shuffle(len(shuffled.Listing), func(i, j int) {
			shuffled.Listing[i], shuffled.Listing[j] = shuffled.Listing[j], shuffled.Listing[i]
		})
		if diff := cmp.Diff(got, drift.Compare(shuffled)); diff != "" {
			t.Errorf("seed %d: the order of the input matters:\n%s", seed, diff)
		}
	}
}

func TestPageCoversEverythingOnce(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 2))
		var items []api.FleetObservation
		for n := range rng.IntN(30) {
			for k := range 1 + rng.IntN(3) {
				items = append(items, api.FleetObservation{UID: fmt.Sprintf("u%02d", n),
					Observation: api.Observation{InstanceID: provider.InstanceID(fmt.Sprint(k))}})
			}
		}
		most := 1 + rng.IntN(7)
		var all []api.FleetObservation
		after := ""
		for range len(items) + 1 {
			page, next := drift.Page(items, after, most)
			if len(page) > most+2 {
				t.Errorf("seed %d: a page of %d, with %d allowed and 3 items of a uid at most", seed, len(page), most)
			}
			all = append(all, page...)
			if next == "" {
				break
			}
			if next <= after {
				t.Fatalf("seed %d: the next page after %q starts after %q", seed, after, next)
			}
			after = next
		}
		if diff := cmp.Diff(items, all); diff != "" {
			t.Errorf("seed %d: pages (-want +got):\n%s", seed, diff)
		}
	}
}

func TestCount(t *testing.T) {
	t.Parallel()
	if got := drift.Count(nil); got != nil {
		t.Errorf("Count(nil) = %v", got)
	}
	items := drift.Compare(drift.Input{Installation: ours, ListedAt: listedAt, Rows: []api.FleetRow{row(1), row(2)},
		Listing: []provider.Instance{instance(3)}})
	if diff := cmp.Diff(map[string]int{"Missing": 2, "ReportWanted": 1}, drift.Count(items)); diff != "" {
		t.Errorf("Count (-want +got):\n%s", diff)
	}
}
