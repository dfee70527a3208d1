package sourcetest_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/internal/source/memory"
	"github.com/tollgate-dev/tollgate/internal/source/memory/memorytest"
	"github.com/tollgate-dev/tollgate/internal/source/sourcetest"
)

// mutant is the source in memory with something broken. A nil field leaves the
// method as it is.
type mutant struct {
	source.Source
	b *memorytest.Backend
	// w is shared by all mutants over one feed.
	w *world
	// opts are those it was opened with.
	opts sourcetest.OpenOptions

	next   func(ctx context.Context, c source.Cursor) (source.Page, error)
	derive func(ctx context.Context, r source.Ref) ([]source.Item, error)
	seek   func() source.Cursor
	list   func(ctx context.Context) (source.Snapshot, error)
	gone   func(ctx context.Context, account, region string, r event.Resource) (bool, error)

	// turn is held by mutants whose defect is no race.
	turn sync.Mutex
}

// world is what the mutants over one feed remember beyond a restart.
type world struct {
	mu    sync.Mutex
	calls int
	seen  map[string]bool
}

func (w *world) once(key string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen[key] {
		return false
	}
	w.seen[key] = true
	return true
}

func (w *world) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls++
	return w.calls
}

func (m *mutant) Next(ctx context.Context, c source.Cursor) (source.Page, error) {
	if m.next != nil {
		return m.next(ctx, c)
	}
	return m.Source.Next(ctx, c)
}

func (m *mutant) Derive(ctx context.Context, r source.Ref) ([]source.Item, error) {
	if m.derive != nil {
		return m.derive(ctx, r)
	}
	return m.Source.Derive(ctx, r)
}

// List implements source.Lister.
func (m *mutant) List(ctx context.Context) (source.Snapshot, error) {
	if m.list != nil {
		return m.list(ctx)
	}
	return m.Source.(source.Lister).List(ctx)
}

// Gone implements source.Confirmer.
func (m *mutant) Gone(ctx context.Context, account, region string, r event.Resource) (bool, error) {
	if m.gone != nil {
		return m.gone(ctx, account, region, r)
	}
	return m.ask(ctx, account, region, r)
}

// ask asks the healthy source.
func (m *mutant) ask(ctx context.Context, account, region string, r event.Resource) (bool, error) {
	return m.Source.(source.Confirmer).Gone(ctx, account, region, r)
}

// editList changes every good listing.
func (m *mutant) editList(f func(s *source.Snapshot)) {
	m.list = func(ctx context.Context) (source.Snapshot, error) {
		s, err := m.Source.(source.Lister).List(ctx)
		if err == nil {
			f(&s)
		}
		return s, err
	}
}

// edit changes every good page.
func (m *mutant) edit(f func(p *source.Page)) {
	m.next = func(ctx context.Context, c source.Cursor) (source.Page, error) {
		p, err := m.Source.Next(ctx, c)
		if err == nil {
			f(&p)
		}
		return p, err
	}
}

// evaluate runs every clause of a harness against sources broken by brk and returns the
// ids of those that failed, with what they said.
func evaluate(t *testing.T, h sourcetest.Harness, brk func(m *mutant)) (failed []string, said string) {
	t.Helper()
	h.Patience = 100 * time.Millisecond
	h.Prompt = 200 * time.Millisecond
	worlds := sync.Map{}
	open := h.Open
	h.Open = func(tb testing.TB, b sourcetest.Backend, o sourcetest.OpenOptions) source.Source {
		w, _ := worlds.LoadOrStore(b, &world{seen: map[string]bool{}})
		m := &mutant{Source: open(tb, b, o), w: w.(*world), opts: o}
		if d, ok := b.(*memorytest.Divided); ok {
			m.b = d.Backend
		} else {
			m.b = b.(*memorytest.Backend)
		}
		brk(m)
		return m
	}
	var text strings.Builder
	for _, c := range sourcetest.Clauses() {
		if !sourcetest.Runnable(h, c) {
			continue
		}
		if rec := record(t, func(tb testing.TB) { sourcetest.Check(tb, h, c) }); rec.failed {
			failed = append(failed, c.ID)
			text.WriteString(strings.Join(rec.lines, "\n"))
		}
	}
	return failed, text.String()
}

// Every broken source is caught by its own clause: a kit that cannot fail proves
// nothing.
func TestMutants(t *testing.T) {
	t.Parallel()
	caught := map[string]bool{}
	try := func(h func() sourcetest.Harness, defects []defect) {
		for _, d := range defects {
			caught[d.clause] = true
			t.Run(d.clause+" "+d.what, func(t *testing.T) {
				t.Parallel()
				got, said := evaluate(t, h(), d.brk)
				if !slices.Contains(got, d.clause) {
					t.Errorf("clauses that failed: %v, want %s among them\n%s", got, d.clause, said)
				}
				if d.only && len(got) > 1 {
					t.Errorf("clauses that failed: %v, want %s only\n%s", got, d.clause, said)
				}
			})
		}
	}
	try(memorytest.Harness, slices.Concat(defects(), listDefects()))
	// What is wrong with parts is seen where there are some.
	try(memorytest.DividedHarness, slices.Concat(partDefects(), goneDefects()))
	for _, c := range sourcetest.Clauses() {
		if !caught[c.ID] {
			t.Errorf("%s %s: no mutant proves that it can fail", c.ID, c.Title)
		}
	}
}

// The healthy source passes under the same recording.
func TestHealthy(t *testing.T) {
	t.Parallel()
	for _, h := range []sourcetest.Harness{memorytest.Harness(), memorytest.DividedHarness()} {
		if got, said := evaluate(t, h, func(*mutant) {}); len(got) > 0 {
			t.Errorf("clauses that failed: %v\n%s", got, said)
		}
	}
}

func TestClausesAreNumbered(t *testing.T) {
	t.Parallel()
	slugs := map[string]bool{}
	for i, c := range sourcetest.Clauses() {
		if want := fmt.Sprintf("SC-%02d", i+1); c.ID != want {
			t.Errorf("clause %d is %s, want %s", i, c.ID, want)
		}
		if c.Slug == "" || slugs[c.Slug] || c.Title == "" || c.Rule == "" || c.Why == "" {
			t.Errorf("%s is incomplete: %+v", c.ID, c)
		}
		slugs[c.Slug] = true
	}
}

// A clause that cannot be run is a failure where all are required.
func TestRequire(t *testing.T) {
	h := memorytest.Harness()
	h.Hooks = nil
	i := slices.IndexFunc(sourcetest.Clauses(), func(c sourcetest.Clause) bool { return slices.Contains(c.Needs, sourcetest.HookForget) })
	c := sourcetest.Clauses()[i]
	run := func() *recorder { return record(t, func(tb testing.TB) { sourcetest.RunClause(tb, h, c) }) }
	t.Setenv(sourcetest.RequireEnv, "all")
	if rec := run(); !rec.failed {
		t.Error("not run, and no failure")
	}
	t.Setenv(sourcetest.RequireEnv, "")
	if rec := run(); rec.failed || !rec.skipped {
		t.Errorf("failed %v, skipped %v", rec.failed, rec.skipped)
	}
}

// What a source can do has to be tried, and a part that is broken has to be one that
// the harness knows of.
func TestUndeclared(t *testing.T) {
	clause := func(id string) sourcetest.Clause {
		all := sourcetest.Clauses()
		return all[slices.IndexFunc(all, func(c sourcetest.Clause) bool { return c.ID == id })]
	}
	h := memorytest.Harness()
	h.Hooks = []sourcetest.Hook{sourcetest.HookList}
	for _, require := range []string{"", "all"} {
		t.Setenv(sourcetest.RequireEnv, require)
		if rec := record(t, func(tb testing.TB) { sourcetest.RunClause(tb, h, clause("SC-31")) }); rec.failed != (require != "") {
			t.Errorf("required %q, it can be asked about one resource, and nobody does: failed %v", require, rec.failed)
		}
	}
	// A source of two parts of which one is broken, over a platform that has none.
	h = memorytest.Harness()
	h.Open = func(tb testing.TB, b sourcetest.Backend, o sourcetest.OpenOptions) source.Source {
		d := memorytest.NewDivided()
		d.FailPart(tb, memorytest.Second, sourcetest.FaultInternal, 1, "")
		return memory.Join(o.Name, sourcetest.Account, memory.Part{Name: memorytest.First, Feed: b.(*memorytest.Backend).Feed}, d.Feeds()[1])
	}
	rec := record(t, func(tb testing.TB) { sourcetest.RunClause(tb, h, clause("SC-02")) })
	if text := strings.Join(rec.lines, "\n"); !rec.failed || !strings.Contains(text, "declares no hook \"parts\"") {
		t.Errorf("a broken part that the harness does not know of: failed %v\n%s", rec.failed, text)
	}
}

// recorder is a testing.TB that fails by itself and not its test.
type recorder struct {
	testing.TB
	ctx             context.Context
	mu              sync.Mutex
	failed, skipped bool
	lines           []string
}

func record(t *testing.T, check func(tb testing.TB)) *recorder {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	rec := &recorder{TB: t, ctx: ctx}
	done := make(chan struct{})
	go func() {
		defer close(done)
		check(rec)
	}()
	<-done
	return rec
}

func (r *recorder) Context() context.Context { return r.ctx }
func (r *recorder) Helper()                  {}
func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *recorder) say(failed bool, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = r.failed || failed
	r.lines = append(r.lines, text)
}

func (r *recorder) Error(args ...any)                 { r.say(true, fmt.Sprintln(args...)) }
func (r *recorder) Errorf(format string, args ...any) { r.say(true, fmt.Sprintf(format, args...)) }
func (r *recorder) Log(args ...any)                   { r.say(false, fmt.Sprintln(args...)) }
func (r *recorder) Logf(format string, args ...any)   { r.say(false, fmt.Sprintf(format, args...)) }
func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Skip(...any) {
	r.skipped = true
	runtime.Goexit()
}

var (
	_ source.Source    = (*mutant)(nil)
	_ source.Lister    = (*mutant)(nil)
	_ source.Confirmer = (*mutant)(nil)
)
