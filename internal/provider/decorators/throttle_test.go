package decorators_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/decorators"
)

type standsAt provider.ThrottleState

func (s standsAt) Throttle() provider.ThrottleState { return provider.ThrottleState(s) }

func TestThrottleStatesAreJoined(t *testing.T) {
	t.Parallel()
	p, _ := driver(t)
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for what, tt := range map[string]struct {
		requests provider.ThrottleState
		want     provider.ThrottleState
	}{
		"free":   {},
		"paused": {provider.ThrottleState{Throttled: true, Until: at, Waiting: 3}, provider.ThrottleState{Throttled: true, Until: at, Waiting: 3}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			chain := decorators.Chain(p, decorators.Options{
				Name: name, Installation: installation, Requests: standsAt(tt.requests),
				Budget: decorators.NewBudget(name, decorators.BudgetOptions{RequestsPerSecond: 1, Burst: 1}, nil),
			})
			th, ok := provider.As[provider.Throttler](chain)
			if !ok {
				t.Fatal("the chain is no throttler")
			}
			if diff := cmp.Diff(th.Throttle(), tt.want); diff != "" {
				t.Errorf("state (-got +want):\n%s", diff)
			}
			if _, ok := provider.As[provider.Pricer](chain); !ok {
				t.Error("the pricer is hidden")
			}
		})
	}
}

// opSeer notes the operation that its calls' contexts name.
type opSeer struct {
	made
	seen []provider.Op
}

func (o *opSeer) see(ctx context.Context) {
	op, begun := provider.OpOf(ctx)
	if begun {
		op += " begun"
	}
	provider.BeginOp(ctx)
	o.seen = append(o.seen, op)
}

func (o *opSeer) Get(ctx context.Context, id provider.InstanceID) (provider.Instance, error) {
	o.see(ctx)
	return provider.Instance{ID: id}, nil
}

func (o *opSeer) Delete(ctx context.Context, _ provider.InstanceID) error {
	o.see(ctx)
	o.see(ctx)
	return nil
}

func TestCallsKnowTheirOperation(t *testing.T) {
	t.Parallel()
	seer := &opSeer{}
	chain := decorators.Chain(seer, decorators.Options{Name: name, Installation: installation})
	if _, err := chain.Get(t.Context(), "1"); err != nil {
		t.Fatal(err)
	}
	if err := chain.Delete(t.Context(), "1"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(seer.seen, []provider.Op{provider.OpGet, provider.OpDelete, "delete begun"}); diff != "" {
		t.Errorf("operations (-got +want):\n%s", diff)
	}
}

// What the request budget refuses to one operation is no pause for all.
func TestRefusedRequestIsNoPause(t *testing.T) {
	bubble(t, decorators.BudgetOptions{RequestsPerSecond: 10, Burst: 10}, func(t *testing.T, _ *decorators.Budget, p provider.Provider, m *made) {
		m.fail = provider.WithReason(provider.WithRetryAfter(
			provider.Wrap(provider.RateLimited, provider.OpList, name, "", errors.New("no room")), time.Minute), provider.ReasonThrottled)
		if _, err := p.List(t.Context(), provider.Selector{}); !provider.NotSent(err) {
			t.Fatalf("%v", err)
		}
		m.fail = nil
		if err := p.Delete(t.Context(), "1"); err != nil {
			t.Errorf("a delete after a refused listing: %v", err)
		}
	})
}
