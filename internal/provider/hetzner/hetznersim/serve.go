package hetznersim

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxBody bounds a request's body; user data is at most 32 KiB.
const maxBody = 1 << 20

// route is one endpoint: a method and path segments, "{}" for a number.
type route struct {
	method  string
	pattern string // for the log: "/servers/{id}"
	parts   []string
	handle  handler
}

func newRoute(method, pattern string, h handler) route {
	parts := strings.Split(strings.TrimPrefix(pattern, "/"), "/")
	for i, p := range parts {
		if strings.HasPrefix(p, "{") {
			parts[i] = "{}"
		}
	}
	return route{method, pattern, parts, h}
}

// match returns the numbers in the path.
func (r route) match(segments []string) (ids []int64, ok bool) {
	if len(segments) != len(r.parts) {
		return nil, false
	}
	for i, p := range r.parts {
		if p != "{}" {
			if p != segments[i] {
				return nil, false
			}
			continue
		}
		id, err := strconv.ParseInt(segments[i], 10, 64)
		if err != nil || id < 1 {
			return nil, false
		}
		ids = append(ids, id)
	}
	return ids, true
}

// find returns the route of a request; a path that exists for other methods
// gets 405, any other 404.
func (s *Sim) find(method, path string) (route, []int64, error) {
	segments := strings.Split(strings.TrimPrefix(path, "/"), "/")
	exists := false
	for _, r := range s.routes {
		ids, ok := r.match(segments)
		if !ok {
			continue
		}
		if r.method == method {
			return r, ids, nil
		}
		exists = true
	}
	if exists {
		return route{pattern: path}, nil, fail("method_not_allowed", "method %s is not allowed", method)
	}
	return route{pattern: path}, nil, fail("not_found", "page not found")
}

// answered is what a request came to before it is written.
type answered struct {
	status  int
	body    []byte
	header  http.Header
	effects []*activeFault
	log     Request
}

// ServeHTTP answers the API under BasePath and the administration under /_sim/.
func (s *Sim) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, adminPath) {
		s.serveAdmin(w, r)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, "reading the request", http.StatusBadRequest)
		return
	}
	path, ok := strings.CutPrefix(r.URL.Path, BasePath)
	if !ok {
		http.NotFound(w, r)
		return
	}
	f := s.pick(r, path)
	if !s.wait(f.before()) || !s.hang(r, f) {
		return
	}
	if f.has(FaultLoseRequest) {
		cut(w, nil)
	}
	a := s.answer(r, path, body, f)
	if !s.wait(f.after()) {
		return
	}
	s.write(w, a)
}

// wait sleeps in real time; false when the simulator was closed meanwhile. The
// client may go away, the request is carried out all the same, as at the vendor.
func (s *Sim) wait(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.done:
		return false
	}
}

// hang waits until a FaultHang is removed, or the client has gone: what hangs in
// front of the API is not carried out for nobody.
func (s *Sim) hang(r *http.Request, f faultSet) bool {
	h := f.first(FaultHang)
	if h == nil {
		return true
	}
	select {
	case <-h.removed:
		return true
	case <-r.Context().Done():
	case <-s.done:
	}
	return false
}

// answer carries the request out with the simulator locked.
func (s *Sim) answer(r *http.Request, path string, body []byte, f faultSet) *answered {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	s.advance(now)
	rt, ids, routeErr := s.find(r.Method, path)
	a := &answered{header: http.Header{}, effects: f, log: Request{At: now, Method: r.Method, Pattern: rt.pattern, Path: path,
		Query: r.URL.RawQuery, Fault: f.names()}}
	defer s.schedule()
	c := &call{s: s, r: r, ids: ids, body: body, now: now, lag: f.lag()}
	status, content, err := s.run(c, a, rt, routeErr, f)
	if e := f.replacement(); e != nil && err == nil {
		err = e
	}
	if err != nil {
		status, content = errorBody(err)
	}
	if m, ok := content.(obj); ok {
		if code, ok := m["error"].(obj); ok {
			a.log.Code, _ = code["code"].(string)
		}
		f.prune(m)
	}
	a.status, a.log.Status = status, status
	if content != nil {
		a.body, _ = json.Marshal(content)
	}
	if m, ok := content.(obj); ok {
		if meta, ok := m["meta"].(obj); ok {
			if p, ok := meta["pagination"].(obj); ok {
				if link := linkHeader(r.URL, r.Host, p); link != "" {
					a.header.Set("Link", link)
				}
			}
		}
	}
	a.header.Set("X-Correlation-Id", correlation())
	a.header.Set("Date", now.UTC().Format(http.TimeFormat)) // the vendor's clock, not that of this machine
	if f.cuts() {
		a.log.Status = 0
	}
	s.record(a.log)
	if r.Method != http.MethodGet {
		s.touched()
	}
	return a
}

// run authenticates, spends the budget, lets faults answer and calls the
// handler.
func (s *Sim) run(c *call, a *answered, rt route, routeErr error, f faultSet) (int, any, error) {
	p, readOnly := s.authenticate(c.r)
	b := &s.anon
	if p != nil {
		b, a.log.Project = &p.Bucket, p.Name
	}
	spent := b.take(c.now)
	b.header(a.header, c.now)
	switch {
	case !spent:
		return 0, nil, fail("rate_limit_exceeded", "limit of %d requests per hour reached", b.Limit)
	case p == nil:
		return 0, nil, fail("unauthorized", "unable to authenticate")
	}
	c.p = p
	if err := f.refusal(); err != nil {
		if err.Code == "rate_limit_exceeded" {
			a.header.Set("RateLimit-Remaining", "0")
			if reset := f.first(FaultError).Reset; reset > 0 {
				a.header.Set("RateLimit-Reset", strconv.FormatInt(c.now.Add(reset+time.Second-1).Unix(), 10))
			}
		}
		return 0, nil, err
	}
	if readOnly && c.r.Method != http.MethodGet {
		return 0, nil, fail("forbidden", "insufficient permissions for this request")
	}
	if routeErr != nil {
		return 0, nil, routeErr
	}
	c.fails = f.actionError
	return rt.handle(c)
}

func (s *Sim) authenticate(r *http.Request) (p *project, readOnly bool) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || token == "" {
		return nil, false
	}
	if one := s.opts.OneProject; one != "" {
		return s.addProject(one, one), false
	}
	if of, ok := s.st.ReadOnly[token]; ok {
		return s.st.Projects[of], true
	}
	if p, ok := s.st.Projects[token]; ok {
		return p, false
	}
	if s.opts.AnyToken {
		return s.addProject("token-"+strconv.Itoa(len(s.st.Projects)+1), token), false
	}
	return nil, false
}

func errorBody(err error) (int, any) {
	var e *apiError
	if !errors.As(err, &e) {
		e = fail("server_error", "%v", err)
	}
	if e.Code == "" {
		return e.Status, nil
	}
	return e.Status, obj{"error": obj{"code": e.Code, "message": e.Message, "details": e.Details}}
}

func correlation() string {
	b := make([]byte, 8)
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}

// write sends the answer, damaged as the faults want it.
func (s *Sim) write(w http.ResponseWriter, a *answered) {
	f := faultSet(a.effects)
	if f.cuts() {
		cut(w, nil)
		return
	}
	for k, v := range a.header {
		w.Header()[k] = v
	}
	body := f.damage(a.body)
	switch {
	case len(body) > 0:
		w.Header().Set("Content-Type", "application/json")
	case a.status >= 400: // a bare status, as gateways answer
		w.Header().Set("Content-Type", "text/html")
		body = []byte("<html><body>" + http.StatusText(a.status) + "</body></html>")
	}
	if f.has(FaultCutBody) {
		w.Header().Set("Content-Length", strconv.Itoa(len(a.body)+1))
		w.WriteHeader(a.status)
		cut(w, a.body[:len(a.body)/2])
		return
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(body)
}

// cut writes part of an answer and breaks the connection.
func cut(w http.ResponseWriter, part []byte) {
	_, _ = w.Write(part)
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}
