package providertest_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/memory"
	"github.com/tollgate-dev/tollgate/internal/provider/memory/memorytest"
	"github.com/tollgate-dev/tollgate/internal/provider/providertest"
)

// mutant is the in-memory driver with something broken. A nil field leaves the
// method as it is. It shares with its siblings over one backend the world that
// a driver with a bad memory would share with itself.
type mutant struct {
	*memory.Provider
	b *memory.Backend
	w *world
	o providertest.OpenOptions

	create      func(ctx context.Context, req provider.CreateRequest) (provider.InstanceID, error)
	get         func(ctx context.Context, id provider.InstanceID) (provider.Instance, error)
	find        func(ctx context.Context, name string, owner provider.Marks) (provider.Instance, error)
	remove      func(ctx context.Context, id provider.InstanceID) error
	list        func(ctx context.Context, sel provider.Selector) ([]provider.Instance, error)
	check       func(ctx context.Context) []provider.TargetStatus
	price       func(ctx context.Context, p provider.Placement) (provider.MicroEUR, bool, error)
	listBeside  func(ctx context.Context, sel provider.Selector) ([]provider.Companion, error)
	dropBeside  func(ctx context.Context, c provider.Companion) error
	beforeOpen  func() // when New is called
	changeError func(op provider.Op, err error) error
}

// world is what all mutants over one backend remember together.
type world struct {
	turn chan struct{} // holds one token, for mutants whose defect is no race

	mu   sync.Mutex
	seen map[string]bool
	note string
}

func newWorld() *world { return &world{turn: make(chan struct{}, 1), seen: map[string]bool{}} }

// alone makes mutants over one backend take turns.
func (w *world) alone() (done func()) {
	w.turn <- struct{}{}
	return func() { <-w.turn }
}

// once reports whether key is new.
func (w *world) once(key string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen[key] {
		return false
	}
	w.seen[key] = true
	return true
}

func (w *world) has(key string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen[key]
}

func (m *mutant) blame(op provider.Op, err error) error {
	if err != nil && m.changeError != nil {
		return m.changeError(op, err)
	}
	return err
}

func (m *mutant) Create(ctx context.Context, req provider.CreateRequest) (provider.InstanceID, error) {
	do := m.Provider.Create
	if m.create != nil {
		do = m.create
	}
	id, err := do(ctx, req)
	return id, m.blame(provider.OpCreate, err)
}

func (m *mutant) Get(ctx context.Context, id provider.InstanceID) (provider.Instance, error) {
	do := m.Provider.Get
	if m.get != nil {
		do = m.get
	}
	in, err := do(ctx, id)
	return in, m.blame(provider.OpGet, err)
}

func (m *mutant) Find(ctx context.Context, name string, owner provider.Marks) (provider.Instance, error) {
	do := m.Provider.Find
	if m.find != nil {
		do = m.find
	}
	in, err := do(ctx, name, owner)
	return in, m.blame(provider.OpFind, err)
}

func (m *mutant) Delete(ctx context.Context, id provider.InstanceID) error {
	do := m.Provider.Delete
	if m.remove != nil {
		do = m.remove
	}
	return m.blame(provider.OpDelete, do(ctx, id))
}

func (m *mutant) List(ctx context.Context, sel provider.Selector) ([]provider.Instance, error) {
	do := m.Provider.List
	if m.list != nil {
		do = m.list
	}
	all, err := do(ctx, sel)
	return all, m.blame(provider.OpList, err)
}

func (m *mutant) Check(ctx context.Context) []provider.TargetStatus {
	if m.check != nil {
		return m.check(ctx)
	}
	return m.Provider.Check(ctx)
}

func (m *mutant) PriceEURPerHour(ctx context.Context, p provider.Placement) (provider.MicroEUR, bool, error) {
	if m.price != nil {
		return m.price(ctx, p)
	}
	return m.Provider.PriceEURPerHour(ctx, p)
}

func (m *mutant) ListCompanions(ctx context.Context, sel provider.Selector) ([]provider.Companion, error) {
	if m.listBeside != nil {
		return m.listBeside(ctx, sel)
	}
	return m.Provider.ListCompanions(ctx, sel)
}

func (m *mutant) DeleteCompanion(ctx context.Context, c provider.Companion) error {
	if m.dropBeside != nil {
		return m.dropBeside(ctx, c)
	}
	return m.Provider.DeleteCompanion(ctx, c)
}

// defect is one way to break the driver, and what has to catch it.
type defect struct {
	what string
	// trips are the clauses that fail: the defect's own first, and after it only
	// such as cannot be kept without it.
	trips []string
	// brk breaks a new mutant.
	brk func(m *mutant)
	// harness changes the harness; nil leaves it.
	harness func(h *providertest.Harness)
	// backend changes the backend's constants.
	backend func(o *memory.Options)
}

func (d defect) build() providertest.Harness {
	h := memorytest.Harness()
	worlds := sync.Map{}
	if d.backend != nil {
		h.NewBackend = func(testing.TB) providertest.Backend {
			o := memorytest.Options()
			d.backend(&o)
			return memorytest.NewBackend(o)
		}
	}
	if d.brk != nil {
		open := h.Open
		h.Open = func(tb testing.TB, b providertest.Backend, o providertest.OpenOptions) provider.Provider {
			w, _ := worlds.LoadOrStore(b, newWorld())
			m := &mutant{b: b.(*memorytest.Backend).Backend, w: w.(*world), o: o}
			m.Provider = open(tb, b, o).(*memory.Provider)
			d.brk(m)
			if m.beforeOpen != nil {
				m.beforeOpen()
			}
			return m
		}
	}
	if d.harness != nil {
		d.harness(&h)
	}
	return h
}

// Every broken driver is caught by its own clause, and by no other one: a kit
// that cannot fail proves nothing, and one that fails everywhere explains
// nothing.
func TestMutants(t *testing.T) {
	t.Parallel()
	for _, d := range defects() {
		t.Run(strings.ReplaceAll(d.what, " ", "-"), func(t *testing.T) {
			t.Parallel()
			got, logs := evaluate(t, d.build())
			want := slices.Sorted(slices.Values(d.trips))
			if diff := cmp.Diff(got, want); diff != "" {
				t.Errorf("clauses that failed (-got +want):\n%s\n%s", diff, logs)
			}
		})
	}
}

// Every clause has a driver that breaks it and nothing else.
func TestEveryClauseHasAMutant(t *testing.T) {
	t.Parallel()
	caught := map[string]bool{}
	for _, d := range defects() {
		if len(d.trips) == 0 {
			t.Errorf("defect %q trips nothing", d.what)
			continue
		}
		caught[d.trips[0]] = true
	}
	for _, c := range providertest.Clauses() {
		if !caught[c.ID] {
			t.Errorf("%s %s: no mutant proves that it can fail", c.ID, c.Title)
		}
	}
}

// The healthy driver passes under the same recording, so that what fails there
// fails because of the defect.
func TestEvaluateHealthy(t *testing.T) {
	t.Parallel()
	if got, logs := evaluate(t, memorytest.Harness()); len(got) > 0 {
		t.Errorf("clauses that failed: %v\n%s", got, logs)
	}
	waits := defect{harness: waitingHarness, brk: waitForDeletes}
	if got, logs := evaluate(t, waits.build()); len(got) > 0 {
		t.Errorf("clauses that failed with a driver whose Delete waits: %v\n%s", got, logs)
	}
}

// evaluate runs every clause that applies and returns the ids of those that
// failed, sorted, with what they said. Time is not real, so that nothing depends
// on how busy the machine is.
func evaluate(t *testing.T, h providertest.Harness) (failed []string, logs string) {
	t.Helper()
	var said strings.Builder
	for _, c := range providertest.Clauses() {
		if !providertest.Runnable(h, c) {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			rec := record(t, func(tb testing.TB) { providertest.Check(tb, h, c) })
			if rec.Failed() {
				failed = append(failed, c.ID)
				said.WriteString(rec.text())
			}
		})
	}
	slices.Sort(failed)
	return failed, said.String()
}

// recorder is a testing.TB that fails by itself and not its test.
type recorder struct {
	testing.TB
	ctx context.Context

	mu       sync.Mutex
	failed   bool
	lines    []string
	cleanups []func()
}

// record runs check as a test of its own.
func record(t *testing.T, check func(tb testing.TB)) *recorder {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	rec := &recorder{TB: t, ctx: ctx}
	goexit := func(do func()) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			do()
		}()
		<-done
	}
	goexit(func() { check(rec) })
	cancel()
	for {
		rec.mu.Lock()
		n := len(rec.cleanups)
		if n == 0 {
			rec.mu.Unlock()
			return rec
		}
		last := rec.cleanups[n-1]
		rec.cleanups = rec.cleanups[:n-1]
		rec.mu.Unlock()
		goexit(last)
	}
}

func (r *recorder) Context() context.Context { return r.ctx }
func (r *recorder) Helper()                  {}

func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *recorder) say(fail bool, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = r.failed || fail
	r.lines = append(r.lines, text)
}

func (r *recorder) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.lines, "\n") + "\n"
}

func (r *recorder) Log(args ...any)                   { r.say(false, fmt.Sprintln(args...)) }
func (r *recorder) Logf(format string, args ...any)   { r.say(false, fmt.Sprintf(format, args...)) }
func (r *recorder) Error(args ...any)                 { r.say(true, fmt.Sprintln(args...)) }
func (r *recorder) Errorf(format string, args ...any) { r.say(true, fmt.Sprintf(format, args...)) }
func (r *recorder) Fail()                             { r.say(true, "") }
func (r *recorder) FailNow()                          { r.say(true, ""); runtime.Goexit() }
func (r *recorder) Fatal(args ...any)                 { r.Error(args...); runtime.Goexit() }
func (r *recorder) Fatalf(format string, args ...any) { r.Errorf(format, args...); runtime.Goexit() }

// A clause that applies and cannot be run fails where everything has to be run,
// and is a skip elsewhere.
func TestRequireAll(t *testing.T) {
	for what, tt := range map[string]struct {
		env  string
		fail bool
	}{"required": {"all", true}, "not required": {"", false}} {
		t.Run(what, func(t *testing.T) {
			t.Setenv(providertest.RequireEnv, tt.env)
			h := memorytest.Harness()
			h.Hooks = slices.DeleteFunc(h.Hooks, func(k providertest.Hook) bool { return k == providertest.HookStop })
			var stopped providertest.Clause
			for _, c := range providertest.Clauses() {
				if slices.Contains(c.Needs, providertest.HookStop) {
					stopped = c
				}
			}
			if providertest.Runnable(h, stopped) {
				t.Fatalf("%s is runnable without its hook", stopped.ID)
			}
			rec := record(t, func(tb testing.TB) { providertest.RunClause(skipper{tb}, h, stopped) })
			if rec.Failed() != tt.fail {
				t.Errorf("%s=%s: failed %v, want %v: %s", providertest.RequireEnv, os.Getenv(providertest.RequireEnv), rec.Failed(), tt.fail, rec.text())
			}
			if !strings.Contains(rec.text(), stopped.ID) || !strings.Contains(rec.text(), string(providertest.HookStop)) {
				t.Errorf("the report names neither the clause nor the hook: %s", rec.text())
			}
		})
	}
}

// skipper records a skip as a line.
type skipper struct{ testing.TB }

func (s skipper) Skip(args ...any) { s.Log(args...); runtime.Goexit() }
