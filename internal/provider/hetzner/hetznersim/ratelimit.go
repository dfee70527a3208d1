package hetznersim

import (
	"math"
	"net/http"
	"strconv"
	"time"
)

// bucket is a project's request budget: full at the start, refilled evenly.
type bucket struct {
	Limit int       `json:"limit"` // per hour; 0 means no limit
	Left  float64   `json:"left"`
	At    time.Time `json:"at"`
}

func newBucket(limit int, now time.Time) bucket {
	return bucket{Limit: limit, Left: float64(limit), At: now}
}

func (b *bucket) rate() float64 { return float64(b.Limit) / 3600 }

func (b *bucket) refill(now time.Time) {
	if d := now.Sub(b.At).Seconds(); d > 0 {
		b.Left = math.Min(float64(b.Limit), b.Left+d*b.rate())
		b.At = now
	}
}

// take spends one request and reports whether it was there.
func (b *bucket) take(now time.Time) bool {
	if b.Limit <= 0 {
		return true
	}
	b.refill(now)
	if b.Left < 1 {
		return false
	}
	b.Left--
	return true
}

// spend takes n requests at once, down to none.
func (b *bucket) spend(n int, now time.Time) {
	b.refill(now)
	b.Left = math.Max(0, b.Left-float64(n))
}

// header writes the vendor's three headers. Reset is when the bucket is full
// again, in whole seconds.
func (b *bucket) header(h http.Header, now time.Time) {
	if b.Limit <= 0 {
		return
	}
	b.refill(now)
	full := now.Add(time.Duration((float64(b.Limit) - b.Left) / b.rate() * float64(time.Second)))
	h.Set("RateLimit-Limit", strconv.Itoa(b.Limit))
	h.Set("RateLimit-Remaining", strconv.Itoa(int(b.Left)))
	h.Set("RateLimit-Reset", strconv.FormatInt(full.Unix(), 10))
}
