package discovery

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// Defaults of Options.
const (
	// DefaultMaxAge is how old an answer may be, counted from the request. It
	// bundles bursts of requests and is shorter than any delete takes, so that
	// nobody who saw a proxy deleted finds it listed.
	DefaultMaxAge = 50 * time.Millisecond
	// DefaultReadTimeout is how long a provider's tables may take to be read;
	// then the provider is unavailable. With DefaultMaxAge it bounds how old
	// anything in an answer can be.
	DefaultReadTimeout = 3 * time.Second
	// maxErrAge is how long a failed reading stands for the next requests.
	maxErrAge = time.Second
)

//go:embed openapi.yaml
var openAPI []byte

// Options configure a Server.
type Options struct {
	// Source reads the fleet tables.
	Source Source
	// Fleets lists the configured providers, in a stable order. It is asked at
	// every request, so that a reload needs no new Server.
	Fleets func() []Fleet
	// Token returns the bearer token that clients must send; required is false
	// when none is asked for. An error answers 503: nobody is let in because the
	// token cannot be read.
	Token func(ctx context.Context) (token provider.Sensitive, required bool, err error)
	// MaxAge and ReadTimeout; zero means the defaults.
	MaxAge      time.Duration
	ReadTimeout time.Duration
	Logger      *slog.Logger
	// Metrics may be nil.
	Metrics prometheus.Registerer
}

// Server answers the discovery API. It is safe for concurrent use.
type Server struct {
	opts    Options
	cache   *cache
	hub     *hub
	picker  picker
	metrics *metrics
	closing context.Context
	close   context.CancelFunc
}

// New returns a Server.
func New(o Options) *Server {
	if o.MaxAge == 0 {
		o.MaxAge = DefaultMaxAge
	}
	if o.ReadTimeout == 0 {
		o.ReadTimeout = DefaultReadTimeout
	}
	m := newMetrics(o.Metrics)
	s := &Server{opts: o, metrics: m, cache: &cache{
		source: o.Source, maxAge: o.MaxAge, maxErrAge: max(o.MaxAge, maxErrAge), timeout: o.ReadTimeout,
		now: time.Now, metrics: m, cells: map[string]*cell{},
	}}
	s.hub = &hub{cache: s.cache, fleets: o.Fleets, interval: o.MaxAge}
	s.closing, s.close = context.WithCancel(context.Background())
	return s
}

// Close ends all long polls, each with its answer as of now, so that the HTTP
// server can shut down without waiting for them.
func (s *Server) Close() { s.close() }

// Register adds the routes under /v1/ to mux.
func (s *Server) Register(mux *http.ServeMux) {
	mux.Handle("/v1/proxies", s.route("list", s.authorized(s.list)))
	mux.Handle("/v1/proxies/pick", s.route("pick", s.authorized(s.pick)))
	mux.Handle("/v1/openapi.yaml", s.route("openapi", func(w http.ResponseWriter, r *http.Request) time.Duration {
		w.Header().Set("Content-Type", "application/yaml")
		_, _ = w.Write(openAPI) // a client that has gone is no matter
		return 0
	}))
	mux.Handle("/v1/", s.route("other", func(w http.ResponseWriter, r *http.Request) time.Duration {
		Problem{Type: problemNotFound, Title: "Not found", Status: http.StatusNotFound,
			Detail: r.URL.Path + " is none of /v1/proxies, /v1/proxies/pick and /v1/openapi.yaml"}.write(w)
		return 0
	}))
}

// handler answers a request and returns for how long it only waited.
type handler func(w http.ResponseWriter, r *http.Request) (waited time.Duration)

func (s *Server) route(name string, h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began, rec := time.Now(), &recorder{ResponseWriter: w, code: http.StatusOK}
		rec.Header().Set("X-Content-Type-Options", "nosniff")
		var waited time.Duration
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			rec.Header().Set("Allow", "GET, HEAD")
			Problem{Type: problemMethod, Title: "Method not allowed", Status: http.StatusMethodNotAllowed,
				Detail: r.Method + " is not allowed: use GET or HEAD"}.write(rec)
		} else {
			waited = h(rec, r)
		}
		s.metrics.request(name, rec.code, time.Since(began)-waited)
		s.opts.Logger.DebugContext(r.Context(), "request", "route", name, "status", rec.code, "took", time.Since(began), "waited", waited)
	})
}

type recorder struct {
	http.ResponseWriter
	code int
}

func (r *recorder) WriteHeader(code int) { r.code = code; r.ResponseWriter.WriteHeader(code) }

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// authorized lets a request pass that carries the token.
func (s *Server) authorized(next handler) handler {
	return func(w http.ResponseWriter, r *http.Request) time.Duration {
		token, required, err := s.opts.Token(r.Context())
		if err != nil {
			s.opts.Logger.ErrorContext(r.Context(), "the discovery token cannot be read, requests are refused", "error", err)
			Problem{Type: problemToken, Title: "Token unavailable", Status: http.StatusServiceUnavailable,
				Detail: "the server cannot read the token that requests are compared with; its log says why"}.write(w)
			return 0
		}
		if !required {
			return next(w, r)
		}
		scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		switch {
		case r.Header.Get("Authorization") == "":
			unauthorized(w, `Bearer realm="tollgate"`, "the header Authorization is missing: send Bearer and the token")
		case !strings.EqualFold(scheme, "Bearer"):
			unauthorized(w, `Bearer realm="tollgate"`, "the header Authorization is of another scheme: send Bearer and the token")
		case !equal([]byte(strings.TrimSpace(given)), token.Reveal()):
			unauthorized(w, `Bearer realm="tollgate", error="invalid_token"`, "the token is not the right one")
		default:
			return next(w, r)
		}
		return 0
	}
}

func unauthorized(w http.ResponseWriter, challenge, detail string) {
	w.Header().Set("WWW-Authenticate", challenge)
	Problem{Type: problemUnauthorized, Title: "Unauthorized", Status: http.StatusUnauthorized, Detail: detail}.write(w)
}

// equal takes the same time whatever is equal, lengths included.
func equal(a, b []byte) bool {
	x, y := sha256.Sum256(a), sha256.Sum256(b)
	return len(b) > 0 && subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// params reads the parameters or answers with what is wrong with them.
func (s *Server) params(w http.ResponseWriter, r *http.Request, allowed []string) (query, []Fleet, bool) {
	all := s.opts.Fleets()
	s.cache.keep(all)
	q, bad := parseQuery(r.URL.RawQuery, allowed, all)
	if len(bad) > 0 {
		details := make([]string, len(bad))
		for i, b := range bad {
			details[i] = strings.TrimPrefix(b.Parameter+": "+b.Detail, ": ")
		}
		Problem{Type: problemInvalid, Title: "Invalid parameter", Status: http.StatusBadRequest,
			Detail: strings.Join(details, "; "), Parameters: bad}.write(w)
		return q, nil, false
	}
	return q, q.fleets(all), true
}

// collect reads the fleets and keeps what the query asks for. ok is false when
// the client has gone.
func (s *Server) collect(ctx context.Context, q query, fleets []Fleet) (l List, asOf time.Time, ok bool) {
	states, err := s.cache.read(ctx, fleets)
	if err != nil {
		return List{}, time.Time{}, false
	}
	l = List{Items: []Proxy{}, Unavailable: []Unavailable{}}
	for i, st := range states {
		if asOf.IsZero() || st.at.Before(asOf) {
			asOf = st.at
		}
		if st.err != nil {
			l.Unavailable = append(l.Unavailable, Unavailable{fleets[i].Provider, st.err.Error()})
			continue
		}
		for _, p := range st.proxies {
			if q.matches(p) {
				l.Items = append(l.Items, p)
			}
		}
	}
	slices.SortStableFunc(l.Items, func(a, b Proxy) int { return strings.Compare(a.Provider, b.Provider) })
	l.Partial = len(l.Unavailable) > 0
	return l, asOf, true
}

// refused reports whether a list is too incomplete to be sent: nothing of it
// could be read, the query wants all or nothing, or it names the provider that
// is missing.
func (q query) refused(l List, fleets []Fleet) bool {
	return l.Partial && (q.refusePartial || len(q.providers) > 0 || len(l.Unavailable) == len(fleets))
}

func unavailable(w http.ResponseWriter, l List) {
	details := make([]string, len(l.Unavailable))
	for i, u := range l.Unavailable {
		details[i] = "provider " + u.Provider + ": " + u.Detail
	}
	w.Header().Set("Retry-After", "1")
	Problem{Type: problemUnavailable, Title: "Provider unavailable", Status: http.StatusServiceUnavailable,
		Detail: strings.Join(details, "; "), Unavailable: l.Unavailable}.write(w)
}

func (s *Server) list(w http.ResponseWriter, r *http.Request) (waited time.Duration) {
	q, fleets, ok := s.params(w, r, listParams)
	if !ok {
		return 0
	}
	known := r.Header.Get("If-None-Match")
	poll := q.wait > 0 && known != ""
	var timer <-chan time.Time
	if poll {
		defer s.hub.join()()
		timer = time.After(q.wait)
	}
	for last := !poll; ; {
		changed := s.hub.next()
		l, asOf, ok := s.collect(r.Context(), q, fleets)
		if !ok {
			return waited
		}
		if q.refused(l, fleets) {
			unavailable(w, l)
			return waited
		}
		body, tag := encode(l)
		same := matches(known, tag)
		if !same || last {
			h := w.Header()
			h.Set("ETag", tag)
			h.Set("Cache-Control", "private, no-cache")
			h.Set("Vary", "Authorization")
			h.Set("Tollgate-As-Of", asOf.UTC().Format(time.RFC3339Nano))
			if same {
				w.WriteHeader(http.StatusNotModified)
				return waited
			}
			h.Set("Content-Type", "application/json")
			_, _ = w.Write(body) // a client that has gone is no matter
			return waited
		}
		began := time.Now()
		select {
		case <-changed:
			// A reload may have changed what there is to offer.
			fleets = q.fleets(s.opts.Fleets())
		case <-timer:
			last = true
		case <-s.closing.Done():
			last = true
		case <-r.Context().Done():
			return waited + time.Since(began)
		}
		waited += time.Since(began)
	}
}

func (s *Server) pick(w http.ResponseWriter, r *http.Request) time.Duration {
	q, fleets, ok := s.params(w, r, pickParams)
	if !ok {
		return 0
	}
	l, asOf, ok := s.collect(r.Context(), q, fleets)
	switch {
	case !ok:
		return 0
	case q.refused(l, fleets), len(l.Items) == 0 && l.Partial:
		// With a provider missing, nobody knows whether there is none.
		unavailable(w, l)
		return 0
	case len(l.Items) == 0:
		Problem{Type: problemNoProxy, Title: "No proxy", Status: http.StatusNotFound,
			Detail: "no healthy proxy matches the request"}.write(w)
		return 0
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("Tollgate-As-Of", asOf.UTC().Format(time.RFC3339Nano))
	_ = json.NewEncoder(w).Encode(s.picker.pick(l.Items, q.strategy, q.key)) // a client that has gone is no matter
	return 0
}

// encode renders a list and its entity tag.
func encode(l List) (body []byte, tag string) {
	body, err := json.Marshal(l)
	if err != nil { // plain fields cannot fail
		panic(err)
	}
	sum := sha256.Sum256(body)
	return append(body, '\n'), `"` + hex.EncodeToString(sum[:16]) + `"`
}

// matches compares an If-None-Match header with a tag, weakly as RFC 9110 says.
func matches(header, tag string) bool {
	for _, t := range strings.Split(header, ",") {
		t = strings.TrimSpace(t)
		if t == "*" || strings.TrimPrefix(t, "W/") == tag {
			return true
		}
	}
	return false
}
