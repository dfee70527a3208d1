package hetzner_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/budget"
	"github.com/tollgate-dev/tollgate/internal/provider/hetzner"
	"github.com/tollgate-dev/tollgate/internal/provider/hetzner/hetznersim"
	"github.com/tollgate-dev/tollgate/internal/provider/hetzner/hetznertest"
)

func TestPrice(t *testing.T) {
	t.Parallel()
	b := newBench(t, setup{})
	for name, tc := range map[string]struct {
		config func(*hetzner.Options)
		at     provider.Placement
		want   provider.MicroEUR
		known  bool
	}{
		"server and address": {nil, provider.Placement{Region: "nbg1", MachineType: "cx23"}, 5_600 + 800, true},
		"without IPv4":       {func(o *hetzner.Options) { o.IPv4 = "none" }, provider.Placement{Region: "nbg1", MachineType: "cx23"}, 5_600, true},
		"dearer elsewhere":   {nil, provider.Placement{Region: "sin", MachineType: "cpx32"}, 27_000 + 800, true},
		"dearest of the candidates": {func(o *hetzner.Options) {
			o.Candidates = []hetzner.Candidate{{"nbg1", "cx23"}, {"fsn1", "cx43"}}
		}, provider.Placement{}, 15_100 + 800, true},
		"one candidate unpriced": {func(o *hetzner.Options) {
			o.Candidates = []hetzner.Candidate{{"nbg1", "cx23"}, {"mars1", "cx43"}}
		}, provider.Placement{}, 0, false},
		"with a volume":    {func(o *hetzner.Options) { o.Volume.SizeGB = 10 }, provider.Placement{Region: "nbg1", MachineType: "cx23"}, 6_400 + 603, true},
		"no such location": {nil, provider.Placement{Region: "mars1", MachineType: "cx23"}, 0, false},
		"no such type":     {nil, provider.Placement{Region: "nbg1", MachineType: "cx1"}, 0, false},
		"not sold there":   {nil, provider.Placement{Region: "ash", MachineType: "cx23"}, 0, false},
	} {
		p := b.open("acme", tc.config)
		got, known, err := p.PriceEURPerHour(t.Context(), tc.at)
		if err != nil || got != tc.want || known != tc.known {
			t.Errorf("%s: %v known %v, %v; want %v known %v", name, got, known, err, tc.want, tc.known)
		}
	}
	b.ForgetRequests()
	for range 3 {
		if _, _, err := b.p.PriceEURPerHour(t.Context(), provider.Placement{}); err != nil {
			t.Fatal(err)
		}
	}
	if n := b.Count("GET /pricing"); n != 1 {
		t.Errorf("the list was read %d times, want once", n)
	}
	b.AddFault(hetznersim.Fault{Kind: hetznersim.FaultError, Code: "unavailable", Path: "/pricing"})
	_, _, err := b.open("acme", nil).PriceEURPerHour(t.Context(), provider.Placement{})
	b.wantClass("an outage", err, provider.Transient)
}

func TestCheck(t *testing.T) {
	t.Parallel()
	b := newBench(t, setup{sim: func(o *hetznersim.Options) { o.RateLimit = 3600 }})
	b.create(b.request())
	st := b.p.Check(t.Context())
	if len(st) != 1 || st[0].Target != "project" || !st[0].Ready || st[0].Details["instances"] != "1" ||
		st[0].Details["requests_per_hour"] != "3600" || st[0].Details["requests_left"] == "" || st[0].Latency <= 0 {
		t.Errorf("%+v", st)
	}
	b.ForgetRequests()
	b.p.Check(t.Context())
	if diff := cmp.Diff([]string{"GET /servers"}, b.calls()); diff != "" {
		t.Errorf("a later round asks (-want +got)\n%s", diff)
	}
	if n := b.kinds()["ssh_key"]; n != 0 {
		t.Errorf("the check made %d keys", n)
	}
	for code, want := range map[string]string{"unauthorized": provider.ReasonUnauthorized, "forbidden": provider.ReasonForbidden,
		"server_error": provider.ReasonAPIError, "maintenance": provider.ReasonAPIError, "rate_limit_exceeded": provider.ReasonThrottled} {
		b.AddFault(hetznersim.Fault{Kind: hetznersim.FaultError, Code: code})
		if st := b.p.Check(t.Context())[0]; st.Ready || st.Reason != want || !strings.Contains(st.Message, code) {
			t.Errorf("%s: %+v, want reason %s", code, st, want)
		}
	}
	// A token that may only read passes the first request and not the second.
	fresh := b.open("acme", nil)
	b.AddFault(hetznersim.Fault{Kind: hetznersim.FaultError, Code: "token_readonly", Method: "POST", Times: -1})
	if st := fresh.Check(t.Context())[0]; st.Ready || st.Reason != provider.ReasonForbidden {
		t.Errorf("read-only token: %+v", st)
	}
	gone := b.open("acme", func(o *hetzner.Options) { o.Endpoint = "http://127.0.0.1:1/v1" })
	if st := gone.Check(t.Context())[0]; st.Ready || st.Reason != provider.ReasonUnreachable {
		t.Errorf("nobody there: %+v", st)
	}
}

func TestNothingIsRetriedByTheClient(t *testing.T) {
	t.Parallel()
	b := newBench(t, setup{})
	in := b.running(b.request())
	for _, f := range []hetznersim.Fault{{Code: "rate_limit_exceeded"}, {Code: "conflict"}, {Code: "timeout"}, {Status: 502}, {Status: 504}} {
		f.Kind, f.Times = hetznersim.FaultError, -1
		id := b.AddFault(f)
		b.ForgetRequests()
		_, _ = b.p.Create(t.Context(), b.request())
		_, _ = b.p.Get(t.Context(), in.ID)
		if n := len(b.calls()); n != 2 {
			t.Errorf("%s %d: %d requests for two calls: %v", f.Code, f.Status, n, b.calls())
		}
		b.RemoveFault(id)
	}
}

func TestTokenIsReadForEveryCall(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	token, failure := "", errors.New("no such file")
	set := func(s string, err error) { mu.Lock(); token, failure = s, err; mu.Unlock() }
	var seen []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen = append(seen, r.Header.Get("Authorization"))
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"error":{"code":"not_found","message":"x"}}`))
	}))
	t.Cleanup(srv.Close)
	p, err := hetzner.New(provider.Config{Name: "cloud", Installation: "acme",
		Secret: func(context.Context, string) (provider.Sensitive, error) {
			mu.Lock()
			defer mu.Unlock()
			return provider.NewSensitive([]byte(token)), failure
		},
		Decode: func(into any) error {
			*into.(*hetzner.Options) = hetzner.Options{Token: "t", Endpoint: srv.URL, Firewall: hetzner.Firewall{AllowFrom: []string{"192.0.2.0/24"}}}
			return nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	get := func() error { _, err := p.Get(t.Context(), "hetzner/1/a/none"); return err }
	for name, bad := range map[string]string{"missing": "", "with a line break": "a\nb", "with an umlaut": "ä"} {
		if name != "missing" {
			set(bad, nil)
		}
		err := get()
		if provider.ClassOf(err) != provider.Transient || provider.ReasonOf(err) != provider.ReasonUnauthorized || len(seen) != 0 {
			t.Errorf("a token %s: %v, requests %v", name, err, seen)
		}
	}
	for _, s := range []string{"first", "second\n"} {
		set(s, nil)
		if err := get(); !errors.Is(err, provider.NotFound) {
			t.Errorf("%v", err)
		}
	}
	if diff := cmp.Diff([]string{"Bearer first", "Bearer second"}, seen); diff != "" {
		t.Errorf("tokens sent (-want +got)\n%s", diff)
	}
}

func TestRequestBudget(t *testing.T) {
	t.Parallel()
	b := newBench(t, setup{sim: func(o *hetznersim.Options) { o.RateLimit = 100 }})
	accounts := budget.New(nil)
	p := b.Backend.Open(b, provider.Config{Name: "cloud", Installation: "acme", Transport: accounts.Transport("cloud"),
		Secret: func(context.Context, string) (provider.Sensitive, error) {
			return provider.NewSensitive([]byte("token")), nil
		}}, nil)
	id, err := p.Create(t.Context(), b.request())
	if err != nil {
		t.Fatal(err)
	}
	b.Spend(hetznertest.Project, 100) // a foreign tool
	_, _ = p.Get(t.Context(), id)     // hears of it
	b.ForgetRequests()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err = p.Get(ctx, id)
	b.wantClass("get without a request left", err, provider.RateLimited)
	var pe *provider.Error
	if !errors.As(err, &pe) || pe.Op != provider.OpGet || pe.ID != string(id) || pe.Provider != "cloud" || !provider.NotSent(err) || pe.RetryAfter <= 0 {
		t.Errorf("%+v", pe)
	}
	if n := len(b.calls()); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
	if st := accounts.Throttler("cloud").Throttle(); !st.Throttled {
		t.Errorf("%+v, want throttled", st)
	}
}

func TestTraces(t *testing.T) {
	rec := tracetest.NewSpanRecorder()
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(rec))
	before := otel.GetTracerProvider()
	otel.SetTracerProvider(tp)
	t.Cleanup(func() { otel.SetTracerProvider(before) })
	b := newBench(t, setup{})
	req := b.request()
	req.CloudInit = provider.NewSensitive([]byte("#cloud-config\n# user-data-sentinel\n"))
	if _, err := b.p.Create(t.Context(), req); err != nil { // no parent, no span
		t.Fatal(err)
	}
	if n := len(rec.Ended()); n != 0 {
		t.Errorf("%d spans without a parent", n)
	}
	ctx, span := tp.Tracer("test").Start(t.Context(), "operation")
	other := b.request()
	other.CloudInit = req.CloudInit
	if _, err := b.p.Create(ctx, other); err != nil {
		t.Fatal(err)
	}
	span.End()
	children := 0
	for _, s := range rec.Ended() {
		if s.Parent().SpanID() == span.SpanContext().SpanID() {
			children++
		}
		for _, a := range s.Attributes() {
			if v := a.Value.String(); strings.Contains(v, "sentinel") {
				t.Errorf("span %s: %s is %s", s.Name(), a.Key, v)
			}
		}
	}
	if children != 1 {
		t.Errorf("%d child spans, want one for the one request", children)
	}
}
