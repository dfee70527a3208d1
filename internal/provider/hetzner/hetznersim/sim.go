package hetznersim

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"
)

// BasePath is the path of the API on the simulator's address.
const BasePath = "/v1"

// Options configure a Sim. The zero value is usable: real time, the vendor's
// limits, no project.
type Options struct {
	// Now is the simulator's clock; nil means time.Now. See Clock.
	Now func() time.Time
	// Clock, when set, is used instead of Now: it stands still, and moves when
	// POST /_sim/clock or the owner of the Clock says so. A state file keeps its
	// time.
	Clock *Clock
	// FirstID is the first id that is given out; 0 means one of nine digits.
	FirstID int64
	// Timing says how long actions take.
	Timing Timing
	// RateLimit is the number of requests per hour and project. 0 means 3600,
	// a negative number no limit.
	RateLimit int
	// AnyToken opens a project for each token that is new, instead of answering
	// 401.
	AnyToken bool
	// OneProject is a project that every token opens, itself the token by which
	// the methods of Sim know it.
	OneProject string
	// KeepAutoIPs makes the addresses that come with a server without
	// auto_delete, which the vendor's document leaves open.
	KeepAutoIPs bool
	// HideDeleted makes a server that is being deleted invisible at once, while
	// its action runs, its name is taken and its addresses are assigned. The
	// vendor's document says that a delete is immediate and means either.
	HideDeleted bool
	// MaxPerPage makes pages smaller than asked for, without a word; 0 means the
	// vendor's limit.
	MaxPerPage int
	// Past are actions from before the simulator began. They are in the list of
	// all servers' actions, and can be looked up by id.
	Past Past
	// Backend puts something real behind the servers; nil means nothing.
	Backend Backend
	// StateFile, when set, is where the state is read from at the start and
	// written to by Save and Close.
	StateFile string
	Logger    *slog.Logger
}

const defaultFirstID = 104_000_001

// DefaultRateLimit is the vendor's number of requests per hour and project.
const DefaultRateLimit = 3600

// Sim is the simulator. It is an http.Handler and safe for concurrent use;
// requests are answered one at a time.
type Sim struct {
	opts   Options
	now    func() time.Time
	timing Timing
	log    *slog.Logger
	routes []route

	mu       sync.Mutex
	st       state
	sold     map[string]soldOut // by location/type
	unpriced map[string]bool
	held     map[string]bool // commands whose actions do not end
	faults   []*activeFault
	faultSeq int
	requests []Request
	anon     bucket
	timer    *time.Timer
	closed   bool
	saving   bool
	done     chan struct{}
}

// state is all that a state file holds.
type state struct {
	NextID   int64               `json:"nextId"`
	NextIP   int                 `json:"nextIp"`
	Projects map[string]*project `json:"projects"` // by token
	// ReadOnly are further tokens that may only read, with their project's token.
	ReadOnly map[string]string `json:"readOnly,omitempty"`
	// Clock is the time of Options.Clock.
	Clock time.Time `json:"clock,omitzero"`
}

// project is what one token sees.
type project struct {
	Name   string         `json:"name"`
	Token  string         `json:"token"`
	Limits map[string]int `json:"limits,omitempty"` // most objects per kind
	Bucket bucket         `json:"bucket"`

	Servers   store[*server]       `json:"servers"`
	Volumes   store[*volume]       `json:"volumes"`
	Floating  store[*floatingIP]   `json:"floatingIps"`
	Primary   store[*primaryIP]    `json:"primaryIps"`
	Networks  store[*network]      `json:"networks"`
	Firewalls store[*firewall]     `json:"firewalls"`
	Balancers store[*loadBalancer] `json:"loadBalancers"`
	Groups    store[*group]        `json:"placementGroups"`
	Keys      store[*sshKey]       `json:"sshKeys"`
	Images    store[*image]        `json:"images"`
	Actions   map[int64]*action    `json:"actions"`

	// running are those of Actions that have not ended.
	running map[int64]*action
}

// New returns a simulator. It panics when the state file exists and cannot be
// read, since going on would forget what runs.
func New(opts Options) *Sim {
	s := &Sim{opts: opts, now: opts.Now, timing: opts.Timing.withDefaults(), log: opts.Logger,
		sold: map[string]soldOut{}, unpriced: map[string]bool{}, held: map[string]bool{}, done: make(chan struct{})}
	switch {
	case opts.Clock != nil:
		s.now = opts.Clock.Now
	case s.now == nil:
		s.now = time.Now
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.opts.RateLimit == 0 {
		s.opts.RateLimit = DefaultRateLimit
	}
	if opts.FirstID == 0 {
		opts.FirstID = defaultFirstID
	}
	s.st = state{NextID: opts.FirstID - 1, Projects: map[string]*project{}, ReadOnly: map[string]string{}}
	s.anon = newBucket(max(0, s.opts.RateLimit), s.now())
	if opts.StateFile != "" {
		if err := s.load(opts.StateFile); err != nil {
			panic(err)
		}
	}
	s.routes = s.allRoutes()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.restartBackend()
	s.schedule()
	return s
}

// AddProject opens a project whose token is token. A token that exists is kept
// with all that it owns.
func (s *Sim) AddProject(name, token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addProject(name, token)
}

// AddReadOnlyToken makes a second token of a project that may only read.
func (s *Sim) AddReadOnlyToken(token, of string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addProject(of, of)
	s.st.ReadOnly[token] = of
}

func (s *Sim) addProject(name, token string) *project {
	if p, ok := s.st.Projects[token]; ok {
		return p
	}
	p := &project{Name: name, Token: token, Limits: map[string]int{}, Bucket: newBucket(max(0, s.opts.RateLimit), s.now()),
		Actions: map[int64]*action{}, running: map[int64]*action{}}
	s.st.Projects[token] = p
	return p
}

// SetLimit bounds the objects of one kind ("servers", "primary_ips",
// "firewalls", ...) in a project; a create above it answers 403
// resource_limit_exceeded. A negative limit lifts it.
func (s *Sim) SetLimit(token, kind string, limit int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.addProject(token, token)
	if limit < 0 {
		delete(p.Limits, kind)
		return
	}
	p.Limits[kind] = limit
}

// overLimit answers whether one more object of the kind would be too many.
func (p *project) overLimit(kind string, have, more int) error {
	if limit, ok := p.Limits[kind]; ok && have+more > limit {
		return overLimit(kind + "_limit")
	}
	return nil
}

// Spend takes n requests out of a project's budget, as a foreign tool with
// another token of the project would.
func (s *Sim) Spend(token string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addProject(token, token).Bucket.spend(n, s.now())
}

// Advance applies everything that has come due by the simulator's clock, as the
// next request would.
func (s *Sim) Advance() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance(s.now())
	s.schedule()
}

// Close stops the timers and delayed answers, stops what the backend runs when
// there is no state file to go on from, and writes the state file.
func (s *Sim) Close(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	close(s.done)
	if s.timer != nil {
		s.timer.Stop()
	}
	return s.saveAndStop(ctx)
}

// id allocates an id. Ids of all kinds come from one sequence, so that an id of
// the wrong kind never happens to exist.
func (s *Sim) id() int64 {
	s.st.NextID++
	return s.st.NextID
}

// tokens lists the projects' tokens in a fixed order.
func (s *Sim) tokens() []string { return slices.Sorted(maps.Keys(s.st.Projects)) }

// Request is one request that was answered, for assertions and budgets.
type Request struct {
	At      time.Time `json:"at"`
	Method  string    `json:"method"`
	Pattern string    `json:"pattern"` // "/servers/{id}"
	Path    string    `json:"path"`
	Query   string    `json:"query,omitempty"`
	Project string    `json:"project,omitempty"`
	Status  int       `json:"status"` // 0 when the answer was cut off
	Code    string    `json:"code,omitempty"`
	Fault   string    `json:"fault,omitempty"`
}

// requestsKept bounds the log of requests.
const requestsKept = 50_000

func (s *Sim) record(r Request) {
	if len(s.requests) >= requestsKept {
		s.requests = slices.Delete(s.requests, 0, requestsKept/10)
	}
	s.requests = append(s.requests, r)
}

// Requests returns the requests so far, oldest first; the oldest of very many
// are forgotten.
func (s *Sim) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// ForgetRequests empties the log of requests.
func (s *Sim) ForgetRequests() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = nil
}

// Count is the number of logged requests of a method and pattern, such as
// "POST /servers"; an empty string counts all.
func (s *Sim) Count(what string) int {
	n := 0
	for _, r := range s.Requests() {
		if what == "" || r.Method+" "+r.Pattern == what {
			n++
		}
	}
	return n
}

var _ http.Handler = (*Sim)(nil)
