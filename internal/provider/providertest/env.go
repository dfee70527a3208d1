package providertest

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// Installations of a run: ours and a stranger in the same account.
const (
	installation      = "kit-ours"
	otherInstallation = "kit-theirs"
	providerName      = "under-test"
	namespace         = "kit"
)

// env is one clause being checked. Its Errorf and Fatalf name the clause.
type env struct {
	testing.TB
	h Harness
	c Clause
	b Backend

	// run makes names and secrets of this run unlike those of all others.
	run     string
	logs    *logBuffer
	cred    string
	secret  string // cloud-init sentinel
	nextUID int
	placed  []string
}

func newEnv(tb testing.TB, h Harness, c Clause) *env {
	tb.Helper()
	raw := make([]byte, 8)
	for i := range raw {
		raw[i] = byte(rand.Uint32())
	}
	run := hex.EncodeToString(raw)
	e := &env{
		TB: tb, h: h, c: c, run: run, logs: &logBuffer{},
		cred: "credential-sentinel-" + run, secret: "cloud-init-sentinel-" + run,
	}
	e.b = h.NewBackend(tb)
	tb.Cleanup(e.sweep)
	return e
}

func (e *env) Errorf(format string, args ...any) {
	e.Helper()
	e.TB.Errorf("%s %s: %s", e.c.ID, e.c.Title, fmt.Sprintf(format, args...))
}

func (e *env) Fatalf(format string, args ...any) {
	e.Helper()
	e.TB.Fatalf("%s %s: %s", e.c.ID, e.c.Title, fmt.Sprintf(format, args...))
}

// explain prints the rule behind a failure.
func (e *env) explain() {
	if e.Failed() {
		e.Logf("%s: %s\nWhy: %s", e.c.ID, e.c.Rule, e.c.Why)
	}
}

// sweep removes what the clause made, so that a backend that outlives it (a
// process table, a cloud) stays clean. What a driver fails to remove is the
// affair of the clause about that, not of all the others.
func (e *env) sweep() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.Context()), e.h.Patience)
	defer cancel()
	for _, name := range e.placed {
		e.b.(Placer).Vanish(e, name)
	}
	for _, inst := range []string{installation, otherInstallation} {
		p := e.open(inst)
		all, err := p.List(ctx, provider.Selector{Installation: inst})
		if err != nil {
			e.Logf("sweep: %v", err)
		}
		for _, in := range all {
			if err := p.Delete(ctx, in.ID); err != nil {
				e.Logf("sweep: %v", err)
			}
		}
		if comp, ok := provider.As[provider.Companions](p); ok {
			left, err := comp.ListCompanions(ctx, provider.Selector{Installation: inst})
			if err != nil {
				e.Logf("sweep: %v", err)
			}
			for _, c := range left {
				if err := comp.DeleteCompanion(ctx, c); err != nil {
					e.Logf("sweep: %v", err)
				}
			}
		}
	}
}

// undo makes sure that a hook is let go before the backend is swept. The func
// it returns lets go earlier.
func (e *env) undo(release func()) func() {
	once := sync.OnceFunc(release)
	e.Cleanup(once)
	return once
}

// open builds a provider of the installation.
func (e *env) open(inst string) provider.Provider {
	e.Helper()
	p := e.h.Open(e, e.b, OpenOptions{
		Name: providerName, Installation: inst,
		Credential: provider.NewSensitive([]byte(e.cred)),
		Logger:     slog.New(slog.NewJSONHandler(e.logs, &slog.HandlerOptions{Level: slog.Level(-100)})),
	})
	if p == nil {
		e.Fatalf("Open gave no provider")
	}
	return p
}

// provider builds one of our installation.
func (e *env) provider() provider.Provider { e.Helper(); return e.open(installation) }

// ctx is a context for one step of the clause.
func (e *env) ctx() context.Context {
	ctx, cancel := context.WithTimeout(e.Context(), e.h.Patience)
	e.Cleanup(cancel)
	return ctx
}

// request is a valid request of a new owner.
func (e *env) request() provider.CreateRequest {
	e.nextUID++
	uid := fmt.Sprintf("%s-%d", e.run, e.nextUID)
	return provider.CreateRequest{
		Name: provider.InstanceName(uid, 0),
		Marks: provider.Marks{
			UID: uid, Installation: installation, Namespace: namespace,
			Proxy: fmt.Sprintf("p%d", e.nextUID), SpecHash: "spec-a",
		},
		Placement: e.h.Placement,
		CloudInit: provider.NewSensitive([]byte("#cloud-config\n# " + e.secret + "\n")),
		Port:      e.h.Port,
	}
}

// create makes an instance that the clause takes for granted.
func (e *env) create(p provider.Provider, req provider.CreateRequest) provider.InstanceID {
	e.Helper()
	id, err := p.Create(e.ctx(), req)
	if err != nil {
		e.Fatalf("create %s: %v", req.Name, err)
	}
	if id == "" {
		e.Fatalf("create %s: an empty id and no error", req.Name)
	}
	return id
}

// get reads an instance that has to exist.
func (e *env) get(p provider.Provider, id provider.InstanceID) provider.Instance {
	e.Helper()
	in, err := p.Get(e.ctx(), id)
	if err != nil {
		e.Fatalf("get %s: %v", id, err)
	}
	return in
}

// remove deletes an instance and waits until it is gone.
func (e *env) remove(p provider.Provider, id provider.InstanceID) {
	e.Helper()
	if err := p.Delete(e.ctx(), id); err != nil {
		e.Fatalf("delete %s: %v", id, err)
	}
	e.waitGone(p, id)
}

func (e *env) waitGone(p provider.Provider, id provider.InstanceID) {
	e.Helper()
	e.eventually("the instance "+string(id)+" is gone", func() (bool, string) {
		_, err := p.Get(e.ctx(), id)
		return provider.ClassOf(err) == provider.NotFound, fmt.Sprintf("get: %v", err)
	})
}

// waitState waits for a state and fails on the way at a state it must not see.
func (e *env) waitState(p provider.Provider, id provider.InstanceID, want provider.State, never ...provider.State) provider.Instance {
	e.Helper()
	var last provider.Instance
	e.eventually(fmt.Sprintf("the instance %s is %s", id, want), func() (bool, string) {
		last = e.get(p, id)
		if slices.Contains(never, last.State) {
			e.Fatalf("get %s: state %s (%q) on the way to %s", id, last.State, last.RawState, want)
		}
		return last.State == want, fmt.Sprintf("state %s (%q), address %v", last.State, last.RawState, last.IP)
	})
	return last
}

// eventually polls until ok or out of patience.
func (e *env) eventually(what string, ok func() (bool, string)) {
	e.Helper()
	deadline := time.Now().Add(e.h.Patience)
	for {
		done, state := ok()
		if done {
			return
		}
		if time.Now().After(deadline) {
			e.Fatalf("waited %v until %s: %s", e.h.Patience, what, state)
		}
		e.pause(e.h.Poll)
	}
}

// pause waits between two looks.
func (e *env) pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-e.Context().Done():
	}
}

// place puts an instance there that is not the driver's work.
func (e *env) place(name string, marks provider.Marks, managed bool) {
	e.Helper()
	e.placed = append(e.placed, name)
	e.b.(Placer).Place(e, name, marks, managed)
}

// instances are the instances of that name at the backend, past the driver.
func (e *env) instances(name string) []Thing {
	e.Helper()
	return slices.DeleteFunc(slices.Clone(e.b.Things(e)), func(t Thing) bool { return t.Kind != KindInstance || t.Name != name })
}

// wantInstances checks how many instances of that name exist.
func (e *env) wantInstances(name string, n int) {
	e.Helper()
	if got := e.instances(name); len(got) != n {
		e.Errorf("the backend has %d instances named %s, want %d: %v", len(got), name, n, got)
	}
}

// wantUnchanged checks that the backend is as it was.
func (e *env) wantUnchanged(before []Thing, after string) {
	e.Helper()
	if now := e.b.Things(e); !slices.Equal(before, now) {
		e.Errorf("after %s the backend has\n\t%v\nand had before\n\t%v", after, now, before)
	}
}

// wantClass checks an error's class.
func (e *env) wantClass(what string, err error, want ...provider.Class) {
	e.Helper()
	if err == nil {
		e.Errorf("%s succeeded, want an error of class %v", what, want)
		return
	}
	if got := provider.ClassOf(err); !slices.Contains(want, got) {
		e.Errorf("%s: class %s, want %v: %v", what, got, want, err)
	}
}

// op is one method of the contract called on an existing instance or, for
// create, for a new name.
type op struct {
	name provider.Op
	call func(ctx context.Context) error
}

// ops calls each method once. in exists; Create asks for fresh.
func (e *env) ops(p provider.Provider, in provider.Instance, fresh provider.CreateRequest) []op {
	return []op{
		{provider.OpCreate, func(ctx context.Context) error { _, err := p.Create(ctx, fresh); return err }},
		{provider.OpGet, func(ctx context.Context) error { _, err := p.Get(ctx, in.ID); return err }},
		{provider.OpFind, func(ctx context.Context) error { _, err := p.Find(ctx, in.Name, in.Marks); return err }},
		{provider.OpList, func(ctx context.Context) error {
			_, err := p.List(ctx, provider.Selector{Installation: installation})
			return err
		}},
		{provider.OpDelete, func(ctx context.Context) error { return p.Delete(ctx, in.ID) }},
	}
}

// prompt runs call and fails when it has not returned Prompt after its context
// ended. A call that never returns is left behind.
func (e *env) prompt(ctx context.Context, what string, call func(ctx context.Context) error) error {
	e.Helper()
	done := make(chan error, 1)
	go func() { done <- call(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	t := time.NewTimer(e.h.Prompt)
	defer t.Stop()
	select {
	case err := <-done:
		return err
	case <-t.C:
		e.Errorf("%s had not returned %v after its context ended", what, e.h.Prompt)
		return errors.New("did not return")
	}
}

// logBuffer keeps what a driver logs.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// lines are the log records so far.
func (l *logBuffer) lines() []map[string]any {
	var out []map[string]any
	for line := range strings.Lines(l.String()) {
		var rec map[string]any
		if json.Unmarshal([]byte(line), &rec) == nil {
			out = append(out, rec)
		}
	}
	return out
}

// lineHolds reports whether a value of the record, its groups included, is text.
func lineHolds(line map[string]any, text string) bool {
	for _, v := range line {
		switch v := v.(type) {
		case string:
			if v == text {
				return true
			}
		case map[string]any:
			if lineHolds(v, text) {
				return true
			}
		}
	}
	return false
}

// containsText reports whether the error's text holds s.
func containsText(err error, s string) bool { return strings.Contains(err.Error(), s) }

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
