package discovery

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

var update = flag.Bool("update", false, "write the generated documents")

const published = "../../docs/reference/discovery.openapi.yaml"

func TestPublishedDocumentIsTheServedOne(t *testing.T) {
	t.Parallel()
	if *update {
		if err := os.WriteFile(published, openAPI, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(published)
	if err != nil || !bytes.Equal(got, openAPI) {
		t.Errorf("%s is not internal/discovery/openapi.yaml (%v): run go test ./internal/discovery -update", published, err)
	}
}

// document is the OpenAPI document as plain maps.
type document struct{ root map[string]any }

func load(t *testing.T) document {
	t.Helper()
	var d document
	if err := yaml.Unmarshal(openAPI, &d.root); err != nil {
		t.Fatal(err)
	}
	return d
}

// resolve follows a $ref.
func (d document) resolve(v any) map[string]any {
	m, _ := v.(map[string]any)
	ref, ok := m["$ref"].(string)
	if !ok {
		return m
	}
	var at any = d.root
	for _, part := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
		at = at.(map[string]any)[part]
	}
	return d.resolve(at)
}

func child(m map[string]any, keys ...string) map[string]any {
	for _, k := range keys {
		m, _ = m[k].(map[string]any)
	}
	return m
}

// validate checks a value against the subset of JSON Schema that the document
// uses, and panics at a keyword beyond it.
func (d document) validate(schema any, v any, at string) []string {
	s := d.resolve(schema)
	var bad []string
	add := func(format string, args ...any) { bad = append(bad, at+": "+fmt.Sprintf(format, args...)) }
	for key := range s {
		if !slices.Contains([]string{"type", "description", "required", "additionalProperties", "properties", "items",
			"enum", "format", "minimum", "maximum", "default", "examples"}, key) {
			panic("keyword " + key)
		}
	}
	if enum, ok := s["enum"].([]any); ok && !slices.Contains(enum, v) {
		add("%v is none of %v", v, enum)
	}
	switch s["type"] {
	case "object":
		o, ok := v.(map[string]any)
		if !ok {
			add("%T is no object", v)
			return bad
		}
		required, _ := s["required"].([]any)
		for _, r := range required {
			if _, ok := o[r.(string)]; !ok {
				add("%s is missing", r)
			}
		}
		for k, e := range o {
			if p, ok := child(s, "properties")[k]; ok {
				bad = append(bad, d.validate(p, e, at+"."+k)...)
			} else if s["additionalProperties"] == false {
				add("%s is not in the schema", k)
			} else {
				bad = append(bad, d.validate(s["additionalProperties"], e, at+"."+k)...)
			}
		}
	case "array":
		l, ok := v.([]any)
		if !ok {
			add("%T is no array", v)
		}
		for i, e := range l {
			bad = append(bad, d.validate(s["items"], e, fmt.Sprintf("%s[%d]", at, i))...)
		}
	case "string":
		str, ok := v.(string)
		if !ok {
			add("%T is no string", v)
		}
		if _, err := time.Parse(time.RFC3339, str); s["format"] == "date-time" && err != nil {
			add("%v", err)
		}
	case "boolean":
		if _, ok := v.(bool); !ok {
			add("%T is no boolean", v)
		}
	case "integer":
		n, ok := v.(float64)
		if !ok || n != float64(int(n)) {
			add("%v is no integer", v)
		}
		if least, ok := s["minimum"].(int); ok && n < float64(least) {
			add("%v is below %v", n, least)
		}
		if most, ok := s["maximum"].(int); ok && n > float64(most) {
			add("%v is above %v", n, most)
		}
	default:
		panic(fmt.Sprintf("%s: type %v", at, s["type"]))
	}
	return bad
}

// check compares an answer with the document.
func (d document) check(path string, w *httptest.ResponseRecorder) []string {
	path, _, _ = strings.Cut(path, "?")
	response := d.resolve(child(d.root, "paths", path, "get", "responses")[fmt.Sprint(w.Code)])
	if response == nil {
		return []string{fmt.Sprintf("status %d is not in the document", w.Code)}
	}
	var bad []string
	for name, h := range child(response, "headers") {
		value := w.Header().Get(name)
		if value == "" {
			bad = append(bad, "header "+name+" is missing")
		}
		bad = append(bad, d.validate(d.resolve(h)["schema"], value, "header "+name)...)
	}
	content := child(response, "content")
	if content == nil {
		if w.Body.Len() > 0 {
			bad = append(bad, "has a body")
		}
		return bad
	}
	media, ok := content[w.Header().Get("Content-Type")]
	if !ok {
		return append(bad, fmt.Sprintf("content type %q is not in the document", w.Header().Get("Content-Type")))
	}
	var v any = w.Body.String()
	if strings.HasSuffix(w.Header().Get("Content-Type"), "json") {
		if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
			return append(bad, err.Error())
		}
	}
	return append(bad, d.validate(media.(map[string]any)["schema"], v, "body")...)
}

func TestAnswersConformToTheDocument(t *testing.T) {
	t.Parallel()
	d := load(t)
	a := newAPI(t, Fleet{"one", 1}, Fleet{"two", 1})
	a.source.set("one", []api.FleetRow{row("a", func(r *api.FleetRow) {
		r.Placement = provider.Placement{Region: "eu", Zone: "eu-1", MachineType: "small", Image: "debian"}
		r.Labels = map[string]string{"team": "a"}
	}), row("b")})
	a.source.fail("two", errors.New("down"))
	ready := true
	RegisterHealth(a.mux, func(context.Context) []Check {
		return []Check{{Name: "temporal", OK: true}, {Name: "workers", OK: ready, Detail: "not started"}}
	})
	seen := map[string]bool{}
	ask := func(code int, path string, headers ...string) {
		t.Helper()
		w := a.get(path, headers...)
		if w.Code != code {
			t.Errorf("%s: status %d, want %d", path, w.Code, code)
		}
		for _, bad := range d.check(path, w) {
			t.Errorf("%s %d: %s", path, code, bad)
		}
		path, _, _ = strings.Cut(path, "?")
		seen[fmt.Sprint(path, " ", code)] = true
	}
	ask(200, "/v1/proxies")
	ask(304, "/v1/proxies", "If-None-Match", "*")
	ask(400, "/v1/proxies?x=1")
	ask(503, "/v1/proxies?provider=two")
	ask(200, "/v1/proxies/pick?provider=one")
	ask(400, "/v1/proxies/pick?strategy=x")
	ask(404, "/v1/proxies/pick?provider=one&namespace=none")
	ask(503, "/v1/proxies/pick?partial=refuse")
	ask(200, "/v1/openapi.yaml")
	ask(200, "/healthz")
	ask(200, "/readyz")
	ready = false
	ask(503, "/readyz")
	a.token = "t"
	ask(401, "/v1/proxies")
	ask(401, "/v1/proxies/pick")
	for _, path := range []string{"/v1/proxies", "/v1/proxies/pick"} {
		for _, bad := range d.check(path, a.do(t.Context(), http.MethodPost, path)) {
			t.Errorf("POST %s: %s", path, bad)
		}
		seen[path+" 405"] = true
	}
	for path, p := range child(d.root, "paths") {
		for code := range child(p.(map[string]any), "get", "responses") {
			if !seen[path+" "+code] {
				t.Errorf("the document has %s %s, which no request here gets", path, code)
			}
		}
	}
}

func TestDocumentListsParametersProblemsAndFields(t *testing.T) {
	t.Parallel()
	d := load(t)
	for path, want := range map[string][]string{"/v1/proxies": listParams, "/v1/proxies/pick": pickParams} {
		var got []string
		for _, p := range child(d.root, "paths", path, "get")["parameters"].([]any) {
			if m := d.resolve(p); m["in"] == "query" {
				got = append(got, m["name"].(string))
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: parameters %v, want %v", path, got, want)
		}
	}
	src, err := os.ReadFile("problem.go")
	if err != nil {
		t.Fatal(err)
	}
	types := child(d.root, "components", "schemas", "Problem", "properties", "type")["enum"].([]any)
	for _, m := range regexp.MustCompile(`"(urn:[^"]+)"`).FindAllStringSubmatch(string(src), -1) {
		if !slices.Contains(types, any(m[1])) {
			t.Errorf("problem type %s is not in the document", m[1])
		}
	}
	// The optional fields too, which an answer may lack.
	for schema, v := range map[string]any{
		"List": List{}, "Proxy": Proxy{}, "UnavailableProvider": Unavailable{}, "Problem": Problem{},
		"Placement": provider.Placement{}, "Health": Health{},
	} {
		props := child(d.root, "components", "schemas", schema, "properties")
		for _, f := range reflect.VisibleFields(reflect.TypeOf(v)) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if _, ok := props[name]; !ok {
				t.Errorf("%s.%s is not in the document", schema, name)
			}
		}
		if len(props) != reflect.TypeOf(v).NumField() {
			t.Errorf("%s has %d properties in the document and %d fields", schema, len(props), reflect.TypeOf(v).NumField())
		}
	}
}
