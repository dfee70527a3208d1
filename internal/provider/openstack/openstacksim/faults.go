package openstacksim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"sync"
	"time"
)

// FaultKind is what goes wrong.
type FaultKind string

// The faults.
const (
	// FaultAnswer answers with Status and Body and carries nothing out.
	FaultAnswer FaultKind = "answer"
	// FaultEmpty answers a listing with nothing, as one that is behind does.
	FaultEmpty FaultKind = "empty"
	// FaultLoseAnswer carries the request out and breaks the connection.
	FaultLoseAnswer FaultKind = "lose-answer"
	// FaultTruncate carries the request out and breaks the connection in the
	// middle of the answer.
	FaultTruncate FaultKind = "truncate"
	// FaultHoldAnswer carries the request out and answers when the fault is
	// removed.
	FaultHoldAnswer FaultKind = "hold-answer"
	// FaultHang does not answer until the fault is removed; then the request is
	// carried out.
	FaultHang FaultKind = "hang"
)

// Fault is one thing that goes wrong with matching requests.
type Fault struct {
	Kind FaultKind
	// Method and Path choose the requests; empty means all. Path is a regular
	// expression that the whole path has to match at its end.
	Method, Path string
	// Query, when set, is a parameter that the request has to have.
	Query string
	// Page, when set, is the page of a listing, from 1.
	Page int
	// Skip lets so many matching requests pass first. Times is how often the fault
	// strikes; 0 means for ever.
	Skip, Times int

	Status int
	// Message is the text of the answer, in the form of the service that is asked;
	// Name the exception that the network service names, or the key that the
	// others use. Body, when set, is the whole answer instead, as of what stands in
	// front of a service.
	Message, Name, Body string
	RetryAfter          time.Duration
}

// Faults stands in front of a cloud, simulated or real, and lets things go
// wrong. The zero value lets everything pass. It is safe for concurrent use.
type Faults struct {
	mu     sync.Mutex
	next   int
	faults map[int]*fault
	all    []*fault // those that have struck often enough, too
	lag    time.Duration
	named  time.Duration        // of listings by name
	born   map[string]time.Time // servers, by id
	pages  map[string]int       // of the entry that a page ends with
	edit   map[string]func(server map[string]any)
	order  func(server map[string]any)
	list   func(kind string, entries []any) []any
	hook   func(r *http.Request)
}

type fault struct {
	Fault
	path    *regexp.Regexp
	removed chan struct{}
	remove  func()
}

// Add makes a fault; remove ends it. It panics if the fault makes no sense.
func (f *Faults) Add(x Fault) (remove func()) {
	remove, err := f.TryAdd(x)
	if err != nil {
		panic(err)
	}
	return remove
}

// TryAdd is Add for faults that a person has typed.
func (f *Faults) TryAdd(x Fault) (remove func(), err error) {
	switch x.Kind {
	case FaultAnswer:
		if x.Status < 200 || x.Status > 599 {
			return nil, fmt.Errorf("status: %d: want that of an answer, 200 to 599", x.Status)
		}
	case FaultEmpty, FaultLoseAnswer, FaultTruncate, FaultHoldAnswer, FaultHang:
	default:
		return nil, fmt.Errorf("kind: %q: want %s, %s, %s, %s, %s or %s", x.Kind, FaultAnswer, FaultEmpty, FaultLoseAnswer, FaultTruncate,
			FaultHoldAnswer, FaultHang)
	}
	path, err := regexp.Compile("(?:" + x.Path + ")$")
	if err != nil {
		return nil, fmt.Errorf("path: %w", err)
	}
	if x.Path == "" {
		path = regexp.MustCompile("")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.faults == nil {
		f.faults = map[int]*fault{}
	}
	f.next++
	id := f.next
	one := &fault{Fault: x, path: path, removed: make(chan struct{})}
	one.remove = sync.OnceFunc(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.faults, id)
		close(one.removed)
	})
	f.faults[id], f.all = one, append(f.all, one)
	return one.remove, nil
}

// Clear ends all faults.
func (f *Faults) Clear() {
	f.mu.Lock()
	all := f.all
	f.all = nil
	f.mu.Unlock()
	for _, x := range all {
		x.remove()
	}
}

// Lag hides servers from listings for d after they were made, as far as the
// listing is not by name; zero ends that.
func (f *Faults) Lag(d time.Duration) { f.mu.Lock(); defer f.mu.Unlock(); f.lag = d }

// LagNamed does the same with listings by name, which real clouds have up to date
// mostly.
func (f *Faults) LagNamed(d time.Duration) { f.mu.Lock(); defer f.mu.Unlock(); f.named = d }

// Edit changes what answers say of the server of this name until it is undone.
func (f *Faults) Edit(name string, change func(server map[string]any)) (undo func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.edit == nil {
		f.edit = map[string]func(map[string]any){}
	}
	f.edit[name] = change
	return func() { f.mu.Lock(); defer f.mu.Unlock(); delete(f.edit, name) }
}

// List changes the entries of listings, by the key of their answers: servers,
// volumes, floatingips, ports or instanceActions; nil ends that. Links to further
// pages stay as they are. It is called with the faults locked.
func (f *Faults) List(change func(kind string, entries []any) []any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = change
}

// Order changes the bodies of requests that make servers; nil ends that.
func (f *Faults) Order(change func(server map[string]any)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.order = change
}

// OnRequest is called before each request is carried out; nil ends that.
func (f *Faults) OnRequest(do func(r *http.Request)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = do
}

// match finds the first fault that a request meets.
func (f *Faults) match(r *http.Request) *fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id := range f.next + 1 {
		x := f.faults[id]
		if x == nil || x.Method != "" && x.Method != r.Method || !x.path.MatchString(strings.TrimRight(r.URL.Path, "/")) ||
			x.Page != 0 && x.Page != f.page(r) || x.Query != "" && !r.URL.Query().Has(x.Query) {
			continue
		}
		if x.Skip > 0 {
			x.Skip--
			continue
		}
		if x.Times > 0 {
			if x.Times--; x.Times == 0 {
				delete(f.faults, id)
			}
		}
		return x
	}
	return nil
}

// page is the page of a listing that a request asks for, else 0.
func (f *Faults) page(r *http.Request) int {
	if listed(r) == "" {
		return 0
	}
	if m := r.URL.Query().Get("marker"); m != "" {
		return f.pages[m] + 1
	}
	return 1
}

// listed is what a request lists, by the key of its answer; "" if it does not.
func listed(r *http.Request) string {
	if r.Method != http.MethodGet {
		return ""
	}
	name := path.Base(strings.TrimSuffix(r.URL.Path, "/detail"))
	switch name {
	case "servers", "volumes", "floatingips", "ports":
		return name
	case "os-instance-actions":
		return "instanceActions"
	}
	return ""
}

func creating(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/servers")
}

// Wrap is the cloud h with the faults in front.
func (f *Faults) Wrap(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := f.match(r)
		if x != nil {
			switch x.Kind {
			case FaultAnswer:
				x.answer(w, r)
				return
			case FaultEmpty:
				key := listed(r)
				if key == "" {
					key = path.Base(r.URL.Path)
				}
				writeJSON(w, http.StatusOK, map[string]any{key: []any{}})
				return
			case FaultHang:
				select {
				case <-x.removed:
				case <-r.Context().Done():
					panic(http.ErrAbortHandler)
				}
			}
		}
		f.mu.Lock()
		order, hook := f.order, f.hook
		f.mu.Unlock()
		if hook != nil {
			hook(r)
		}
		if order != nil && creating(r) {
			changeBody(r, order)
		}
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		body := f.seen(r, rec)
		switch {
		case x == nil:
		case x.Kind == FaultLoseAnswer:
			panic(http.ErrAbortHandler)
		case x.Kind == FaultHoldAnswer:
			select {
			case <-x.removed:
			case <-r.Context().Done():
				panic(http.ErrAbortHandler)
			}
		}
		for k, v := range rec.Header() {
			w.Header()[k] = v
		}
		if len(body) > 0 {
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		}
		w.WriteHeader(rec.Code)
		if x != nil && x.Kind == FaultTruncate && len(body) > 1 {
			_, _ = w.Write(body[:len(body)/2])
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write(body)
	})
}

func changeBody(r *http.Request, order func(map[string]any)) {
	b, err := io.ReadAll(r.Body)
	var doc map[string]any
	if err == nil && json.Unmarshal(b, &doc) == nil {
		if s, ok := doc["server"].(map[string]any); ok {
			order(s)
			b, _ = json.Marshal(doc)
		}
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(b)), int64(len(b))
	r.Header.Set("Content-Length", fmt.Sprint(len(b)))
}
