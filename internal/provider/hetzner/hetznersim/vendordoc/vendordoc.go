// Package vendordoc checks requests and answers against the vendor's API
// document. It is for tests: of the simulator, whose answers must be the
// vendor's, and of the driver, whose requests must be.
package vendordoc

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

//go:embed shapes.json
var shapes []byte

// Doc is the document's shapes, compiled. It is safe for concurrent use.
type Doc struct {
	ops   map[string]*operation // "GET /servers/{id}"
	fault *jsonschema.Schema
}

type operation struct {
	query   map[string]querySchema
	request *jsonschema.Schema
	answers map[int]*jsonschema.Schema // nil: no content
}

type querySchema struct {
	schema *jsonschema.Schema
	kind   string // type of the value, or of the items of a list
	list   bool
}

// Load compiles the document, once for all callers.
var Load = sync.OnceValues(load)

func load() (*Doc, error) {
	whole, err := jsonschema.UnmarshalJSON(bytes.NewReader(shapes))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("shapes.json", whole); err != nil {
		return nil, err
	}
	at := func(parts ...string) (*jsonschema.Schema, error) {
		for i, p := range parts {
			parts[i] = url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(p))
		}
		return c.Compile("shapes.json#/" + strings.Join(parts, "/"))
	}
	d := &Doc{ops: map[string]*operation{}}
	if d.fault, err = at("error"); err != nil {
		return nil, err
	}
	ops, _ := whole.(map[string]any)["operations"].(map[string]any)
	for name, raw := range ops {
		if d.ops[name], err = newOperation(name, raw.(map[string]any), at); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return d, nil
}

func newOperation(name string, raw map[string]any, at func(...string) (*jsonschema.Schema, error)) (*operation, error) {
	op := &operation{query: map[string]querySchema{}, answers: map[int]*jsonschema.Schema{}}
	var err error
	query, _ := raw["query"].(map[string]any)
	for p := range query {
		q := querySchema{}
		if q.schema, err = at("operations", name, "query", p); err != nil {
			return nil, err
		}
		s := q.schema
		for s.Ref != nil {
			s = s.Ref
		}
		if q.list = s.Types != nil && slices.Contains(s.Types.ToStrings(), "array"); q.list {
			for s = s.Items2020; s != nil && s.Ref != nil; {
				s = s.Ref
			}
		}
		if s != nil && s.Types != nil {
			q.kind = s.Types.ToStrings()[0]
		}
		op.query[p] = q
	}
	if _, ok := raw["request"]; ok {
		if op.request, err = at("operations", name, "request"); err != nil {
			return nil, err
		}
	}
	answers, _ := raw["answers"].(map[string]any)
	for status, s := range answers {
		code, err := strconv.Atoi(status)
		if err != nil {
			return nil, err
		}
		if s == false {
			op.answers[code] = nil
			continue
		}
		if op.answers[code], err = at("operations", name, "answers", status); err != nil {
			return nil, err
		}
	}
	return op, nil
}

// Operations lists the document's operations that are known here, such as
// "GET /servers/{id}", sorted.
func (d *Doc) Operations() []string {
	var out []string
	for name := range d.ops {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// find returns the operation of a request path without the base path.
func (d *Doc) find(method, path string) (string, *operation) {
	segments := strings.Split(strings.Trim(path, "/"), "/")
	for name, op := range d.ops {
		m, pattern, _ := strings.Cut(name, " ")
		parts := strings.Split(strings.Trim(pattern, "/"), "/")
		if m != method || len(parts) != len(segments) {
			continue
		}
		ok := true
		for i, p := range parts {
			_, err := strconv.ParseInt(segments[i], 10, 64)
			isID := strings.HasPrefix(p, "{")
			ok = ok && (isID && err == nil || !isID && p == segments[i])
		}
		if ok {
			return name, op
		}
	}
	return "", nil
}

// CheckRequest checks the parameters and the body of a request.
func (d *Doc) CheckRequest(method, path string, query url.Values, body []byte) error {
	name, op := d.find(method, path)
	if op == nil {
		return fmt.Errorf("%s %s: not in the document", method, path)
	}
	for k, values := range query {
		q, ok := op.query[k]
		if !ok {
			return fmt.Errorf("%s: parameter %s is not in the document", name, k)
		}
		if err := q.check(values); err != nil {
			return fmt.Errorf("%s: parameter %s: %w", name, k, err)
		}
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	if op.request == nil && string(bytes.TrimSpace(body)) == "{}" {
		return nil // the vendor's own client sends it
	}
	if op.request == nil {
		return fmt.Errorf("%s: takes no body", name)
	}
	return wrap(name+": request", validate(op.request, body))
}

func (q querySchema) check(values []string) error {
	if !q.list && len(values) != 1 {
		return fmt.Errorf("given %d times", len(values))
	}
	var parsed []any
	for _, v := range values {
		switch q.kind {
		case "integer":
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil {
				return err
			}
			parsed = append(parsed, json.Number(strconv.FormatInt(n, 10)))
		case "boolean":
			b, err := strconv.ParseBool(v)
			if err != nil {
				return err
			}
			parsed = append(parsed, b)
		default:
			parsed = append(parsed, v)
		}
	}
	if q.list {
		return q.schema.Validate(parsed)
	}
	return q.schema.Validate(parsed[0])
}

// CheckAnswer checks the body of an answer. Errors have one form for all
// operations.
func (d *Doc) CheckAnswer(method, path string, status int, body []byte) error {
	if status >= 400 {
		return wrap(fmt.Sprintf("%s %s: %d", method, path, status), validate(d.fault, body))
	}
	name, op := d.find(method, path)
	if op == nil {
		return fmt.Errorf("%s %s: not in the document", method, path)
	}
	s, ok := op.answers[status]
	switch {
	case !ok:
		return fmt.Errorf("%s: status %d is not in the document", name, status)
	case s == nil && len(body) > 0:
		return fmt.Errorf("%s: status %d has no body", name, status)
	case s == nil:
		return nil
	}
	return wrap(fmt.Sprintf("%s: answer %d", name, status), validate(s, body))
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

func validate(s *jsonschema.Schema, body []byte) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

// Watch wraps a handler that serves the API under basePath and reports every
// request that was answered with success and does not follow the document, and,
// with answers, every answer that does not.
func (d *Doc) Watch(h http.Handler, basePath string, answers bool, report func(error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, ok := strings.CutPrefix(r.URL.Path, basePath)
		if !ok {
			h.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			report(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		tee := &teeWriter{ResponseWriter: w, status: http.StatusOK}
		h.ServeHTTP(tee, r)
		if tee.status < 300 {
			if err := d.CheckRequest(r.Method, path, r.URL.Query(), body); err != nil {
				report(err)
			}
		}
		if answers {
			if err := d.CheckAnswer(r.Method, path, tee.status, tee.body.Bytes()); err != nil {
				report(errors.Join(err, fmt.Errorf("answer: %s", tee.body.Bytes())))
			}
		}
	})
}

type teeWriter struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

// WriteHeader implements http.ResponseWriter.
func (w *teeWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *teeWriter) Write(b []byte) (int, error) {
	w.body.Write(b)
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *teeWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
