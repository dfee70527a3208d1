// Package reportingserver is the reference implementation of the Reporting API on
// a SQLite file, with pages for people.
package reportingserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting/api"
	"github.com/tollgate-dev/tollgate/internal/reporting/reportingserver/store"
)

// Options configure a Server.
type Options struct {
	// Path is the database file; it is made when there is none.
	Path string
	// Tokens are the bearer tokens that clients may send; several let one be
	// replaced while clients still use the other. With none, everybody is let in.
	Tokens []provider.Sensitive
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Logger may be nil.
	Logger *slog.Logger
	// Fault, when set, is asked before each request of the API what should go
	// wrong with it. It is for tests.
	Fault func(*http.Request) Fault
}

// Server answers the Reporting API and the pages. It is safe for concurrent use.
type Server struct {
	opts    Options
	store   *store.Store
	handler http.Handler
	session sessions
	metrics *metrics
	came    chan struct{} // something came in
	stop    func()        // ends what goes on in the background, and waits for it
}

// New opens the database and returns a Server. The caller closes it.
func New(ctx context.Context, o Options) (*Server, error) {
	if o.Path == "" {
		return nil, errors.New("reporting server: the path of the database is empty")
	}
	for i, t := range o.Tokens {
		if t.Len() == 0 {
			return nil, fmt.Errorf("reporting server: token %d is empty", i)
		}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	allowed, err := allowedParameters()
	if err != nil {
		return nil, fmt.Errorf("reporting server: %w", err)
	}
	st, err := store.Open(ctx, o.Path, o.Now)
	if err != nil {
		return nil, fmt.Errorf("reporting server: %w", err)
	}
	s := &Server{opts: o, store: st, session: newSessions(o.Tokens), metrics: newMetrics(st), came: make(chan struct{}, 1)}
	routes := http.NewServeMux()
	api.HandlerWithOptions(s, api.StdHTTPServerOptions{
		BaseRouter:       routes,
		ErrorHandlerFunc: func(w http.ResponseWriter, r *http.Request, err error) { s.fail(w, r, invalid("%v", err)) },
	})
	routes.HandleFunc("/api/", s.noSuchRoute(routes))
	guarded := s.faulty(s.authorized(strictParameters(allowed, routes)))
	mux := http.NewServeMux()
	s.pages(mux)
	for _, prefix := range []string{"/api/", "/healthz"} {
		mux.HandleFunc(prefix, func(w http.ResponseWriter, r *http.Request) {
			_, r.Pattern = routes.Handler(r) // what guards the route has to know it
			guarded.ServeHTTP(w, r)
		})
	}
	mux.Handle("GET /metrics", s.authorized(s.metrics.handler()))
	s.handler = mux
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.keepFresh(background)
	}()
	s.stop = func() { cancel(); <-done }
	s.arrived() // before the last stop, perhaps
	return s, nil
}

// Close closes the database. End the HTTP server first: requests under way fail.
func (s *Server) Close() error {
	s.stop()
	return s.store.Close()
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began, rec := time.Now(), &recorder{ResponseWriter: w, code: http.StatusOK}
	rec.Header().Set("X-Content-Type-Options", "nosniff")
	rec.Header().Set("Cache-Control", "no-store")
	s.handler.ServeHTTP(rec, r)
	took := time.Since(began)
	s.metrics.took(r.Pattern, rec.code, took)
	s.opts.Logger.DebugContext(r.Context(), "request", "route", r.Pattern, "status", rec.code, "took", took)
}

type recorder struct {
	http.ResponseWriter
	code int
}

func (r *recorder) WriteHeader(code int) { r.code = code; r.ResponseWriter.WriteHeader(code) }

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// allowedParameters reads from the document which query parameters each route
// has, by pattern such as "GET /api/v1/events".
func allowedParameters() (map[string]map[string]bool, error) {
	type parameter struct {
		Ref  string `yaml:"$ref"`
		Name string
		In   string
	}
	var doc struct {
		Paths      map[string]map[string]struct{ Parameters []parameter }
		Components struct{ Parameters map[string]parameter }
	}
	if err := yaml.Unmarshal(api.Document, &doc); err != nil {
		return nil, err
	}
	allowed := map[string]map[string]bool{}
	for path, item := range doc.Paths {
		for method, op := range item {
			names := map[string]bool{}
			for _, p := range op.Parameters {
				if p.Ref != "" {
					p = doc.Components.Parameters[strings.TrimPrefix(p.Ref, "#/components/parameters/")]
				}
				if p.In == "query" {
					names[p.Name] = true
				}
			}
			allowed[strings.ToUpper(method)+" "+path] = names
		}
	}
	return allowed, nil
}

// strictParameters refuses parameters that the document does not have and those
// that are repeated though they are single: a misspelt period must not pass for
// no period.
func strictParameters(allowed map[string]map[string]bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		names, known := allowed[r.Pattern]
		for name, values := range r.URL.Query() {
			if !known {
				break
			}
			if !names[name] {
				invalid("the parameter %q is unknown", name).write(w)
				return
			}
			if len(values) > 1 && name != "resource_id" {
				invalid("the parameter %q is given %d times", name, len(values)).write(w)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// noSuchRoute answers what no route takes.
func (s *Server) noSuchRoute(mux *http.ServeMux) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var allow []string
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPatch} {
			other := r.Clone(r.Context())
			other.Method = method
			if _, pattern := mux.Handler(other); pattern != "" && pattern != "/api/" {
				allow = append(allow, method)
			}
		}
		if len(allow) > 0 {
			w.Header().Set("Allow", strings.Join(allow, ", "))
			problem{api.UrnTollgateProblemMethodNotAllowed, http.StatusMethodNotAllowed, "Method not allowed",
				fmt.Sprintf("%s is not allowed: use %s", r.Method, strings.Join(allow, " or "))}.write(w)
			return
		}
		notFound("%s is no path of this API: /api/v1/openapi.yaml has them all", r.URL.Path).write(w)
	}
}
