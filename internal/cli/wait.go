package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"

	"github.com/tollgate-dev/tollgate/workflows/api"
)

// pollEvery is the pace at which waiting asks. A query costs no history.
const pollEvery = 300 * time.Millisecond

func condition(p api.Proxy, kind string) api.Condition {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return api.Condition{Type: kind, Status: api.Unknown}
}

// headline is the condition that says most about a proxy: what keeps it from
// being provisioned, otherwise its health.
func headline(p api.Proxy) api.Condition {
	if c := condition(p, api.CondProvisioned); c.Status != api.True {
		return c
	}
	return condition(p, api.CondHealthy)
}

// served reports whether the proxy serves the wanted generation.
func served(p api.Proxy, generation int64) bool {
	return p.Status.Phase == api.PhaseRunning && p.Metadata.Generation >= generation &&
		p.Status.ObservedGeneration >= p.Metadata.Generation &&
		condition(p, api.CondProvisioned).Status == api.True && condition(p, api.CondHealthy).Status == api.True
}

// waitServing waits until the proxy serves the wanted generation.
func (s *session) waitServing(ctx context.Context, o object, generation int64, out *progress) (api.Proxy, error) {
	replacements := ""
	return s.poll(ctx, o, out, func(p api.Proxy, first bool) (bool, error) {
		if first {
			replacements = p.Status.LastReplacement
		}
		if served(p, generation) {
			return true, nil
		}
		h := headline(p)
		// What is said of an older generation may be over with this one.
		c := condition(p, api.CondHealthy)
		if c.Reason == api.ReasonNeverHealthy && c.ObservedGeneration >= generation ||
			strings.HasPrefix(p.Status.LastReplacement, api.ReasonNeverHealthy) && p.Status.LastReplacement != replacements {
			return false, fail(ExitNeverHealthy, "it is tried again with a new instance; follow it with: tollgate proxy history "+o.args(),
				"%s: its instance was not proven within %s: %s", o, p.Spec.WithDefaults().NeverHealthyAfter, orDash(h.Message))
		}
		if p.Status.Phase == api.PhaseDeleting || p.Status.Phase == api.PhaseDeleted {
			return false, fail(ExitConflict, "", "%s: is being deleted", o)
		}
		if p.Status.Latched {
			if h.Status == api.True {
				h = condition(p, api.CondHealthy)
			}
			return false, fail(ExitStuck, "change what the message names; tollgate proxy retry "+o.args()+" tries again at once",
				"%s: stands still: %s: %s", o, h.Reason, orDash(h.Message))
		}
		return false, nil
	})
}

// poll reads the status until done says so, and shows every change.
func (s *session) poll(ctx context.Context, o object, out *progress, done func(p api.Proxy, first bool) (bool, error)) (api.Proxy, error) {
	tick := time.NewTicker(s.pollEvery)
	defer tick.Stop()
	var last api.Proxy
	for first := true; ; {
		p, err := s.status(ctx, o)
		switch {
		case err == nil:
			last = p
			out.show(o, p)
			if ok, err := done(p, first); ok || err != nil {
				return p, err
			}
			first = false
		case ctx.Err() != nil:
			return last, s.waitEnded(ctx, o, last)
		case passing(err):
			out.note(o, err.Error())
		default:
			return last, err
		}
		select {
		case <-ctx.Done():
			return last, s.waitEnded(ctx, o, last)
		case <-tick.C:
		}
	}
}

// passing reports whether an error may be gone with the next try: the engine or
// the worker restarts.
func passing(err error) bool {
	var unavailable *serviceerror.Unavailable
	return errors.As(err, &unavailable) || codeOf(err) == ExitTimeout
}

// waitEnded says where the proxy stood when the time was over, or Ctrl-C came.
func (s *session) waitEnded(ctx context.Context, o object, last api.Proxy) error {
	h := headline(last)
	state := "nothing is known of it yet"
	if last.Status.Phase != "" {
		state = fmt.Sprintf("it is %s, %s is %s: %s: %s", last.Status.Phase, h.Type, h.Status, orDash(h.Reason), orDash(h.Message))
	}
	hint := "it goes on by itself; look with: tollgate proxy get " + o.args()
	if errors.Is(ctx.Err(), context.Canceled) {
		return fail(ExitInterrupted, hint, "%s: interrupted; %s", o, state)
	}
	return fail(ExitTimeout, hint, "%s: not ready within %s; %s", o, s.timeout, state)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
