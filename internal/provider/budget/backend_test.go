package budget_test

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/budget"
)

// backend is a vendor whose projects have a bucket of requests each, told apart
// by the token. It answers in fake time.
type backend struct {
	mu      sync.Mutex
	limit   float64
	buckets map[string]*bucket
	calls   []made
	latency time.Duration
	silent  bool // without headers
	flying  int
	most    int
	refuse  atomic.Int64 // answer 429 with a reset so far away
}

type bucket struct {
	left float64
	at   time.Time
}

type made struct {
	at     time.Time
	op     provider.Op
	token  string
	status int
}

func newBackend(limit float64) *backend {
	return &backend{limit: limit, buckets: map[string]*bucket{}, latency: 50 * time.Millisecond}
}

func (b *backend) bucket(token string) *bucket {
	v := b.buckets[token]
	if v == nil {
		v = &bucket{left: b.limit, at: time.Now()}
		b.buckets[token] = v
	}
	now := time.Now()
	v.left = min(b.limit, v.left+now.Sub(v.at).Hours()*b.limit)
	v.at = now
	return v
}

// spend takes n requests as somebody else would.
func (b *backend) spend(token string, n float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	v := b.bucket(token)
	v.left = max(0, v.left-n)
}

func (b *backend) left(token string) float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bucket(token).left
}

func (b *backend) RoundTrip(r *http.Request) (*http.Response, error) {
	b.mu.Lock()
	b.flying++
	b.most = max(b.most, b.flying)
	b.mu.Unlock()
	time.Sleep(b.latency)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.flying--
	token := r.Header.Get("Authorization")
	v := b.bucket(token)
	h, status := http.Header{}, http.StatusOK
	reset := time.Duration((b.limit - v.left) / b.limit * float64(time.Hour))
	switch {
	case b.refuse.Load() > 0:
		status, reset = http.StatusTooManyRequests, time.Duration(b.refuse.Load())
	case v.left < 1:
		status = http.StatusTooManyRequests
	default:
		v.left--
	}
	if !b.silent {
		h.Set("RateLimit-Limit", strconv.Itoa(int(b.limit)))
		h.Set("RateLimit-Remaining", strconv.Itoa(int(v.left)))
		h.Set("RateLimit-Reset", strconv.FormatInt(time.Now().Add(reset).Unix(), 10))
	}
	op, _ := provider.OpOf(r.Context())
	b.calls = append(b.calls, made{time.Now(), op, token, status})
	return &http.Response{StatusCode: status, Header: h, Body: http.NoBody, Request: r}, nil
}

// atOnce is the largest number of calls at once since the last question.
func (b *backend) atOnce() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.most
	b.most = 0
	return n
}

// count is the number of calls, those with the status only unless it is zero.
func (b *backend) count(status int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, c := range b.calls {
		if status == 0 || c.status == status {
			n++
		}
	}
	return n
}

func (b *backend) ops() []provider.Op {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []provider.Op
	for _, c := range b.calls {
		out = append(out, c.op)
	}
	return out
}

// client makes requests of one provider.
type client struct {
	t  *testing.T
	rt http.RoundTripper
}

func newClient(t *testing.T, a *budget.Accounts, name string, b *backend) client {
	return client{t, a.Transport(name)(b, "")}
}

func (c client) get(ctx context.Context, token string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://api.example/servers", nil)
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Authorization", token)
	_, err = c.rt.RoundTrip(r)
	return err
}

// do makes one request of an operation of its own.
func (c client) do(op provider.Op, token string) error {
	return c.get(provider.ContextWithOp(c.t.Context(), op), token)
}

// again makes the request until it is not refused, as Temporal would.
func (c client) again(op provider.Op, token string) {
	for {
		err := c.do(op, token)
		if err == nil {
			return
		}
		if !provider.NotSent(err) {
			c.t.Errorf("%s: %v", op, err)
			return
		}
		time.Sleep(provider.RetryAfterOf(err))
	}
}

func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}
