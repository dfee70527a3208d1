package activities

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// Types of ApplicationErrors beside the provider's classes. They live in
// histories: they are only ever added to.
const (
	// ErrNotReady: the instance exists and is not running yet; the poll goes on.
	ErrNotReady = "NotReady"
	// ErrStopped: the instance will not run again.
	ErrStopped = "InstanceStopped"
	// ErrNotProven: the CONNECT did not go through; Details hold the ProbeResult.
	ErrNotProven = "NotProven"
	// ErrStillExists: a deleted instance is not gone yet; the poll goes on.
	ErrStillExists = "StillExists"
	// ErrProviderNotConfigured: the spec names a provider that no worker has.
	ErrProviderNotConfigured = "ProviderNotConfigured"
	// ErrSecretUnavailable: a secretRef names nothing that can be read.
	ErrSecretUnavailable = "SecretUnavailable"
)

// FailureDetails are the details of an ApplicationError made from a
// provider.Error.
type FailureDetails struct {
	Class      provider.Class `json:"class"`
	Op         provider.Op    `json:"op,omitempty"`
	Provider   string         `json:"provider,omitempty"`
	Instance   string         `json:"instance,omitempty"`
	Reason     string         `json:"reason,omitempty"`
	RetryAfter time.Duration  `json:"retryAfter,omitempty"`
	Message    string         `json:"message,omitempty"`
}

// toTemporal converts an error by the one table, provider.ClassRules: the type
// is the class, and whether and when Temporal tries again follows from it. An
// error that was never classed is Transient. A cancelled activity stays
// cancelled; one cut off because its worker stops is tried again elsewhere.
func toTemporal(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if canceled(ctx) {
		return temporal.NewCanceledError(provider.ReasonOf(err))
	}
	var ae *temporal.ApplicationError
	if errors.As(err, &ae) {
		return err
	}
	class := provider.ClassOf(err)
	rule := provider.RuleFor(class)
	d := FailureDetails{Class: class, Message: err.Error()}
	var pe *provider.Error
	if errors.As(err, &pe) {
		d.Op, d.Provider, d.Instance, d.Reason, d.RetryAfter = pe.Op, pe.Provider, pe.ID, pe.Reason, pe.RetryAfter
		d.Message = pe.Err.Error()
	}
	delay := rule.Delay
	if d.RetryAfter > 0 {
		delay = d.RetryAfter
	}
	opts := temporal.ApplicationErrorOptions{NonRetryable: rule.NonRetryable, Details: []any{d}}
	if !rule.NonRetryable {
		opts.NextRetryDelay = delay
	}
	return temporal.NewApplicationErrorWithOptions(err.Error(), string(class), opts)
}

// canceled reports whether the workflow asked the activity to stop, as opposed
// to a deadline or the end of its worker.
func canceled(ctx context.Context) bool {
	if !errors.Is(ctx.Err(), context.Canceled) || !activity.IsActivity(ctx) {
		return false
	}
	select {
	case <-activity.GetWorkerStopChannel(ctx):
		return false
	default:
		return true
	}
}

// again is a retryable failure whose next attempt follows after poll: the way
// an activity waits without costing history.
func again(kind string, poll time.Duration, message string, details ...any) error {
	return temporal.NewApplicationErrorWithOptions(message, kind, temporal.ApplicationErrorOptions{
		NextRetryDelay: poll, Details: details, Category: temporal.ApplicationErrorCategoryBenign,
	})
}

// final is a failure that the workflow gets at once.
func final(kind, message string, details ...any) error {
	return temporal.NewApplicationErrorWithOptions(message, kind, temporal.ApplicationErrorOptions{
		NonRetryable: true, Details: details,
	})
}

// beat reports life every second until stopped, so that the loss of a worker is
// noticed within the heartbeat timeout and a cancellation reaches the activity.
type beat struct {
	ctx     context.Context
	mu      sync.Mutex
	details []any
	done    chan struct{}
}

// heartbeat starts a beat; its details are what the next attempt finds.
func heartbeat(ctx context.Context, details ...any) *beat {
	b := &beat{ctx: ctx, details: details, done: make(chan struct{})}
	go func() {
		t := time.NewTicker(time.Second)
		defer t.Stop()
		for {
			select {
			case <-b.done:
				return
			case <-ctx.Done():
				return
			case <-t.C:
				b.record()
			}
		}
	}()
	return b
}

// set replaces the details and reports them at once.
func (b *beat) set(details ...any) {
	b.mu.Lock()
	b.details = details
	b.mu.Unlock()
	b.record()
}

func (b *beat) record() {
	b.mu.Lock()
	defer b.mu.Unlock()
	activity.RecordHeartbeat(b.ctx, b.details...)
}

func (b *beat) stop() { close(b.done) }
