package hetznersim_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"github.com/tollgate-dev/tollgate/internal/provider/hetzner/hetznersim"
	"github.com/tollgate-dev/tollgate/internal/provider/hetzner/hetznersim/vendordoc"
)

// epoch is when the simulated time of the tests begins.
var epoch = time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)

const token = "token-a"

// bench is a simulator with a clock of the test, served over HTTP; every request
// that succeeds and every answer is checked against the vendor's document.
type bench struct {
	*testing.T
	sim    *hetznersim.Sim
	clock  *hetznersim.Clock
	url    string
	client *hcloud.Client
}

func newBench(t *testing.T, opts hetznersim.Options) *bench { return serve(t, opts, true) }

func serve(t *testing.T, opts hetznersim.Options, checkAnswers bool) *bench {
	t.Helper()
	clock := hetznersim.NewClock(epoch)
	opts.Now = clock.Now
	sim := hetznersim.New(opts)
	sim.AddProject("a", token)
	sim.AddProject("b", "token-b")
	doc, err := vendordoc.Load()
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(doc.Watch(sim, hetznersim.BasePath, checkAnswers, func(err error) { t.Error(err) }))
	t.Cleanup(func() {
		if err := sim.Close(t.Context()); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
		srv.Close()
	})
	b := &bench{T: t, sim: sim, clock: clock, url: srv.URL}
	b.client = b.clientFor(token)
	return b
}

func (b *bench) clientFor(token string) *hcloud.Client {
	return hcloud.NewClient(hcloud.WithToken(token), hcloud.WithEndpoint(b.url+hetznersim.BasePath),
		hcloud.WithRetryOpts(hcloud.RetryOpts{MaxRetries: 0}))
}

// settle lets everything under way end.
func (b *bench) settle() { b.clock.Advance(time.Minute) }

// answer is a raw answer of the API.
type answer struct {
	status int
	code   string
	fields []string
	header http.Header
	body   map[string]any
}

// call makes a raw request with a JSON body, "" for none.
func (b *bench) call(method, path, body string) answer {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), method, b.url+hetznersim.BasePath+path, bytes.NewBufferString(body))
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		b.Fatal(err)
	}
	a := answer{status: resp.StatusCode, header: resp.Header}
	if len(raw) == 0 {
		return a
	}
	if err := json.Unmarshal(raw, &a.body); err != nil {
		b.Fatalf("%s %s: %v: %s", method, path, err, raw)
	}
	var e struct {
		Error struct {
			Code    string
			Details struct{ Fields []struct{ Name string } }
		}
	}
	_ = json.Unmarshal(raw, &e)
	a.code = e.Error.Code
	for _, f := range e.Error.Details.Fields {
		a.fields = append(a.fields, f.Name)
	}
	return a
}

// create makes a server and returns the answer.
func (b *bench) create(name string, change ...func(*hcloud.ServerCreateOpts)) hcloud.ServerCreateResult {
	b.Helper()
	opts := hcloud.ServerCreateOpts{Name: name, ServerType: &hcloud.ServerType{Name: "cx23"}, Image: &hcloud.Image{Name: "debian-12"},
		Location: &hcloud.Location{Name: "fsn1"}}
	for _, f := range change {
		f(&opts)
	}
	res, _, err := b.client.Server.Create(b.Context(), opts)
	if err != nil {
		b.Fatal(err)
	}
	return res
}

func (b *bench) server(id int64) *hcloud.Server {
	b.Helper()
	s, _, err := b.client.Server.GetByID(b.Context(), id)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func ok[T any](b *bench) func(v T, _ *hcloud.Response, err error) T {
	return func(v T, _ *hcloud.Response, err error) T {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
		return v
	}
}

func wantCode(t *testing.T, err error, code hcloud.ErrorCode) {
	t.Helper()
	if !hcloud.IsError(err, code) {
		t.Fatalf("error is %v, want code %s", err, code)
	}
}
