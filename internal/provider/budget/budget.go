// Package budget keeps the HTTP requests of an account within what its backend
// allows per hour. It counts requests, not operations, at the one place that all
// of them pass: an http.RoundTripper that drivers put around their transport
// (provider.Config.WithBudget).
//
// What it knows, it knows from the answers: the headers RateLimit-Limit and
// RateLimit-Remaining tell each worker what the account really has left, whoever
// spent the rest, other workers and foreign tools included. Between two answers a
// worker counts what it sends itself. So workers need no common counter; what
// one does not know is what the others have sent since its latest answer, at
// most 16 requests each, and one each after a quiet time, in which a worker sends
// one request and waits for its answer. The reserve absorbs that.
//
// A reserve (a tenth of the limit unless configured) is left to others. Above it
// each priority leaves 2 % of the limit to those above it: deletes go before
// creates, those before reads of single instances, and those before listings,
// checks and collectors, between the workers too. The requests of an operation
// that has begun are not held back for the more important ones. Below the
// reserve a worker takes a quarter of what comes back, the most important first,
// so that others who take everything cannot stop it for good.
//
// A request that would have to wait longer than 15 seconds, or than its context,
// is refused at once with the class RateLimited and the reason Throttled; each
// refused one gets another time to come back. After an answer 429 nothing is sent
// until the time that the backend names (Retry-After, or RateLimit-Reset), or
// until the reserve and 5 % of the limit are back if that comes first, since the
// vendor's reset is when everything is. Then requests go one at a time, two, four
// and so on with each good answer. Other accounts go on.
package budget

import (
	"crypto/sha256"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// Limits are what the configuration says of a provider's account. Of several
// providers with one account, the strictest limits count.
type Limits struct {
	// PerHour bounds the requests that each worker makes per hour, the reserve
	// taken off, whatever the backend allows; 0 means no bound of our own.
	PerHour int
	// Reserve is how many requests of the backend's limit are left to others; nil
	// means a tenth.
	Reserve *int
	// Account, when set, is the account's name: providers with equal names share a
	// budget although their credentials differ, as two tokens of one project do.
	Account string
}

// Accounts are the budgets of a process. It is safe for concurrent use.
type Accounts struct {
	metrics *Metrics

	mu        sync.Mutex
	accounts  map[string]*account
	providers map[string]*user
}

// user is a provider that makes requests.
type user struct {
	limits Limits
	keys   []string // of the accounts it has used, the latest first
}

// maxKeys is how many accounts of a provider are remembered: more than one
// appear when its credentials change.
const maxKeys = 3

// New returns an empty set. metrics may be nil.
func New(metrics *Metrics) *Accounts {
	a := &Accounts{metrics: metrics, accounts: map[string]*account{}, providers: map[string]*user{}}
	if metrics != nil {
		metrics.show(a)
	}
	return a
}

// Set gives the limits of a provider, before its first request and after each
// change of the configuration.
func (a *Accounts) Set(providerName string, l Limits) {
	a.mu.Lock()
	defer a.mu.Unlock()
	u := a.user(providerName)
	u.limits = l
	for _, k := range u.keys {
		a.accounts[k].setLimits(providerName, l)
	}
}

// Forget drops a provider that is no longer configured, and the accounts that
// nobody else uses.
func (a *Accounts) Forget(providerName string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if u := a.providers[providerName]; u != nil {
		for _, k := range u.keys {
			a.drop(providerName, k)
		}
	}
	delete(a.providers, providerName)
	a.metrics.forget(providerName)
}

func (a *Accounts) drop(providerName, key string) {
	if a.accounts[key].forget(providerName) {
		delete(a.accounts, key)
	}
}

func (a *Accounts) user(name string) *user {
	u := a.providers[name]
	if u == nil {
		u = &user{}
		a.providers[name] = u
	}
	return u
}

// account finds the account that a request of a provider counts against.
func (a *Accounts) account(providerName, key string) *account {
	a.mu.Lock()
	defer a.mu.Unlock()
	u := a.user(providerName)
	if name := u.limits.Account; name != "" {
		key = "configured " + name
	}
	acc := a.accounts[key]
	if acc == nil {
		acc = newAccount()
		a.accounts[key] = acc
	}
	if len(u.keys) > 0 && u.keys[0] == key {
		return acc
	}
	acc.setLimits(providerName, u.limits)
	u.keys = slices.DeleteFunc(u.keys, func(k string) bool { return k == key })
	u.keys = slices.Insert(u.keys, 0, key)
	for len(u.keys) > maxKeys {
		a.drop(providerName, u.keys[maxKeys])
		u.keys = u.keys[:maxKeys]
	}
	return acc
}

// Transport is the Transport of a provider's provider.Config.
func (a *Accounts) Transport(providerName string) provider.Transport {
	return func(base http.RoundTripper, account string) http.RoundTripper {
		if base == nil {
			base = http.DefaultTransport
		}
		return &transport{accounts: a, provider: providerName, account: account, base: base}
	}
}

// Throttler says how the budget of a provider's account stands.
func (a *Accounts) Throttler(providerName string) provider.Throttler {
	return throttler{a, providerName}
}

type throttler struct {
	accounts *Accounts
	name     string
}

// Throttle implements provider.Throttler. Before the first request nothing is
// throttled.
func (t throttler) Throttle() provider.ThrottleState {
	if acc := t.accounts.current(t.name); acc != nil {
		return acc.throttle(time.Now())
	}
	return provider.ThrottleState{}
}

// current is the account that a provider used last, nil before its first
// request.
func (a *Accounts) current(providerName string) *account {
	a.mu.Lock()
	defer a.mu.Unlock()
	if u := a.providers[providerName]; u != nil && len(u.keys) > 0 {
		return a.accounts[u.keys[0]]
	}
	return nil
}

func (a *Accounts) names() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make([]string, 0, len(a.providers))
	for name := range a.providers {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// transport counts the requests of one provider.
type transport struct {
	accounts          *Accounts
	provider, account string
	base              http.RoundTripper
}

// credentials are the headers that tell accounts of one host apart.
var credentials = []string{"Authorization", "X-Auth-Token"}

// key identifies the account of a request. The credentials stay in memory, and
// only as a hash.
func (t *transport) key(r *http.Request) string {
	if t.account != "" {
		return "named " + r.URL.Host + " " + t.account
	}
	text := []string{r.URL.Host}
	for _, h := range credentials {
		text = append(text, r.Header.Get(h))
	}
	sum := sha256.Sum256([]byte(strings.Join(text, "\n")))
	return string(sum[:])
}

// RoundTrip implements http.RoundTripper. A request that is refused is not sent.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	acc := t.accounts.account(t.provider, t.key(r))
	op, _ := provider.OpOf(r.Context())
	start := time.Now()
	if err := acc.wait(r.Context()); err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, t.refused(op, err)
	}
	t.accounts.metrics.waited(t.provider, op, time.Since(start))
	resp, err := t.base.RoundTrip(r)
	acc.done(resp, err)
	t.accounts.metrics.made(t.provider, op, resp, err)
	return resp, err
}

func (t *transport) refused(op provider.Op, err error) error {
	no, ok := err.(*errNoRoom)
	if !ok {
		return err // the context has ended
	}
	t.accounts.metrics.refused(t.provider, op)
	if op == "" {
		op = "request"
	}
	return provider.WithReason(provider.WithRetryAfter(
		provider.Wrap(provider.RateLimited, op, t.provider, "", err), no.wait), provider.ReasonThrottled)
}
