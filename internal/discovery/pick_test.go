package discovery

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/tollgate-dev/tollgate/workflows/api"
)

func fleetOf(n int) []api.FleetRow {
	rows := make([]api.FleetRow, n)
	for i := range rows {
		rows[i] = row(fmt.Sprintf("p%02d", i))
	}
	return rows
}

func (a *testAPI) pick(query string) string {
	a.t.Helper()
	w := a.get("/v1/proxies/pick?" + query)
	if got := w.Header().Get("Cache-Control"); got != "no-store" {
		a.t.Errorf("Cache-Control %q: a cached pick is no pick", got)
	}
	return decode[Proxy](a.t, w, http.StatusOK).Name
}

func TestPickRandomReachesEveryProxy(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Fleet{"one", 1})
	a.source.set("one", fleetOf(5))
	seen := map[string]int{}
	for range 500 {
		seen[a.pick("")]++
	}
	// The chance that one of five is missed in 500 picks is below 1e-47.
	if len(seen) != 5 {
		t.Errorf("picked %v", seen)
	}
}

func TestPickLeastRecentGoesRound(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Fleet{"one", 1})
	a.source.set("one", fleetOf(4))
	seen := map[string]int{}
	for range 12 {
		seen[a.pick("strategy=least-recent")]++
	}
	for name, n := range seen {
		if n != 3 {
			t.Errorf("%s was picked %d times of 12, want 3", name, n)
		}
	}
	if len(seen) != 4 {
		t.Errorf("picked %v", seen)
	}
	first := a.pick("strategy=random")
	for range 3 {
		if a.pick("strategy=least-recent") == first {
			t.Errorf("%s was handed out most recently by another strategy, and again", first)
		}
	}
}

func TestPickHashIsStable(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Fleet{"one", 1})
	a.source.set("one", fleetOf(10))
	before := map[string]string{}
	load := map[string]int{}
	const keys = 1000
	for i := range keys {
		k := fmt.Sprintf("host-%d", i)
		before[k] = a.pick("strategy=hash&key=" + k)
		load[before[k]]++
	}
	for name, n := range load {
		if n < keys/10/2 || n > keys/10*2 {
			t.Errorf("%s has %d of %d keys", name, n, keys)
		}
	}
	// Another server, with a memory of its own, and one proxy gone.
	b := newAPI(t, Fleet{"one", 1})
	b.source.set("one", fleetOf(10)[1:])
	for k, was := range before {
		now := b.pick("strategy=hash&key=" + k)
		if was != "p00" && now != was {
			t.Errorf("%s moved from %s, which is still there, to %s", k, was, now)
		}
	}
}

func TestPickFiltersAndFindsNothing(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Fleet{"one", 1})
	a.source.set("one", []api.FleetRow{row("a"), row("b", func(r *api.FleetRow) { r.Namespace = "ops" })})
	if got := a.pick("namespace=ops"); got != "b" {
		t.Errorf("picked %s", got)
	}
	w := a.get("/v1/proxies/pick?namespace=none")
	p := decode[Problem](t, w, http.StatusNotFound)
	if p.Type != problemNoProxy || w.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("problem %+v, content type %q", p, w.Header().Get("Content-Type"))
	}
}

func TestPickerMemoryIsBounded(t *testing.T) {
	t.Parallel()
	var p picker
	for i := range maxUsed + 10 {
		p.note(fmt.Sprint(i))
	}
	if len(p.used) > maxUsed {
		t.Errorf("%d entries", len(p.used))
	}
}
