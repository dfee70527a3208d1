package discovery

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tollgate-dev/tollgate/workflows/api"
)

func TestETag(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Fleet{"one", 1})
	a.source.set("one", []api.FleetRow{row("a"), row("b", func(r *api.FleetRow) { r.Namespace = "ops" })})
	first := a.get("/v1/proxies")
	tag := first.Header().Get("ETag")
	if tag == "" || first.Code != http.StatusOK {
		t.Fatalf("status %d, ETag %q", first.Code, tag)
	}
	for _, header := range []string{tag, "W/" + tag, `"other", ` + tag, "*"} {
		w := a.get("/v1/proxies", "If-None-Match", header)
		if w.Code != http.StatusNotModified || w.Body.Len() != 0 || w.Header().Get("ETag") != tag {
			t.Errorf("If-None-Match %s: status %d, body %q, ETag %q", header, w.Code, w.Body, w.Header().Get("ETag"))
		}
	}
	if w := a.get("/v1/proxies", "If-None-Match", `"other"`); w.Code != http.StatusOK {
		t.Errorf("another tag: status %d", w.Code)
	}
	if w := a.get("/v1/proxies?namespace=ops"); w.Header().Get("ETag") == tag {
		t.Error("another list has the same ETag")
	}
}

// ask starts a request and returns where its answer will be.
func (a *testAPI) ask(ctx context.Context, path string, headers ...string) <-chan *httptest.ResponseRecorder {
	answer := make(chan *httptest.ResponseRecorder, 1)
	go func() { answer <- a.do(ctx, http.MethodGet, path, headers...) }()
	return answer
}

// pending fails when an answer is there already.
func pending(t *testing.T, answer <-chan *httptest.ResponseRecorder) {
	t.Helper()
	synctest.Wait()
	select {
	case w := <-answer:
		t.Fatalf("answered early with %d", w.Code)
	default:
	}
}

func TestLongPollAnswersAtAChangeOfItsOwnList(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, Fleet{"one", 1})
		a.source.set("one", []api.FleetRow{row("a")})
		tag := a.get("/v1/proxies?namespace=default").Header().Get("ETag")
		answer := a.ask(t.Context(), "/v1/proxies?namespace=default&wait=30s", "If-None-Match", tag)
		time.Sleep(10 * time.Second)
		pending(t, answer)

		other := row("b", func(r *api.FleetRow) { r.Namespace = "ops" })
		a.source.set("one", []api.FleetRow{row("a"), other})
		time.Sleep(5 * time.Second)
		pending(t, answer) // not in this list

		a.source.set("one", []api.FleetRow{other})
		changed := time.Now()
		w := <-answer
		if took := time.Since(changed); took > DefaultMaxAge+time.Millisecond {
			t.Errorf("answered %s after the change", took)
		}
		if l := decode[List](t, w, http.StatusOK); len(l.Items) != 0 {
			t.Errorf("list = %+v", l)
		}
		if w.Header().Get("ETag") == tag {
			t.Error("the ETag has not changed")
		}
	})
}

func TestLongPollEndsWithItsWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, Fleet{"one", 1})
		tag := a.get("/v1/proxies").Header().Get("ETag")
		began := time.Now()
		w := a.get("/v1/proxies?wait=30s", "If-None-Match", tag)
		if w.Code != http.StatusNotModified || time.Since(began) != 30*time.Second {
			t.Errorf("status %d after %s, want 304 after 30s", w.Code, time.Since(began))
		}
		// The waiting does not count as the server's work.
		if got := testutil.CollectAndCount(a.server.metrics.duration); got != 1 {
			t.Fatalf("%d series", got)
		}
		reads := a.source.count("one")
		time.Sleep(time.Minute)
		if got := a.source.count("one"); got > reads+1 {
			t.Errorf("%d readings while nobody waits", got-reads)
		}
		if got := testutil.ToFloat64(a.server.metrics.waiters); got != 0 {
			t.Errorf("%v waiters are left", got)
		}
	})
}

func TestLongPollAnswersAtOnceWhenTheListDiffersAlready(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, Fleet{"one", 1})
		began := time.Now()
		for _, headers := range [][]string{{"If-None-Match", `"old"`}, nil} {
			if w := a.get("/v1/proxies?wait=30s", headers...); w.Code != http.StatusOK || time.Since(began) != 0 {
				t.Errorf("%v: status %d after %s", headers, w.Code, time.Since(began))
			}
		}
	})
}

func TestManyLongPollsShareOneReader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, Fleet{"one", 1}, Fleet{"two", 1})
		tag := a.get("/v1/proxies").Header().Get("ETag")
		before := a.source.count("one")
		const clients = 200
		answers := make([]<-chan *httptest.ResponseRecorder, clients)
		for i := range answers {
			answers[i] = a.ask(t.Context(), fmt.Sprintf("/v1/proxies?wait=%ds", 50), "If-None-Match", tag)
		}
		time.Sleep(40 * time.Second)
		synctest.Wait()
		if got := testutil.ToFloat64(a.server.metrics.waiters); got != clients {
			t.Errorf("%v waiters, want %d", got, clients)
		}
		if got, most := a.source.count("one")-before, int(40*time.Second/DefaultMaxAge)+2; got > most {
			t.Errorf("%d readings in 40 s, want at most %d", got, most)
		}
		a.source.set("two", []api.FleetRow{row("a")})
		for _, answer := range answers {
			if l := decode[List](t, <-answer, http.StatusOK); names(l.Items) != "two/default/a" {
				t.Errorf("list = %s", names(l.Items))
			}
		}
	})
}

func TestLongPollSeesAProviderThatIsAddedAndOneThatFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, Fleet{"one", 1})
		tag := a.get("/v1/proxies").Header().Get("ETag")
		answer := a.ask(t.Context(), "/v1/proxies?wait=1m", "If-None-Match", tag)
		time.Sleep(time.Second)
		pending(t, answer)
		a.source.set("two", []api.FleetRow{row("b")})
		a.mu.Lock()
		a.fleets = append(a.fleets, Fleet{"two", 1})
		a.mu.Unlock()
		w := <-answer
		if l := decode[List](t, w, http.StatusOK); names(l.Items) != "two/default/b" {
			t.Errorf("list = %s", names(l.Items))
		}

		answer = a.ask(t.Context(), "/v1/proxies?wait=1m", "If-None-Match", w.Header().Get("ETag"))
		time.Sleep(time.Second)
		pending(t, answer)
		a.source.fail("two", fmt.Errorf("down"))
		l := decode[List](t, <-answer, http.StatusOK)
		if !l.Partial || len(l.Items) != 0 {
			t.Errorf("list = %+v", l)
		}
	})
}

func TestCloseEndsLongPolls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, Fleet{"one", 1})
		tag := a.get("/v1/proxies").Header().Get("ETag")
		answer := a.ask(t.Context(), "/v1/proxies?wait=1m", "If-None-Match", tag)
		time.Sleep(time.Second)
		pending(t, answer)
		a.server.Close()
		if w := <-answer; w.Code != http.StatusNotModified {
			t.Errorf("status %d, want 304", w.Code)
		}
	})
}

func TestLongPollOfAClientThatHasGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, Fleet{"one", 1})
		tag := a.get("/v1/proxies").Header().Get("ETag")
		ctx, cancel := context.WithCancel(t.Context())
		answer := a.ask(ctx, "/v1/proxies?wait=1m", "If-None-Match", tag)
		time.Sleep(time.Second)
		pending(t, answer)
		cancel()
		<-answer
		synctest.Wait()
		if got := testutil.ToFloat64(a.server.metrics.waiters); got != 0 {
			t.Errorf("%v waiters are left", got)
		}
	})
}
