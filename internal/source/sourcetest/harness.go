// Package sourcetest is the conformance kit of the source contract. The whole
// contract test of a source is a Harness and one call:
//
//	func TestContract(t *testing.T) { sourcetest.Run(t, harness()) }
//
// The clauses (SC-01 ...) are the contract. They run against the real source over
// a platform that can misbehave on demand. A clause whose hook the platform lacks
// is reported as skipped, and as failed when SOURCETEST_REQUIRE=all is set, as it
// is in CI; only what a platform cannot do by its nature is left out (Hook).
package sourcetest

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/source"
)

// RequireEnv is the environment variable that turns clauses that were not run
// into failures when it is "all".
const RequireEnv = "SOURCETEST_REQUIRE"

// Account is the account that the kit's events are of.
const Account = "kit"

// OpenOptions is what the kit wants of a source under test.
type OpenOptions struct {
	// Name is the configured name, which errors carry.
	Name string
	// Credential is what the source has to show to the platform.
	Credential provider.Sensitive
	Logger     *slog.Logger
}

// Harness connects the kit with one stream of one type of source.
type Harness struct {
	Type source.Type
	// NewBackend makes an empty platform for one clause and has tb clean it up.
	NewBackend func(tb testing.TB) Backend
	// Open builds the source over b anew, as after a restart.
	Open func(tb testing.TB, b Backend, o OpenOptions) source.Source
	// Hooks declares which hooks the platform has.
	Hooks []Hook
	// Patience is how long the kit waits for what must become visible, 10 s if
	// zero; Poll is the interval of looking, 2 ms if zero.
	Patience, Poll time.Duration
	// Prompt is how long a call may take to return after its context has ended,
	// 2 s if zero.
	Prompt time.Duration
}

func (h Harness) withDefaults() Harness {
	h.Patience = cmp.Or(h.Patience, 10*time.Second)
	h.Poll = cmp.Or(h.Poll, 2*time.Millisecond)
	h.Prompt = cmp.Or(h.Prompt, 2*time.Second)
	return h
}

// Backend is the platform.
type Backend interface {
	// Change makes one change, which is finished when it returns, and returns the
	// ids that its events must have.
	Change(tb testing.TB) []string
	// PageSize is the number of entries on a page of the feed; keep it small.
	PageSize(tb testing.TB) int
}

// Bulk is a Backend that makes many changes quicker at once than one by one. The kit
// uses it where there is one.
type Bulk interface {
	// Changes makes n changes, which are finished when it returns, and returns the
	// ids that their events must have.
	Changes(tb testing.TB, n int) []string
}

// Starter makes changes that take their time.
type Starter interface {
	// Begin begins a change; finish ends it well and returns the ids of its events.
	Begin(tb testing.TB) (finish func() []string)
}

// Loser forgets what is under way.
type Loser interface {
	// Lose makes the platform forget the unfinished changes, as if they had never
	// been.
	Lose(tb testing.TB)
}

// Interposer acts in the middle of a read.
type Interposer interface {
	// During has f run once, during the next read, after the platform's first
	// answer to it was made.
	During(tb testing.TB, f func())
}

// Forgetter forgets old entries.
type Forgetter interface {
	// Forget removes every entry that there is, and lets enough time pass for
	// something to have been missed.
	Forget(tb testing.TB)
}

// Repeater shows entries more than once.
type Repeater interface {
	// Repeat shows every entry twice from now on.
	Repeat(tb testing.TB)
}

// Poisoner has entries that nobody understands.
type Poisoner interface {
	// Poison adds an entry of which no event can be made although one should be.
	Poison(tb testing.TB)
}

// Skewer has a clock of its own.
type Skewer interface {
	// Skew sets the platform's clock off from ours by d.
	Skew(tb testing.TB, d time.Duration)
}

// FaultKind is a way in which a read fails.
type FaultKind string

// The faults: an HTTP status with the platform's own most general code, or a
// body that ends in the middle.
const (
	FaultUnauthorized FaultKind = "401"
	FaultThrottled    FaultKind = "429"
	FaultInternal     FaultKind = "500"
	FaultTruncated    FaultKind = "truncated"
	// The following only a Hider is asked for: a 404 that is no word of the platform's,
	// as of a gateway in front of it, and an answer that says nothing of what was asked.
	FaultGateway FaultKind = "gateway"
	FaultBlank   FaultKind = "blank"
)

// Faulter fails reads.
type Faulter interface {
	// Fail makes the read with this number, counted from 1, and all later ones
	// fail until heal is called. Echo is a text that the platform repeats in its
	// message.
	Fail(tb testing.TB, kind FaultKind, read int, echo string) (heal func())
}

// Hanger stops answering.
type Hanger interface {
	// Hang makes reads wait until release is called or the source gives up.
	Hang(tb testing.TB) (release func())
}

// Hook names an ability of a Backend.
type Hook string

// The hooks, one for each interface above.
const (
	HookBegin  Hook = "begin"
	HookLose   Hook = "lose"
	HookDuring Hook = "during"
	HookForget Hook = "forget"
	HookFail   Hook = "fail"
	HookHang   Hook = "hang"
	HookSkew   Hook = "skew"
	// The following are for platforms that do such things at all.
	HookRepeat Hook = "repeat"
	HookPoison Hook = "poison"
	// HookList and HookSpoil are for streams that can list.
	HookList  Hook = "list"
	HookSpoil Hook = "spoil"
	// HookHide is for streams that can be asked about one resource, HookParts for feeds
	// that have parts.
	HookHide  Hook = "hide"
	HookParts Hook = "parts"
)

func implements[T any](b Backend) bool { _, ok := b.(T); return ok }

type hookRule struct {
	has      func(Backend) bool
	optional bool
}

func hookRules() map[Hook]hookRule {
	return map[Hook]hookRule{
		HookBegin: {implements[Starter], false}, HookLose: {implements[Loser], false}, HookDuring: {implements[Interposer], false},
		HookForget: {implements[Forgetter], false}, HookFail: {implements[Faulter], false}, HookHang: {implements[Hanger], false},
		HookSkew: {implements[Skewer], false}, HookRepeat: {implements[Repeater], true}, HookPoison: {implements[Poisoner], true},
		HookList: {implements[Keeper], true}, HookSpoil: {implements[Spoiler], true},
		HookHide: {implements[Hider], true}, HookParts: {implements[Divided], true},
	}
}

// Clause is one rule of the contract with the check that proves it.
type Clause struct {
	// ID is SC- and two digits. Clauses are only ever added.
	ID string
	// Slug is the name of the subtest.
	Slug string
	// Title is the rule in a few words, Rule in full, Why what breaks otherwise.
	Title, Rule, Why string
	// Needs are the hooks without which the rule cannot be checked.
	Needs []Hook

	check func(e *env)
}

// Run checks every clause, each as a parallel subtest named after it.
func Run(t *testing.T, h Harness) {
	t.Helper()
	for _, c := range Clauses() {
		t.Run(c.ID+"-"+c.Slug, func(t *testing.T) {
			t.Parallel()
			RunClause(t, h, c)
		})
	}
}

// RunClause checks one clause if the harness has the hooks for it.
func RunClause(tb testing.TB, h Harness, c Clause) {
	tb.Helper()
	for _, hook := range c.Needs {
		if slices.Contains(h.Hooks, hook) {
			continue
		}
		msg := fmt.Sprintf("%s %s was not run: the harness declares no hook %q", c.ID, c.Title, hook)
		switch {
		case hook == HookList && os.Getenv(RequireEnv) == "all" && is[source.Lister](tb, h):
			tb.Error(msg + ", although the source can list")
		case hook == HookHide && os.Getenv(RequireEnv) == "all" && is[source.Confirmer](tb, h):
			tb.Error(msg + ", although the source can be asked about one resource")
		case hookRules()[hook].optional:
			tb.Log(msg)
		case os.Getenv(RequireEnv) == "all":
			tb.Error(msg)
		default:
			tb.Skip(msg)
		}
		return
	}
	Check(tb, h, c)
}

// is reports whether the source can do what T says.
func is[T any](tb testing.TB, h Harness) bool {
	e := newEnv(tb, h.withDefaults(), Clause{})
	_, ok := e.open().(T)
	return ok
}

// Runnable reports whether the harness has all hooks for the clause.
func Runnable(h Harness, c Clause) bool {
	return !slices.ContainsFunc(c.Needs, func(k Hook) bool { return !slices.Contains(h.Hooks, k) })
}

// Check runs one clause against a platform of its own. It reports to tb, which
// need not be a *testing.T.
func Check(tb testing.TB, h Harness, c Clause) {
	tb.Helper()
	e := newEnv(tb, h.withDefaults(), c)
	defer e.explain()
	for hook, rule := range hookRules() {
		if declared := slices.Contains(h.Hooks, hook); declared != rule.has(e.b) {
			e.Errorf("hook %q: declared %v, implemented %v", hook, declared, !declared)
		}
	}
	c.check(e)
}
