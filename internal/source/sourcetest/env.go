package sourcetest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/source"
)

// env is one clause being checked. Its Errorf and Fatalf name the clause.
type env struct {
	testing.TB
	h    Harness
	c    Clause
	b    Backend
	logs *logBuffer
	cred string
	// refs are those of the items seen so far, by event id.
	refs map[string]source.Ref
}

func newEnv(tb testing.TB, h Harness, c Clause) *env {
	tb.Helper()
	return &env{TB: tb, h: h, c: c, b: h.NewBackend(tb), logs: &logBuffer{}, refs: map[string]source.Ref{},
		cred: fmt.Sprintf("credential-sentinel-%016x", rand.Uint64())}
}

func (e *env) Errorf(format string, args ...any) {
	e.Helper()
	e.TB.Errorf("%s %s: %s", e.c.ID, e.c.Title, fmt.Sprintf(format, args...))
}

func (e *env) Fatalf(format string, args ...any) {
	e.Helper()
	e.TB.Fatalf("%s %s: %s", e.c.ID, e.c.Title, fmt.Sprintf(format, args...))
}

func (e *env) explain() {
	if e.Failed() {
		e.Logf("%s: %s\nWhy: %s", e.c.ID, e.c.Rule, e.c.Why)
	}
}

// open builds the source anew.
func (e *env) open() source.Source {
	e.Helper()
	return e.h.Open(e, e.b, OpenOptions{
		Name: "under-test", Credential: provider.NewSensitive([]byte(e.cred)), Logger: slog.New(slog.NewJSONHandler(e.logs, nil)),
	})
}

func (e *env) ctx() context.Context { return e.Context() }

// next reads a page that must be readable, through a cursor that was stored.
func (e *env) next(s source.Source, c source.Cursor) source.Page {
	e.Helper()
	p, err := s.Next(e.ctx(), e.stored(c))
	if err != nil {
		e.Fatalf("next: %v", err)
	}
	if p.Next == "" || len(p.Next) > source.MaxCursor {
		e.Errorf("the next cursor has %d bytes: want 1 to %d", len(p.Next), source.MaxCursor)
	}
	if len(p.Broken) > 0 && !slices.Contains(e.h.Hooks, HookParts) {
		e.Errorf("the part %q is broken, and the harness declares no hook %q", p.Broken[0].Part, HookParts)
	}
	for _, i := range p.Items {
		if err := e.h.Type.Check(i); err != nil {
			e.Errorf("%v", err)
		}
		e.refs[i.Event.ID] = i.Ref
	}
	return p
}

// stored is a cursor as it comes out of a history.
func (e *env) stored(c source.Cursor) (out source.Cursor) {
	e.Helper()
	b, err := json.Marshal(c)
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	if err != nil || out != c {
		e.Fatalf("the cursor does not survive JSON: %v", err)
	}
	return out
}

// reader reads on and on, and counts what it got.
type reader struct {
	e        *env
	s        source.Source
	c        source.Cursor
	got      map[string]int
	rejected []source.Rejection
	gaps     []source.Gap
	last     source.Page
}

func (e *env) reader() *reader { return &reader{e: e, s: e.open(), got: map[string]int{}} }

func (r *reader) take(p source.Page) {
	for _, i := range p.Items {
		r.got[i.Event.ID]++
	}
	r.rejected = append(r.rejected, p.Rejected...)
	if p.Gap != nil {
		r.gaps = append(r.gaps, *p.Gap)
	}
	r.last = p
}

// page reads one page and goes on behind it.
func (r *reader) page() source.Page {
	r.e.Helper()
	p := r.e.next(r.s, r.c)
	r.take(p)
	r.c = p.Next
	return p
}

// maxPages bounds the reading of what should end.
const maxPages = 2000

// drain reads until the source says that there is nothing more.
func (r *reader) drain() {
	r.e.Helper()
	for range maxPages {
		if r.page().CaughtUp {
			return
		}
	}
	r.e.Fatalf("not caught up after %d pages", maxPages)
}

// until drains until all ids are there, for as long as the kit's patience lasts.
func (r *reader) until(ids []string) {
	r.e.Helper()
	deadline := time.Now().Add(r.e.h.Patience)
	for {
		r.drain()
		if len(r.missing(ids)) == 0 || time.Now().After(deadline) {
			return
		}
		r.e.pause()
	}
}

func (r *reader) missing(ids []string) []string {
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return r.got[id] > 0 })
}

// want checks that exactly these events were read, and with once that none was
// read twice.
func (r *reader) want(ids []string, once bool) {
	r.e.Helper()
	if m := r.missing(ids); len(m) > 0 {
		r.e.Errorf("%d of %d events were never read: %s", len(m), len(ids), some(m))
	}
	var twice, strange []string
	for id, n := range r.got {
		if once && n > 1 {
			twice = append(twice, id)
		}
		if !slices.Contains(ids, id) {
			strange = append(strange, id)
		}
	}
	if len(twice) > 0 {
		r.e.Errorf("%d events were read more than once: %s", len(twice), some(twice))
	}
	if len(strange) > 0 {
		r.e.Errorf("%d events were read that nobody caused: %s", len(strange), some(strange))
	}
}

func (e *env) changes(n int) (ids []string) {
	e.Helper()
	if b, ok := e.b.(Bulk); ok {
		return b.Changes(e, n)
	}
	for range n {
		ids = append(ids, e.b.Change(e)...)
	}
	return ids
}

func (e *env) pause() {
	t := time.NewTimer(e.h.Poll)
	defer t.Stop()
	select {
	case <-t.C:
	case <-e.ctx().Done():
		e.Fatalf("the test ends")
	}
}

func (e *env) wantClass(what string, err error, want provider.Class) {
	e.Helper()
	switch {
	case err == nil:
		e.Errorf("%s: no error, want %s", what, want)
	case provider.ClassOf(err) != want:
		e.Errorf("%s: class %s, want %s: %v", what, provider.ClassOf(err), want, err)
	}
}

// wantQuiet checks that a text does not hold the credential.
func (e *env) wantQuiet(what, text string) {
	e.Helper()
	if strings.Contains(text, e.cred) {
		e.Errorf("%s shows the credential", what)
	}
}

func some(ids []string) string {
	slices.Sort(ids)
	if len(ids) > 5 {
		return strings.Join(ids[:5], ", ") + ", ..."
	}
	return strings.Join(ids, ", ")
}

// logBuffer keeps what a source logs.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
