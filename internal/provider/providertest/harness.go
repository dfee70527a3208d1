// Package providertest is the conformance kit of the provider contract. A
// driver's whole contract test is a Harness and one call:
//
//	func TestContract(t *testing.T) { providertest.Run(t, harness()) }
//
// The clauses (PC-01 ...) are the contract: docs/provider-contract.md is
// rendered from them. The kit runs the real driver against a backend that can
// misbehave, a simulator or the real thing, on demand.
//
// There are no flags to skip a clause. What does not apply to a driver follows
// from the profile of its type, and a profile is checked in both directions. A
// clause that applies and that the harness has no hook for is reported as
// skipped, and as failed when PROVIDERTEST_REQUIRE=all is set, as it is in CI.
package providertest

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// RequireEnv is the environment variable that turns clauses that were not run
// into failures when it is "all".
const RequireEnv = "PROVIDERTEST_REQUIRE"

// OpenOptions is what the kit wants of a provider under test.
type OpenOptions struct {
	// Name is the configured name, which errors carry.
	Name string
	// Installation goes into the marks and the selectors.
	Installation string
	// Credential is what the driver has to show to the backend. Kit and backend
	// agree on it, and it must not appear anywhere else.
	Credential provider.Sensitive
	// Logger keeps what the driver logs for the kit to read.
	Logger *slog.Logger
}

// Config renders the options as the configuration that a type's New takes.
// Every secret is the Credential. The harness fills in StateDir and Decode.
func (o OpenOptions) Config() provider.Config {
	return provider.Config{
		Name: o.Name, Installation: o.Installation, Logger: o.Logger,
		Secret: func(context.Context, string) (provider.Sensitive, error) { return o.Credential, nil },
		Decode: func(any) error { return nil },
	}
}

// Harness connects the kit with one driver.
type Harness struct {
	// Profile is that of the driver's type.
	Profile provider.Profile
	// NewBackend makes an empty backend for one clause and has tb clean it up.
	// Clauses run in parallel, each with a backend of its own.
	NewBackend func(tb testing.TB) Backend
	// Open builds a provider over b with the type's New. The kit opens several at
	// a time over one backend: of one installation after a restart, and of two.
	Open func(tb testing.TB, b Backend, o OpenOptions) provider.Provider
	// Hooks declares which hooks the backend has.
	Hooks []Hook
	// Checker, Pricer and Companions declare the driver's optional interfaces.
	Checker, Pricer, Companions bool

	// Placement is one that the backend can satisfy.
	Placement provider.Placement
	// BadPlacement is one that it never can. Zero means that the driver ignores
	// placement altogether.
	BadPlacement provider.Placement
	// Unpriced is a valid or invalid placement that has no price; zero when all
	// have.
	Unpriced provider.Placement
	// Port is the proxy's port in requests, 3128 if zero.
	Port int

	// Settle is how long listings may be behind; Profile.Settle if zero. A
	// simulator with a faster clock than the real backend sets it.
	Settle time.Duration
	// Poll is the interval of looking, 5 ms if zero.
	Poll time.Duration
	// Patience is how long the kit waits for what must happen, 30 s if zero.
	Patience time.Duration
	// Prompt is how long a call may take to return after its context has ended,
	// 2 s if zero.
	Prompt time.Duration
}

func (h Harness) withDefaults() Harness {
	h.Port = cmp.Or(h.Port, 3128)
	h.Settle = cmp.Or(h.Settle, h.Profile.Settle)
	h.Poll = cmp.Or(h.Poll, 5*time.Millisecond)
	h.Patience = cmp.Or(h.Patience, 30*time.Second)
	h.Prompt = cmp.Or(h.Prompt, 2*time.Second)
	return h
}

func (h Harness) has(hook Hook) bool { return slices.Contains(h.Hooks, hook) }

// Run checks every clause of the contract, each as a parallel subtest named
// after it.
func Run(t *testing.T, h Harness) {
	t.Helper()
	for _, c := range Clauses() {
		t.Run(c.ID+"-"+c.Slug, func(t *testing.T) {
			t.Parallel()
			RunClause(t, h, c)
		})
	}
}

// RunClause checks one clause if it applies to the harness' driver.
func RunClause(tb testing.TB, h Harness, c Clause) {
	tb.Helper()
	switch how, why := c.verdict(h); how {
	case notApplicable:
		tb.Logf("%s %s does not apply: %s", c.ID, c.Title, why)
	case notRunnable:
		msg := fmt.Sprintf("%s %s was not run: %s", c.ID, c.Title, why)
		if os.Getenv(RequireEnv) == "all" {
			tb.Error(msg)
		} else {
			tb.Skip(msg)
		}
	case runnable:
		Check(tb, h, c)
	}
}

// Runnable reports whether the clause applies to the harness' driver and the
// harness has all hooks for it.
func Runnable(h Harness, c Clause) bool {
	how, _ := c.verdict(h)
	return how == runnable
}

// Check runs one clause against a backend of its own. It reports to tb, which
// need not be a *testing.T.
func Check(tb testing.TB, h Harness, c Clause) {
	tb.Helper()
	e := newEnv(tb, h.withDefaults(), c)
	defer e.explain()
	c.check(e)
}

type verdict int

const (
	runnable verdict = iota
	notApplicable
	notRunnable
)

// verdict says whether the clause can be run with the harness, and why not.
func (c Clause) verdict(h Harness) (verdict, string) {
	if c.applies != nil {
		if ok, why := c.applies(h); !ok {
			return notApplicable, why
		}
	}
	for _, hook := range c.Needs {
		rule := hookRuleOf(hook)
		switch {
		case h.has(hook):
		case rule.optional:
			return notApplicable, fmt.Sprintf("the backend has no hook %q", hook)
		case !rule.wanted(h.Profile):
			return notApplicable, fmt.Sprintf("the hook %q is for when %s", hook, rule.when)
		default:
			return notRunnable, fmt.Sprintf("the harness declares no hook %q", hook)
		}
	}
	return runnable, ""
}
