package fault

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"
)

func TestStatusesHaveClasses(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]Class{
		301: Rejected, 400: Rejected, 401: Unauthorized, 403: Unauthorized, 404: Rejected, 408: Retryable, 409: Rejected,
		413: Rejected, 422: Rejected, 423: Retryable, 425: Retryable, 429: Retryable, 500: Retryable, 501: Retryable, 503: Retryable, 599: Retryable,
	} {
		err := fmt.Errorf("deliver: %w", FromHTTP(status, http.Header{}, errors.New("no")))
		if got := ClassOf(err); got != want {
			t.Errorf("%d: class %s, want %s", status, got, want)
		}
	}
	if got := ClassOf(context.DeadlineExceeded); got != Retryable {
		t.Errorf("an error of no class: %s", got)
	}
	if got := ClassOf(nil); got != "" {
		t.Errorf("no error: %s", got)
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 2, 10, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "0": 0, "7": 7 * time.Second, " 30 ": 30 * time.Second, "-5": 0, "soon": 0, "999999999999": maxRetryAfter, "90000": maxRetryAfter,
		"Mon, 02 Nov 2026 10:01:00 GMT": time.Minute, "Mon, 02 Nov 2026 09:00:00 GMT": 0,
	} {
		if got := retryAfter(value, now); got != want {
			t.Errorf("%q: %s, want %s", value, got, want)
		}
	}
	err := fmt.Errorf("x: %w", FromHTTP(503, http.Header{"Retry-After": {"3"}}, errors.New("away")))
	if got := RetryAfter(err); got != 3*time.Second {
		t.Errorf("got %s", got)
	}
	if got := RetryAfter(errors.New("x")); got != 0 {
		t.Errorf("an error of no class: %s", got)
	}
}
