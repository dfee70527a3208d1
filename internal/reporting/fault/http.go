package fault

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxRetryAfter bounds what a receiver may ask for.
const maxRetryAfter = time.Hour

// FromHTTP is the error of an answer that is no success. detail is the receiver's
// word; it is cut to a few hundred bytes.
func FromHTTP(status int, header http.Header, detail error) *Error {
	e := &Error{Status: status, Err: detail, Class: Rejected}
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		e.Class = Unauthorized
	case status >= 500, status == http.StatusTooManyRequests, status == http.StatusRequestTimeout,
		status == http.StatusTooEarly, status == http.StatusLocked:
		e.Class = Retryable
		e.RetryAfter = retryAfter(header.Get("Retry-After"), time.Now())
	}
	return e
}

func retryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	var d time.Duration
	if seconds, err := strconv.Atoi(value); err == nil {
		d = time.Duration(min(seconds, int(maxRetryAfter/time.Second))) * time.Second
	} else if at, err := http.ParseTime(value); err == nil {
		d = at.Sub(now)
	}
	return min(max(d, 0), maxRetryAfter)
}
