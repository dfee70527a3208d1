package reportingserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting/api"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
)

// document checks answers against the OpenAPI document, whose schemas are JSON
// Schema.
type document struct {
	root     map[string]any
	compiler *jsonschema.Compiler
	mu       sync.Mutex
}

var readDocument = sync.OnceValues(func() (*document, error) {
	var root map[string]any
	if err := yaml.Unmarshal(api.Document, &root); err != nil {
		return nil, err
	}
	b, err := json.Marshal(root)
	if err != nil {
		return nil, err
	}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	if err := c.AddResource("mem:///api", parsed); err != nil {
		return nil, err
	}
	return &document{root: root, compiler: c}, nil
})

func child(v any, keys ...string) any {
	for _, k := range keys {
		m, _ := v.(map[string]any)
		v = m[k]
	}
	return v
}

// check says what of an answer is not as the document says. op is a pattern such
// as "GET /api/v1/events".
func (d *document) check(op string, r *http.Response, body []byte) error {
	method, path, _ := strings.Cut(op, " ")
	at := []string{"paths", path, strings.ToLower(method), "responses", fmt.Sprint(r.StatusCode)}
	if child(d.root, at...) == nil {
		at[len(at)-1] = "default"
	}
	response := child(d.root, at...)
	if ref, ok := child(response, "$ref").(string); ok {
		at = strings.Split(strings.TrimPrefix(ref, "#/"), "/")
		response = child(d.root, at...)
	}
	if response == nil {
		return fmt.Errorf("%s: status %d is not in the document", op, r.StatusCode)
	}
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if child(response, "content", media) == nil {
		return fmt.Errorf("%s: status %d: content type %q is not in the document", op, r.StatusCode, media)
	}
	if !strings.HasSuffix(media, "json") {
		return nil
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	var pointer strings.Builder
	for _, part := range append(at, "content", media, "schema") {
		pointer.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(part))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	schema, err := d.compiler.Compile("mem:///api#" + pointer.String())
	if err != nil {
		return err
	}
	if err := schema.Validate(v); err != nil {
		return fmt.Errorf("%s: status %d: %w", op, r.StatusCode, err)
	}
	return nil
}

// rig is a server under test. Every answer of its API is checked against the
// document.
type rig struct {
	*Server
	tb    testing.TB
	url   string
	token string
	seen  *sync.Map // "pattern status"
}

// clock is when the server thinks it is.
var clock = time.Date(2026, 11, 3, 0, 0, 0, 0, time.UTC)

func newRig(tb testing.TB, change func(*Options)) *rig {
	tb.Helper()
	o := Options{Path: filepath.Join(tb.TempDir(), "reporting.db"), Now: func() time.Time { return clock }}
	if change != nil {
		change(&o)
	}
	s, err := New(tb.Context(), o)
	if err != nil {
		tb.Fatal(err)
	}
	h := httptest.NewServer(s)
	tb.Cleanup(func() {
		h.Close()
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	g := &rig{Server: s, tb: tb, url: h.URL, seen: &sync.Map{}}
	if len(o.Tokens) > 0 {
		g.token = string(o.Tokens[0].Reveal())
	}
	return g
}

func withToken(token string) func(*Options) {
	return func(o *Options) { o.Tokens = []provider.Sensitive{provider.NewSensitive([]byte(token))} }
}

// send sends a request and reads its answer into out, when that is not nil.
func (g *rig) send(method, path, contentType string, body []byte, out any) int {
	g.tb.Helper()
	code, err := g.try(g.tb.Context(), method, path, contentType, body, out)
	if err != nil {
		g.tb.Fatalf("%s %s: %v", method, path, err)
	}
	return code
}

func (g *rig) try(ctx context.Context, method, path, contentType string, body []byte, out any) (int, error) {
	r, err := http.NewRequestWithContext(ctx, method, g.url+path, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	if g.token != "" {
		r.Header.Set("Authorization", "Bearer "+g.token)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	if op := operation(method, path); op != "" {
		d, err := readDocument()
		if err != nil {
			return 0, err
		}
		if err := d.check(op, resp, answer); err != nil {
			g.tb.Errorf("%v\n%s", err, answer)
		}
		g.seen.Store(fmt.Sprint(op, " ", resp.StatusCode), true)
	}
	if out == nil {
		return resp.StatusCode, nil
	}
	return resp.StatusCode, json.Unmarshal(answer, out)
}

// operation finds the operation of the document that a path belongs to.
func operation(method, path string) string {
	path, _, _ = strings.Cut(path, "?")
	d, err := readDocument()
	if err != nil {
		return ""
	}
	for template := range child(d.root, "paths").(map[string]any) {
		want, got := strings.Split(template, "/"), strings.Split(path, "/")
		if slices.EqualFunc(want, got, func(w, g string) bool { return strings.HasPrefix(w, "{") || w == g }) &&
			child(d.root, "paths", template, strings.ToLower(method)) != nil {
			return method + " " + template
		}
	}
	return ""
}

func (g *rig) get(path string, out any) int {
	g.tb.Helper()
	return g.send(http.MethodGet, path, "", nil, out)
}

func (g *rig) json(method, path string, in, out any) int {
	g.tb.Helper()
	b, err := json.Marshal(in)
	if err != nil {
		g.tb.Fatal(err)
	}
	return g.send(method, path, "application/json", b, out)
}

// deliver sends a batch and wants an answer with outcomes.
func (g *rig) deliver(events ...event.Event) []api.EventResult {
	g.tb.Helper()
	b, err := json.Marshal(events)
	if err != nil {
		g.tb.Fatal(err)
	}
	var out api.EventResults
	if code := g.send(http.MethodPost, "/api/v1/events", typeBatch, b, &out); code != http.StatusOK {
		g.tb.Fatalf("deliver: status %d", code)
	}
	return out.Results
}

func outcomes(results []api.EventResult) string {
	var all []string
	for _, r := range results {
		all = append(all, string(r.Outcome))
	}
	return strings.Join(all, " ")
}

// project creates the project of an account.
func (g *rig) project(platform, account string) api.Project {
	g.tb.Helper()
	var p api.Project
	if code := g.json(http.MethodPost, "/api/v1/projects", api.ProjectCreate{Platform: platform, ExternalID: account, Name: "Project " + account}, &p); code != 200 && code != 201 {
		g.tb.Fatalf("create project: status %d", code)
	}
	return p
}

var day = time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)

// at is a time of that day, such as "09:00".
func at(s string) time.Time {
	d, err := time.Parse("15:04:05", s+":00"[:max(0, 8-len(s))])
	if err != nil {
		panic(err)
	}
	return day.Add(d.Sub(d.Truncate(24 * time.Hour)))
}

func on(typ event.Type, when time.Time, id, change string, size event.Size) event.Event {
	return event.New(typ, when, event.Data{Platform: event.Hetzner, Account: "acme",
		Resource: event.Resource{Type: typ.Resource(), ID: id, Name: "name-" + id}, Change: change, Size: size})
}

func server(vcpus int) event.Size {
	return event.Size{event.VCPUs: event.Int(vcpus), event.RAMGB: event.Int(4), event.DiskGB: event.Int(40), event.ServerType: event.Text("cx22")}
}

func gb(n int) event.Size { return event.Size{event.SizeGB: event.Int(n)} }
