package discovery

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

func TestListShowsOnlyProvenProxies(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Fleet{"one", 2})
	a.source.set("one",
		[]api.FleetRow{
			row("good", func(r *api.FleetRow) {
				r.Placement = provider.Placement{Region: "eu", Zone: "eu-1"}
				r.Labels = map[string]string{"team": "a"}
				r.AuthRef = "secret-name"
				r.Reason, r.InstanceName = "Proven", "proxy-x"
			}),
			row("unproven", func(r *api.FleetRow) { r.Healthy = false }),
			row("deleting", func(r *api.FleetRow) { r.Phase = api.PhaseDeleting }),
			row("replacing", func(r *api.FleetRow) { r.Phase = api.PhaseReplacing }),
			row("no-address", func(r *api.FleetRow) { r.IP = "" }),
		},
		[]api.FleetRow{row("v6", func(r *api.FleetRow) { r.IP = "2001:db8::1" })})
	want := List{
		Items: []Proxy{
			{
				Name: "good", Namespace: "default", Provider: "one", UID: "uid-good", IP: "127.1.0.1", Port: 3128,
				URL: "http://127.1.0.1:3128", Auth: true, Placement: provider.Placement{Region: "eu", Zone: "eu-1"},
				Labels: map[string]string{"team": "a"}, Since: since,
			},
			{
				Name: "v6", Namespace: "default", Provider: "one", UID: "uid-v6", IP: "2001:db8::1", Port: 3128,
				URL: "http://[2001:db8::1]:3128", Labels: map[string]string{}, Since: since,
			},
		},
		Unavailable: []Unavailable{},
	}
	w := a.get("/v1/proxies")
	if diff := cmp.Diff(want, decode[List](t, w, http.StatusOK)); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	if strings.Contains(w.Body.String(), "secret-name") {
		t.Error("the name of a secret is shown")
	}
	if got := w.Header().Get("Content-Type"); got != "application/json" {
		t.Errorf("content type %q", got)
	}
	if _, err := time.Parse(time.RFC3339Nano, w.Header().Get("Tollgate-As-Of")); err != nil {
		t.Errorf("Tollgate-As-Of: %v", err)
	}
}

func TestLatestReportDecidesWhileRowsMove(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Fleet{"one", 2})
	leaving := row("p", func(r *api.FleetRow) { r.Seq, r.Healthy, r.Phase = 2, false, api.PhaseDeleting })
	a.source.set("one", []api.FleetRow{row("p")}, []api.FleetRow{leaving})
	if got := a.list("/v1/proxies"); len(got.Items) != 0 {
		t.Errorf("a proxy that leaves is listed by its old row: %+v", got.Items)
	}
}

func TestFilters(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Fleet{"one", 1}, Fleet{"two", 1})
	at := func(region, zone string, labels ...string) func(*api.FleetRow) {
		return func(r *api.FleetRow) {
			r.Placement = provider.Placement{Region: region, Zone: zone}
			r.Labels = map[string]string{}
			for i := 0; i < len(labels); i += 2 {
				r.Labels[labels[i]] = labels[i+1]
			}
		}
	}
	a.source.set("two", []api.FleetRow{
		row("c", at("us", "us-1", "team", "blue", "env", "prod")),
		row("a", at("eu", "eu-1", "team", "red")),
	})
	a.source.set("one", []api.FleetRow{
		row("b", at("eu", "eu-2", "team", "green"), func(r *api.FleetRow) { r.Namespace = "ops" }),
		row("d", at("eu", "eu-1")),
	})
	for query, want := range map[string]string{
		"":                                            "one/default/d one/ops/b two/default/a two/default/c",
		"provider=two":                                "two/default/a two/default/c",
		"provider=two&provider=one":                   "one/default/d one/ops/b two/default/a two/default/c",
		"namespace=ops":                               "one/ops/b",
		"namespace=none":                              "",
		"region=eu":                                   "one/default/d one/ops/b two/default/a",
		"region=us&region=eu&zone=eu-1":               "one/default/d two/default/a",
		"zone=us-1":                                   "two/default/c",
		"labelSelector=team%3Dred":                    "two/default/a",
		"labelSelector=team%3D%3Dred":                 "two/default/a",
		"labelSelector=team!%3Dred":                   "one/default/d one/ops/b two/default/c",
		"labelSelector=team":                          "one/ops/b two/default/a two/default/c",
		"labelSelector=!team":                         "one/default/d",
		"labelSelector=team+in+(red,blue)":            "two/default/a two/default/c",
		"labelSelector=team+notin+(red,blue)":         "one/default/d one/ops/b",
		"labelSelector=team+in+(red,blue),env%3Dprod": "two/default/c",
		"labelSelector=team%3Dblue&labelSelector=env": "two/default/c",
		"labelSelector=":                              "one/default/d one/ops/b two/default/a two/default/c",
		"partial=allow":                               "one/default/d one/ops/b two/default/a two/default/c",
		"provider=two&region=eu&labelSelector=team%3Dred": "two/default/a",
	} {
		if got := names(a.list("/v1/proxies?" + query).Items); got != want {
			t.Errorf("?%s = %q, want %q", query, got, want)
		}
	}
}

func TestWrongParameters(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Fleet{"one", 1}, Fleet{"two", 1})
	const list, pick = "/v1/proxies?", "/v1/proxies/pick?"
	for path, want := range map[string]string{
		list + "regoin=eu":               "regoin: is unknown: allowed are provider, namespace, region, zone, labelSelector, partial, wait",
		list + "healthy=false":           "healthy: is unknown: allowed are provider, namespace, region, zone, labelSelector, partial, wait",
		pick + "wait=3s":                 "wait: is unknown: allowed are provider, namespace, region, zone, labelSelector, partial, strategy, key",
		list + "provider=three":          `provider: "three" is not configured: use one of one, two`,
		list + "wait=2m":                 `wait: "2m" is out of range: use a duration from 0s to 1m0s`,
		list + "wait=30":                 `wait: "30" is out of range: use a duration from 0s to 1m0s`,
		list + "wait=1s&wait=2s":         "wait: is given 2 times: once is allowed",
		list + "partial=maybe":           `partial: "maybe" is unknown: use allow or refuse`,
		list + "labelSelector=a+b":       `labelSelector: "a b" has no valid key: ` + selectorSyntax,
		list + "labelSelector=a,,b":      `labelSelector: "" has no valid key: ` + selectorSyntax,
		list + "labelSelector=a%3Db%3Dc": `labelSelector: "a=b=c" has the value "b=c", which no label can have: ` + selectorSyntax,
		list + "labelSelector=a+of+(b)":  `labelSelector: "a of (b)" is no term: ` + selectorSyntax,
		list + "labelSelector=(b)":       `labelSelector: "(b)" is no term: ` + selectorSyntax,
		pick + "strategy=best":           `strategy: "best" is unknown: use random, least-recent or hash`,
		pick + "strategy=hash":           "key: is required with strategy=hash",
		pick + "key=a":                   "key: has no effect with strategy=random: use strategy=hash",
		list + "partial=maybe&regoin=eu": `partial: "maybe" is unknown: use allow or refuse; regoin: is unknown: allowed are provider, namespace, region, zone, labelSelector, partial, wait`,
		list + "a=%zz":                   `the query string is malformed: invalid URL escape "%zz"`,
	} {
		p := decode[Problem](t, a.get(path), http.StatusBadRequest)
		if p.Detail != want {
			t.Errorf("%s:\n got %s\nwant %s", path, p.Detail, want)
		}
		if p.Type != problemInvalid || len(p.Parameters) == 0 {
			t.Errorf("%s: problem %+v", path, p)
		}
	}
}

func TestUnavailableProviders(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Fleet{"one", 1}, Fleet{"two", 2})
	a.source.set("one", []api.FleetRow{row("a")})
	// One of two shards is missing: a part of a fleet is not shown as all of it.
	a.source.set("two", []api.FleetRow{row("b")})
	const detail = "it is not started yet"

	got := a.list("/v1/proxies")
	want := []Unavailable{{"two", detail}}
	if diff := cmp.Diff(want, got.Unavailable); diff != "" || !got.Partial || names(got.Items) != "one/default/a" {
		t.Errorf("list = %+v", got)
	}
	for _, path := range []string{
		"/v1/proxies?provider=two", "/v1/proxies?provider=two&provider=one", "/v1/proxies?partial=refuse",
		"/v1/proxies/pick?provider=two", "/v1/proxies/pick?partial=refuse",
		"/v1/proxies/pick?namespace=none", // perhaps two has one
	} {
		w := a.get(path)
		p := decode[Problem](t, w, http.StatusServiceUnavailable)
		if p.Type != problemUnavailable || p.Detail != "provider two: "+detail || w.Header().Get("Retry-After") == "" {
			t.Errorf("%s = %+v", path, p)
		}
		if diff := cmp.Diff(want, p.Unavailable); diff != "" {
			t.Errorf("%s: unavailable %s", path, diff)
		}
	}
	if p := decode[Proxy](t, a.get("/v1/proxies/pick"), http.StatusOK); p.Name != "a" {
		t.Errorf("pick = %+v", p)
	}
	if got := a.list("/v1/proxies?provider=one"); got.Partial || len(got.Items) != 1 {
		t.Errorf("a provider that is well suffers from another: %+v", got)
	}
}

func TestNothingReadableIs503(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Fleet{"one", 1}, Fleet{"two", 1})
	a.source.fail("one", errors.New("first"))
	a.source.fail("two", errors.New("second"))
	p := decode[Problem](t, a.get("/v1/proxies"), http.StatusServiceUnavailable)
	if p.Detail != "provider one: first; provider two: second" {
		t.Errorf("detail %q", p.Detail)
	}
}

func TestAnOldTableIsNotServedWhenTheNewOneCannotBeRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, Fleet{"one", 1})
		a.source.set("one", []api.FleetRow{row("a")})
		if got := a.list("/v1/proxies"); len(got.Items) != 1 {
			t.Fatalf("list = %+v", got)
		}
		a.source.mu.Lock()
		a.source.delay = time.Hour
		a.source.mu.Unlock()
		time.Sleep(DefaultMaxAge + time.Millisecond)
		began := time.Now()
		p := decode[Problem](t, a.get("/v1/proxies"), http.StatusServiceUnavailable)
		if took := time.Since(began); took != DefaultReadTimeout {
			t.Errorf("answered after %s, want %s", took, DefaultReadTimeout)
		}
		if p.Detail != "provider one: it does not answer in time; is a worker running?" {
			t.Errorf("detail %q", p.Detail)
		}
	})
}

func TestAnswersAreSharedAndNeverOlderThanMaxAge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, Fleet{"one", 1})
		a.source.delay = DefaultMaxAge * 2 / 5
		a.source.set("one", []api.FleetRow{row("a")})
		const clients = 50
		answers := make(chan int, clients)
		ask := func() {
			for range clients {
				go func() { answers <- len(a.list("/v1/proxies").Items) }()
			}
		}
		ask()
		for range clients {
			<-answers
		}
		if got := a.source.count("one"); got != 1 {
			t.Errorf("%d readings for %d clients at once, want 1", got, clients)
		}
		// Twice as old it is still shared.
		time.Sleep(DefaultMaxAge * 2 / 5)
		a.list("/v1/proxies")
		if got := a.source.count("one"); got != 1 {
			t.Errorf("%d readings within the age that is allowed, want 1", got)
		}
		// Beyond it, the proxy that has left is not shown any more.
		time.Sleep(DefaultMaxAge/5 + time.Millisecond)
		a.source.set("one", []api.FleetRow{})
		if got := a.list("/v1/proxies"); len(got.Items) != 0 {
			t.Errorf("an answer older than %s: %+v", DefaultMaxAge, got)
		}
		if got := a.source.most; got != 1 {
			t.Errorf("%d readings at the same time", got)
		}
	})
}

func TestAFailureIsRememberedForASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, Fleet{"one", 1})
		a.source.fail("one", errors.New("down"))
		for range 5 {
			a.get("/v1/proxies")
			time.Sleep(150 * time.Millisecond)
		}
		if got := a.source.count("one"); got != 1 {
			t.Errorf("%d readings of a provider that is down within 750 ms, want 1", got)
		}
		a.source.fail("one", nil)
		time.Sleep(maxErrAge)
		if w := a.get("/v1/proxies"); w.Code != http.StatusOK {
			t.Errorf("status %d after it is up again", w.Code)
		}
	})
}

func TestProvidersOfAReloadAreServed(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Fleet{"one", 1})
	a.source.set("one", []api.FleetRow{row("a")})
	a.source.set("two", []api.FleetRow{row("b")}, []api.FleetRow{row("c")})
	a.list("/v1/proxies")
	a.mu.Lock()
	a.fleets = []Fleet{{"two", 2}}
	a.mu.Unlock()
	if got := names(a.list("/v1/proxies").Items); got != "two/default/b two/default/c" {
		t.Errorf("list = %s", got)
	}
	if w := a.get("/v1/proxies?provider=one"); w.Code != http.StatusBadRequest {
		t.Errorf("a provider that is configured no more: status %d", w.Code)
	}
}

func TestATableOfAnotherShardIsRefused(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Fleet{"one", 1})
	a.source.mu.Lock()
	a.source.tables["one"] = []api.FleetTable{{Provider: "two", Shard: 3}}
	a.source.mu.Unlock()
	p := decode[Problem](t, a.get("/v1/proxies"), http.StatusServiceUnavailable)
	if want := "provider one: shard 0 of one answered as shard 3 of two"; p.Detail != want {
		t.Errorf("detail %q, want %q", p.Detail, want)
	}
}
