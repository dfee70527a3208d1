package budget

import (
	"net/http"
	"strconv"
	"time"
)

// headers are what an answer says about the account.
type headers struct{ limit, left int }

// readHeaders reads RateLimit-Limit and RateLimit-Remaining, with or without a
// leading "X-".
func readHeaders(h http.Header) (headers, bool) {
	limit, ok1 := number(h, "RateLimit-Limit")
	left, ok2 := number(h, "RateLimit-Remaining")
	return headers{int(limit), int(left)}, ok1 && ok2 && limit > 0 && left >= 0
}

// unixFrom is where numbers in RateLimit-Reset are taken for a Unix time instead
// of a number of seconds.
const unixFrom = 100_000_000 // in 1973, and three years

// readReset reads RateLimit-Reset: a Unix time, or a number of seconds.
func readReset(h http.Header, now time.Time) (time.Duration, bool) {
	n, ok := number(h, "RateLimit-Reset")
	switch {
	case !ok || n < 0:
		return 0, false
	case n >= unixFrom:
		return max(0, time.Unix(n, 0).Sub(now)), true
	}
	return time.Duration(n) * time.Second, true
}

// readRetryAfter reads Retry-After: a number of seconds, or a date.
func readRetryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	text := h.Get("Retry-After")
	if n, err := strconv.Atoi(text); err == nil && n >= 0 {
		return time.Duration(n) * time.Second, true
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now)), true
	}
	return 0, false
}

func number(h http.Header, name string) (int64, bool) {
	text := h.Get(name)
	if text == "" {
		text = h.Get("X-" + name)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}
