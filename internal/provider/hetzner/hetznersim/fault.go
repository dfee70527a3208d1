package hetznersim

import (
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"
)

// FaultKind is what goes wrong.
type FaultKind string

// The faults.
const (
	// FaultError answers with Code or Status and carries nothing out.
	FaultError FaultKind = "error"
	// FaultErrorAfter carries the request out and answers with Code or Status.
	FaultErrorAfter FaultKind = "error-after"
	// FaultLoseRequest breaks the connection and carries nothing out.
	FaultLoseRequest FaultKind = "lose-request"
	// FaultLoseAnswer carries the request out and breaks the connection.
	FaultLoseAnswer FaultKind = "lose-answer"
	// FaultCutBody carries the request out and breaks the connection in the
	// middle of the answer.
	FaultCutBody FaultKind = "cut-body"
	// FaultTruncate carries the request out and answers with half a document
	// that looks complete to HTTP.
	FaultTruncate FaultKind = "truncate"
	// FaultMalformed carries the request out and answers with something that is
	// no JSON though the header says so.
	FaultMalformed FaultKind = "malformed"
	// FaultDelay waits for Delay (real time) before the request is carried out.
	FaultDelay FaultKind = "delay"
	// FaultDelayAnswer carries the request out and waits before it answers.
	FaultDelayAnswer FaultKind = "delay-answer"
	// FaultOmit leaves Fields out of the objects of the answer.
	FaultOmit FaultKind = "omit"
	// FaultHang does not answer until the fault is removed; then the request is
	// carried out.
	FaultHang FaultKind = "hang"
	// FaultLag shows listings as they were Delay ago. Lookups by name are not
	// affected unless Query asks for them.
	FaultLag FaultKind = "lag"
	// FaultActionError lets the actions that the request starts end in error,
	// with Code and Message.
	FaultActionError FaultKind = "action-error"
)

// Fault is one thing that goes wrong with matching requests.
type Fault struct {
	Kind FaultKind `json:"kind"`
	// Method and Path choose the requests; empty means all. Path is a pattern
	// such as "/servers" or "/servers/*/actions/*", without the base path.
	Method string `json:"method,omitempty"`
	Path   string `json:"path,omitempty"`
	// Query are parameters that must be there with these values; "*" is any.
	Query map[string]string `json:"query,omitempty"`
	// Token limits the fault to one project's token.
	Token string `json:"token,omitempty"`
	// Skip lets so many matching requests pass first.
	Skip int `json:"skip,omitempty"`
	// Times is how often the fault strikes; 0 means once, a negative number for
	// ever.
	Times int `json:"times,omitempty"`

	Status  int           `json:"status,omitempty"`
	Code    string        `json:"code,omitempty"`
	Message string        `json:"message,omitempty"`
	Delay   time.Duration `json:"delay,omitempty"` // in nanoseconds
	// Reset is when RateLimit-Reset says that the budget is full again, counted
	// from the request; for the code rate_limit_exceeded.
	Reset time.Duration `json:"reset,omitempty"`
	// Command limits FaultActionError to actions of this command.
	Command string `json:"command,omitempty"`
	// Fields are dotted paths for FaultOmit, such as "image" or
	// "public_net.ipv6"; empty means everything that the vendor may leave out
	// or has taken away before.
	Fields []string `json:"fields,omitempty"`
	// Object limits FaultOmit to objects of this name.
	Object string `json:"object,omitempty"`
}

type activeFault struct {
	Fault
	id, seen, hits int
	removed        chan struct{}
}

// AddFault switches a fault on and returns its id.
func (s *Sim) AddFault(f Fault) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faultSeq++
	s.faults = append(s.faults, &activeFault{Fault: f, id: s.faultSeq, removed: make(chan struct{})})
	return s.faultSeq
}

// RemoveFault switches one fault off.
func (s *Sim) RemoveFault(id int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropFaults(func(f *activeFault) bool { return f.id == id })
}

func (s *Sim) dropFaults(which func(*activeFault) bool) {
	s.faults = slices.DeleteFunc(s.faults, func(f *activeFault) bool {
		if !which(f) {
			return false
		}
		close(f.removed)
		return true
	})
}

// ClearFaults switches all faults off.
func (s *Sim) ClearFaults() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropFaults(func(*activeFault) bool { return true })
}

// FaultHits is how often a fault has struck; 0 for one that was removed.
func (s *Sim) FaultHits(id int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.faults {
		if f.id == id {
			return f.hits
		}
	}
	return 0
}

// pick returns the faults that strike a request.
func (s *Sim) pick(r *http.Request, p string) faultSet {
	s.mu.Lock()
	defer s.mu.Unlock()
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	var out faultSet
	for _, f := range s.faults {
		if !f.matches(r.Method, p, r.URL.Query(), token) {
			continue
		}
		f.seen++
		if f.seen <= f.Skip || f.Times >= 0 && f.hits >= max(1, f.Times) {
			continue
		}
		f.hits++
		out = append(out, f)
	}
	return out
}

func (f *activeFault) matches(method, p string, q url.Values, token string) bool {
	if f.Method != "" && f.Method != method || f.Token != "" && f.Token != token {
		return false
	}
	if f.Path != "" {
		if ok, err := path.Match(f.Path, p); err != nil || !ok {
			return false
		}
	}
	for k, v := range f.Query {
		if !q.Has(k) || v != "*" && q.Get(k) != v {
			return false
		}
	}
	_, names := f.Query["name"]
	return f.Kind != FaultLag || names || !q.Has("name")
}

// faultSet are the faults of one request.
type faultSet []*activeFault

func (s faultSet) first(kinds ...FaultKind) *activeFault {
	for _, f := range s {
		if slices.Contains(kinds, f.Kind) {
			return f
		}
	}
	return nil
}

func (s faultSet) has(k FaultKind) bool { return s.first(k) != nil }
func (s faultSet) cuts() bool           { return s.first(FaultLoseAnswer, FaultLoseRequest) != nil }

func (s faultSet) names() string {
	var out []string
	for _, f := range s {
		out = append(out, string(f.Kind))
	}
	return strings.Join(out, ",")
}

func (s faultSet) delay(k FaultKind) time.Duration {
	if f := s.first(k); f != nil {
		return f.Delay
	}
	return 0
}

func (s faultSet) before() time.Duration { return s.delay(FaultDelay) }
func (s faultSet) after() time.Duration  { return s.delay(FaultDelayAnswer) }
func (s faultSet) lag() time.Duration    { return min(lagLimit, s.delay(FaultLag)) }

func (f *activeFault) apiError() *apiError {
	e := &apiError{Status: f.Status, Code: f.Code, Message: f.Message}
	if e.Code != "" && e.Message == "" {
		e.Message = "simulated " + e.Code
	}
	if e.Status == 0 {
		if e.Status = statusOf[e.Code]; e.Status == 0 {
			e.Status = http.StatusUnprocessableEntity
		}
	}
	return e
}

// refusal is the error that takes the place of carrying the request out.
func (s faultSet) refusal() *apiError {
	if f := s.first(FaultError); f != nil {
		return f.apiError()
	}
	return nil
}

// replacement is the error that hides what was carried out.
func (s faultSet) replacement() *apiError {
	if f := s.first(FaultErrorAfter); f != nil {
		return f.apiError()
	}
	return nil
}

func (s faultSet) actionError(command string) *actionError {
	f := s.first(FaultActionError)
	if f == nil || f.Command != "" && f.Command != command {
		return nil
	}
	e := f.apiError()
	return &actionError{Code: e.Code, Message: e.Message}
}

// damage is the body as it goes out.
func (s faultSet) damage(body []byte) []byte {
	switch {
	case s.has(FaultTruncate):
		return body[:len(body)/2]
	case s.has(FaultMalformed):
		return []byte("<html>upstream said no</html>")
	}
	return body
}

// optional is what FaultOmit takes away by default: what the document marks as
// optional or nullable, and what the vendor has removed or announced to remove.
var optional = []string{"image", "iso", "placement_group", "location", "server_type", "private_net", "public_net.ipv6",
	"protection", "volumes", "load_balancers", "backup_window", "included_traffic", "outgoing_traffic", "ingoing_traffic"}

// prune takes fields out of the objects of an answer.
func (s faultSet) prune(body obj) {
	f := s.first(FaultOmit)
	if f == nil {
		return
	}
	fields := f.Fields
	if len(fields) == 0 {
		fields = optional
	}
	for _, v := range body {
		switch v := v.(type) {
		case obj:
			f.pruneObject(v, fields)
		case []obj:
			for _, o := range v {
				f.pruneObject(o, fields)
			}
		}
	}
}

// pruneObject removes every other field and sets the others to null, since
// vendors do both.
func (f *activeFault) pruneObject(o obj, fields []string) {
	if f.Object != "" && o["name"] != f.Object {
		return
	}
	for i, field := range fields {
		at := o
		for {
			head, rest, more := strings.Cut(field, ".")
			if !more {
				break
			}
			next, ok := at[head].(obj)
			if !ok {
				at = obj{}
			} else {
				at = next
			}
			field = rest
		}
		if _, ok := at[field]; !ok {
			continue
		}
		if i%2 == 0 {
			at[field] = nil
		} else {
			delete(at, field)
		}
	}
}
