package kubernetessim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Kinds of faults.
const (
	// FaultAnswer answers with Status, and does nothing. It is about objects: an
	// API server that denies them still says whether it is ready.
	FaultAnswer = "answer"
	// FaultBare answers with the code and text of Status without a Status body, as
	// a gateway does.
	FaultBare = "bare"
	// FaultLoseReply does what is asked and ends the connection.
	FaultLoseReply = "lose-reply"
	// FaultTruncate does what is asked and cuts the body of the answer off.
	FaultTruncate = "truncate"
	// FaultHang does nothing until it is healed or the client leaves.
	FaultHang = "hang"
)

// Fault is a way in which requests fail.
type Fault struct {
	Kind string
	// Verb and Resource narrow the requests that it is about; empty is all.
	Verb, Resource string
	// Page narrows it to the n-th page of a listing, counted from 1; 0 is all.
	Page int
	// Skip is how many such requests pass before it strikes; Times is how often it
	// strikes then, 0 without end.
	Skip, Times int
	// Status is the answer of FaultAnswer and FaultBare; only Code is required.
	Status metav1.Status
}

// Front stands before an API server. The zero value with Next passes everything
// on. It is safe for concurrent use.
type Front struct {
	// Next is the API server.
	Next http.Handler
	// Authorize puts what Next wants to see in place of the client's credentials;
	// nil leaves them.
	Authorize func(http.Header)
	// PageSize, when positive, is the most that a page of a listing holds.
	PageSize int

	mu      sync.Mutex
	next    int
	faults  map[int]*Fault
	healed  map[int]chan struct{}
	pages   map[string]int       // page numbers by continue token
	created map[string]time.Time // when objects were made, by resource and name
	lag     time.Duration
	edits   map[int]edit
	seen    []Seen
}

// edit changes what answers say of the objects of one name.
type edit struct {
	name string
	do   func(resource string, object map[string]any)
}

// Seen is a request that came in.
type Seen struct {
	Verb, Resource, Name string
	// Code is the status of the answer, 0 when there was none.
	Code int
}

// Add lets requests fail until heal is called.
func (f *Front) Add(fault Fault) (heal func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.init()
	f.next++
	id := f.next
	f.faults[id], f.healed[id] = &fault, make(chan struct{})
	return sync.OnceFunc(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.faults, id)
		close(f.healed[id])
	})
}

// LagList hides objects from listings for d after their creation.
func (f *Front) LagList(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lag = d
}

// Edit changes what answers say of the objects of a name, whole or in listings,
// until undo is called. do is called with JSON as Go has it.
func (f *Front) Edit(name string, do func(resource string, object map[string]any)) (undo func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.init()
	f.next++
	id := f.next
	f.edits[id] = edit{name, do}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.edits, id)
	}
}

// Requests are the requests so far, in their order.
func (f *Front) Requests() []Seen {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.seen)
}

// init prepares the zero value. mu is held.
func (f *Front) init() {
	if f.faults == nil {
		f.faults, f.healed = map[int]*Fault{}, map[int]chan struct{}{}
		f.pages, f.created, f.edits = map[string]int{}, map[string]time.Time{}, map[int]edit{}
	}
}

// strike finds the fault that a request meets.
func (f *Front) strike(t target, page int) (Fault, <-chan struct{}, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(f.faults)) {
		fault := f.faults[id]
		if t.resource == "" && fault.Kind == FaultAnswer {
			continue
		}
		if fault.Verb != "" && fault.Verb != t.verb || fault.Resource != "" && fault.Resource != t.resource || fault.Page != 0 && fault.Page != page {
			continue
		}
		if fault.Skip > 0 {
			fault.Skip--
			continue
		}
		if fault.Times > 0 {
			if fault.Times--; fault.Times == 0 {
				delete(f.faults, id)
			}
		}
		return *fault, f.healed[id], true
	}
	return Fault{}, nil, false
}

// ServeHTTP implements http.Handler.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	t, _ := targetOf(r)
	f.mu.Lock()
	f.init()
	page := 1
	if n, ok := f.pages[r.URL.Query().Get("continue")]; ok {
		page = n
	}
	n := len(f.seen)
	f.seen = append(f.seen, Seen{Verb: t.verb, Resource: t.resource, Name: t.name})
	f.mu.Unlock()
	answered := func(code int) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.seen[n].Code = code
	}
	fault, healed, struck := f.strike(t, page)
	if struck {
		switch fault.Kind {
		case FaultHang:
			select {
			case <-healed:
			case <-r.Context().Done():
				panic(http.ErrAbortHandler)
			}
			struck = false
		case FaultAnswer, FaultBare:
			answered(int(fault.Status.Code))
			fault.write(w)
			return
		}
	}
	if f.Authorize != nil {
		f.Authorize(r.Header)
	}
	if t.verb == "watch" {
		f.Next.ServeHTTP(w, r)
		return
	}
	if f.PageSize > 0 && t.verb == "list" {
		q := r.URL.Query()
		if n, err := strconv.Atoi(q.Get("limit")); err == nil && n > f.PageSize {
			q.Set("limit", strconv.Itoa(f.PageSize))
			r.URL.RawQuery = q.Encode()
		}
	}
	ans := &answer{header: http.Header{}}
	f.Next.ServeHTTP(ans, r)
	if ans.code == 0 {
		panic(http.ErrAbortHandler)
	}
	body := f.note(t, page, ans)
	if struck && fault.Kind == FaultLoseReply {
		panic(http.ErrAbortHandler)
	}
	maps.Copy(w.Header(), ans.header)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	if struck && fault.Kind == FaultTruncate {
		w.WriteHeader(http.StatusOK)
		_, _ = w.Write(body[:len(body)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	answered(ans.code)
	w.WriteHeader(ans.code)
	_, _ = w.Write(body)
}

// note remembers what an answer says of pages and new objects, and hides from
// listings what they are behind with.
func (f *Front) note(t target, page int, ans *answer) []byte {
	body := ans.body.Bytes()
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case t.verb == "create" && t.sub == "" && ans.code == http.StatusCreated:
		var o metav1.PartialObjectMetadata
		if json.Unmarshal(body, &o) == nil {
			f.created[t.resource+"/"+o.Name] = time.Now()
		}
	case t.verb == "list" && ans.code == http.StatusOK:
		var l map[string]any
		if json.Unmarshal(body, &l) != nil {
			return body
		}
		if token, _ := metaOf(l)["continue"].(string); token != "" {
			f.pages[token] = page + 1
		}
		items, _ := l["items"].([]any)
		if len(items) == 0 || f.lag == 0 && len(f.edits) == 0 {
			return body
		}
		l["items"] = slices.DeleteFunc(items, func(item any) bool {
			o, _ := item.(map[string]any)
			f.edit(t.resource, o)
			at, ok := f.created[fmt.Sprintf("%s/%v", t.resource, metaOf(o)["name"])]
			return ok && time.Since(at) < f.lag
		})
		return remarshal(l, body)
	case t.verb == "get" && ans.code == http.StatusOK && len(f.edits) > 0:
		var o map[string]any
		if json.Unmarshal(body, &o) == nil {
			f.edit(t.resource, o)
			return remarshal(o, body)
		}
	}
	return body
}

func metaOf(o map[string]any) map[string]any {
	m, _ := o["metadata"].(map[string]any)
	return m
}

// edit applies the edits to one object. mu is held.
func (f *Front) edit(resource string, o map[string]any) {
	for _, e := range f.edits {
		if metaOf(o)["name"] == e.name {
			e.do(resource, o)
		}
	}
}

func remarshal(v any, otherwise []byte) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		return otherwise
	}
	return b
}

// write answers in place of the API server.
func (fault Fault) write(w http.ResponseWriter) {
	st := fault.Status
	if st.Details != nil && st.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(st.Details.RetryAfterSeconds)))
	}
	if fault.Kind == FaultBare {
		http.Error(w, st.Message, int(st.Code))
		return
	}
	st.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	st.Status = metav1.StatusFailure
	writeJSON(w, int(st.Code), st)
}

// answer keeps what a handler writes.
type answer struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(code int) {
	if a.code == 0 && code >= http.StatusOK {
		a.code = code
	}
}

func (a *answer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(b)
}
