package discovery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

var since = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// row is a healthy row; the UID is the name's.
func row(name string, change ...func(*api.FleetRow)) api.FleetRow {
	r := api.FleetRow{
		UID: "uid-" + name, Namespace: "default", Name: name, Seq: 1, Phase: api.PhaseRunning,
		IP: "127.1.0.1", Port: 3128, Healthy: true, Since: since,
	}
	for _, c := range change {
		c(&r)
	}
	return r
}

// fakeSource serves tables from memory.
type fakeSource struct {
	mu     sync.Mutex
	tables map[string][]api.FleetTable // by provider
	errs   map[string]error
	// delay holds every reading up.
	delay time.Duration
	reads map[string]int
	// active and most count readings of one shard at once.
	active, most int
}

func (f *fakeSource) set(providerName string, shards ...[]api.FleetRow) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.tables == nil {
		f.tables, f.errs, f.reads = map[string][]api.FleetTable{}, map[string]error{}, map[string]int{}
	}
	f.tables[providerName] = nil
	for i, rows := range shards {
		f.tables[providerName] = append(f.tables[providerName],
			api.FleetTable{Provider: providerName, Shard: i, Shards: len(shards), Rows: rows})
	}
}

func (f *fakeSource) fail(providerName string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errs[providerName] = err
}

func (f *fakeSource) count(providerName string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reads[providerName]
}

func (f *fakeSource) Table(ctx context.Context, providerName string, shard int) (api.FleetTable, error) {
	f.mu.Lock()
	f.reads[providerName]++
	f.active++
	f.most = max(f.most, f.active)
	delay := f.delay
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.active--
		f.mu.Unlock()
	}()
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return api.FleetTable{}, explain(ctx.Err())
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.errs[providerName]; err != nil {
		return api.FleetTable{}, err
	}
	if shard >= len(f.tables[providerName]) {
		return api.FleetTable{}, errors.New("it is not started yet")
	}
	t := f.tables[providerName][shard]
	t.Rows = slices.Clone(t.Rows)
	return t, nil
}

// api is a Server over a fakeSource and the means to ask it.
type testAPI struct {
	t       *testing.T
	source  *fakeSource
	server  *Server
	mux     *http.ServeMux
	metrics *prometheus.Registry

	mu     sync.Mutex
	fleets []Fleet
	token  string
	tokErr error
}

func newAPI(t *testing.T, fleets ...Fleet) *testAPI {
	t.Helper()
	a := &testAPI{t: t, source: &fakeSource{}, mux: http.NewServeMux(), fleets: fleets, metrics: prometheus.NewRegistry()}
	for _, f := range fleets {
		a.source.set(f.Provider, make([][]api.FleetRow, f.Shards)...)
	}
	a.server = New(Options{
		Source: a.source,
		Fleets: func() []Fleet { a.mu.Lock(); defer a.mu.Unlock(); return slices.Clone(a.fleets) },
		Token: func(context.Context) (provider.Sensitive, bool, error) {
			a.mu.Lock()
			defer a.mu.Unlock()
			return provider.NewSensitive([]byte(a.token)), a.token != "", a.tokErr
		},
		Logger: slog.New(slog.DiscardHandler), Metrics: a.metrics,
	})
	a.server.Register(a.mux)
	t.Cleanup(a.server.Close)
	return a
}

// get asks for a path; headers are pairs.
func (a *testAPI) get(path string, headers ...string) *httptest.ResponseRecorder {
	return a.do(a.t.Context(), http.MethodGet, path, headers...)
}

func (a *testAPI) do(ctx context.Context, method, path string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil).WithContext(ctx)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	a.mux.ServeHTTP(w, r)
	return w
}

// list asks for a list, which must be answered with 200.
func (a *testAPI) list(path string) List {
	a.t.Helper()
	return decode[List](a.t, a.get(path), http.StatusOK)
}

func decode[T any](t *testing.T, w *httptest.ResponseRecorder, code int) T {
	t.Helper()
	if w.Code != code {
		t.Fatalf("status %d, want %d: %s", w.Code, code, w.Body)
	}
	var v T
	d := json.NewDecoder(strings.NewReader(w.Body.String()))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, w.Body)
	}
	return v
}

func names(items []Proxy) string {
	var out []string
	for _, p := range items {
		out = append(out, fmt.Sprintf("%s/%s/%s", p.Provider, p.Namespace, p.Name))
	}
	return strings.Join(out, " ")
}
