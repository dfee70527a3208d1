package hetzner_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/hetzner/hetznersim"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/internal/source/hetzner"
	"github.com/tollgate-dev/tollgate/internal/source/sourcetest"
)

const (
	project  = "the-project"
	pageSize = 4
)

// platform is the vendor's simulator behind a window through which single actions
// look different: unfinished, forgotten, out of shape.
type platform struct {
	*hetznersim.Sim
	tb  testing.TB
	url string

	mu sync.Mutex
	// skew is how far the platform's clock is off from ours, which is later than
	// the machine's by later.
	skew, later time.Duration
	held        map[int64]bool
	ended       map[int64]time.Time
	hidden      func(id int64) bool
	lost        map[int64]bool
	bad         map[int64]bool
	during      func()
	spoil       func(obj) any
	noPrices    bool
	seq         int
}

func newPlatform(tb testing.TB) *platform {
	p := &platform{tb: tb, held: map[int64]bool{}, ended: map[int64]time.Time{}, lost: map[int64]bool{}, bad: map[int64]bool{},
		hidden: func(int64) bool { return false }}
	p.Sim = hetznersim.New(hetznersim.Options{OneProject: project, RateLimit: -1, Timing: hetznersim.Uniform(0), Now: p.now})
	srv := httptest.NewServer(p)
	p.url = srv.URL + hetznersim.BasePath
	tb.Cleanup(func() { p.ClearFaults(); srv.Close() })
	return p
}

func (p *platform) now() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Add(p.later + p.skew)
}

func (p *platform) ours() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Add(p.later)
}

// open builds the source of a kind.
func (p *platform) open(tb testing.TB, kind event.ResourceType, o sourcetest.OpenOptions, known source.Known) *hetzner.Source {
	tb.Helper()
	list, err := hetzner.New(source.Config{
		Name: cmp.Or(o.Name, "test"), Account: sourcetest.Account, Logger: o.Logger, Known: known,
		Secret: func(context.Context, string) (provider.Sensitive, error) { return o.Credential, nil },
		Decode: func(into any) error {
			*into.(*hetzner.Options) = hetzner.Options{Token: "token", Endpoint: p.url, Kinds: []string{string(kind)}}
			return nil
		},
	})
	if err != nil {
		tb.Fatal(err)
	}
	list[0].SetClock(p.ours)
	return list[0]
}

// api makes a request and decodes the answer.
func (p *platform) api(method, path string, body, into any) {
	p.tb.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		p.tb.Fatal(err)
	}
	req := httptest.NewRequest(method, hetznersim.BasePath+path, bytes.NewReader(b))
	req.Header.Set("Authorization", "Bearer "+project)
	req.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	p.Sim.ServeHTTP(w, req)
	if w.Code >= 300 {
		p.tb.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
	}
	if into != nil {
		if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
			p.tb.Fatal(err)
		}
	}
}

type obj = map[string]any

type made struct {
	Server, Volume, FloatingIP, LoadBalancer struct{ ID int64 }
	Floating                                 struct{ ID int64 } `json:"floating_ip"`
	Balancer                                 struct{ ID int64 } `json:"load_balancer"`
	Action                                   struct{ ID int64 }
}

func (p *platform) name(prefix string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seq++
	return fmt.Sprintf("%s-%d", prefix, p.seq)
}

func (p *platform) volume(size int) made {
	var m made
	p.api(http.MethodPost, "/volumes", obj{"name": p.name("vol"), "size": size, "location": "fsn1"}, &m)
	return m
}

func eventID(kind event.ResourceType, id int64, change string) string {
	return event.ID(hetzner.TypeName, sourcetest.Account, event.Resource{Type: kind, ID: fmt.Sprint(id)}, change)
}

// ServeHTTP implements http.Handler.
func (p *platform) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.Header.Set("Authorization", "Bearer "+project)
	if p.noPrices && strings.HasSuffix(r.URL.Path, "/pricing") {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if !strings.Contains(r.URL.Path, "/actions") {
		p.resources(w, r)
		p.interpose()
		return
	}
	rec := httptest.NewRecorder()
	whole := r.Clone(r.Context())
	q := r.URL.Query()
	if len(q["id"]) == 0 {
		whole.URL.RawQuery = url.Values{"per_page": {"50"}, "sort": {"id:asc"}}.Encode()
	}
	p.Sim.ServeHTTP(rec, whole)
	if rec.Code != http.StatusOK {
		for k, v := range rec.Header() {
			w.Header()[k] = v
		}
		w.WriteHeader(rec.Code)
		_, _ = w.Write(rec.Body.Bytes())
		return
	}
	var all []obj
	for page := 1; ; page++ {
		var body struct {
			Actions []obj
			Meta    struct {
				Pagination struct {
					Next int `json:"next_page"`
				}
			}
		}
		if err := json.Unmarshal(rec.Body.Bytes(), &body); err != nil {
			_, _ = w.Write(rec.Body.Bytes()) // a fault's
			return
		}
		for _, a := range body.Actions {
			if a = p.seen(a); a != nil {
				all = append(all, a)
			}
		}
		if body.Meta.Pagination.Next == 0 {
			break
		}
		next := whole.Clone(r.Context())
		nq := next.URL.Query()
		nq.Set("page", strconv.Itoa(page+1))
		next.URL.RawQuery = nq.Encode()
		rec = httptest.NewRecorder()
		p.Sim.ServeHTTP(rec, next)
	}
	answer := obj{"actions": all}
	if len(q["id"]) == 0 {
		answer = pageOf(all, q)
	}
	w.Header().Set("Content-Type", "application/json")
	b, err := json.Marshal(answer)
	if err != nil {
		p.tb.Error(err)
	}
	_, _ = io.Copy(w, bytes.NewReader(b))
	p.interpose()
}

func (p *platform) interpose() {
	p.mu.Lock()
	f := p.during
	p.during = nil
	p.mu.Unlock()
	if f != nil {
		f()
	}
}

// seen is an action as it looks through the window, nil when it does not.
func (p *platform) seen(a obj) obj {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := int64(a["id"].(float64))
	switch {
	case p.lost[id] || p.hidden(id):
		return nil
	case p.held[id]:
		a["status"], a["finished"], a["progress"] = "running", nil, 50
	case p.bad[id]:
		a["resources"] = []obj{}
	}
	if t, ok := p.ended[id]; ok {
		a["finished"] = t.UTC().Format(time.RFC3339)
	}
	return a
}

// pageOf sorts by id and cuts a page of at most pageSize.
func pageOf(all []obj, q url.Values) obj {
	if st := q["status"]; len(st) > 0 {
		all = slices.DeleteFunc(all, func(a obj) bool { return !slices.Contains(st, a["status"].(string)) })
	}
	if q.Get("sort") == "id:desc" {
		slices.Reverse(all)
	}
	page, per := 1, 25
	if n, err := strconv.Atoi(q.Get("page")); err == nil {
		page = n
	}
	if n, err := strconv.Atoi(q.Get("per_page")); err == nil {
		per = n
	}
	per = min(per, pageSize)
	last := max(1, (len(all)+per-1)/per)
	meta := obj{"page": page, "per_page": per, "previous_page": nil, "next_page": nil, "last_page": last, "total_entries": len(all)}
	if page < last {
		meta["next_page"] = page + 1
	}
	from := min((page-1)*per, len(all))
	return obj{"actions": append([]obj{}, all[from:min(from+per, len(all))]...), "meta": obj{"pagination": meta}}
}

// Change implements sourcetest.Backend.
func (p *platform) Change(testing.TB) []string {
	return []string{eventID(event.Volume, p.volume(10).Volume.ID, event.ChangeCreate)}
}

// PageSize implements sourcetest.Backend.
func (p *platform) PageSize(testing.TB) int { return pageSize }

// Begin implements sourcetest.Starter.
func (p *platform) Begin(testing.TB) func() []string {
	m := p.volume(10)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held[m.Action.ID] = true
	return func() []string {
		now := p.now()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.held, m.Action.ID)
		p.ended[m.Action.ID] = now
		return []string{eventID(event.Volume, m.Volume.ID, event.ChangeCreate)}
	}
}

// Lose implements sourcetest.Loser.
func (p *platform) Lose(testing.TB) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range p.held {
		p.lost[id] = true
	}
}

// During implements sourcetest.Interposer.
func (p *platform) During(_ testing.TB, f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.during = f
}

// Forget implements sourcetest.Forgetter.
func (p *platform) Forget(testing.TB) {
	floor := p.volume(10).Action.ID
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hidden = func(id int64) bool { return id <= floor }
	p.later += 3 * time.Hour
}

// Poison implements sourcetest.Poisoner.
func (p *platform) Poison(testing.TB) {
	id := p.volume(10).Action.ID
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bad[id] = true
}

// Skew implements sourcetest.Skewer.
func (p *platform) Skew(_ testing.TB, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.skew = d
}

// Fail implements sourcetest.Faulter.
func (p *platform) Fail(_ testing.TB, kind sourcetest.FaultKind, read int, echo string) func() {
	f := hetznersim.Fault{Kind: hetznersim.FaultError, Method: http.MethodGet, Times: -1, Skip: read - 1, Message: "no: " + echo}
	switch kind {
	case sourcetest.FaultUnauthorized:
		f.Status, f.Code = http.StatusUnauthorized, "unauthorized"
	case sourcetest.FaultThrottled:
		f.Status, f.Code = http.StatusTooManyRequests, "rate_limit_exceeded"
	case sourcetest.FaultInternal:
		f.Status, f.Code = http.StatusInternalServerError, "server_error"
	case sourcetest.FaultTruncated:
		f.Kind = hetznersim.FaultTruncate
	}
	id := p.AddFault(f)
	return func() { p.RemoveFault(id) }
}

// Hang implements sourcetest.Hanger.
func (p *platform) Hang(testing.TB) func() {
	id := p.AddFault(hetznersim.Fault{Kind: hetznersim.FaultHang, Method: http.MethodGet, Times: -1})
	return sync.OnceFunc(func() { p.RemoveFault(id) })
}
