package decorators_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/decorators"
)

// every calls each method of p once.
func every(p provider.Provider) map[provider.Op]func(context.Context) error {
	pr, _ := provider.As[provider.Pricer](p)
	co, _ := provider.As[provider.Companions](p)
	return map[provider.Op]func(context.Context) error{
		provider.OpCreate: func(ctx context.Context) error { _, err := p.Create(ctx, request("u1")); return err },
		provider.OpGet:    func(ctx context.Context) error { _, err := p.Get(ctx, "memory/1/x"); return err },
		provider.OpFind: func(ctx context.Context) error {
			_, err := p.Find(ctx, "x", provider.Marks{UID: "u1", Installation: installation})
			return err
		},
		provider.OpDelete: func(ctx context.Context) error { return p.Delete(ctx, "memory/1/x") },
		provider.OpList:   func(ctx context.Context) error { _, err := p.List(ctx, provider.Selector{}); return err },
		provider.OpPrice: func(ctx context.Context) error {
			_, _, err := pr.PriceEURPerHour(ctx, provider.Placement{})
			return err
		},
		provider.OpListCompanions: func(ctx context.Context) error { _, err := co.ListCompanions(ctx, provider.Selector{}); return err },
		provider.OpDeleteCompanion: func(ctx context.Context) error {
			return co.DeleteCompanion(ctx, provider.Companion{Kind: "k", ID: "1"})
		},
	}
}

func TestDeadlines(t *testing.T) {
	t.Parallel()
	minute := time.Minute
	defaults := map[provider.Op]time.Duration{
		provider.OpCreate: 2 * minute, provider.OpGet: minute / 2, provider.OpFind: minute / 2, provider.OpDelete: minute,
		provider.OpList: 2 * minute, provider.OpPrice: minute / 2, provider.OpListCompanions: 2 * minute, provider.OpDeleteCompanion: minute,
	}
	configured := map[provider.Op]time.Duration{
		provider.OpCreate: 1 * time.Second, provider.OpGet: 2 * time.Second, provider.OpFind: 3 * time.Second, provider.OpDelete: 4 * time.Second,
		provider.OpList: 5 * time.Second, provider.OpPrice: 6 * time.Second, provider.OpListCompanions: 5 * time.Second, provider.OpDeleteCompanion: 4 * time.Second,
	}
	for what, tt := range map[string]struct {
		deadlines decorators.Deadlines
		callers   time.Duration // of the caller's context, zero for none
		want      map[provider.Op]time.Duration
	}{
		"defaults": {want: defaults},
		"configured": {
			deadlines: decorators.Deadlines{Create: time.Second, Get: 2 * time.Second, Find: 3 * time.Second, Delete: 4 * time.Second, List: 5 * time.Second, Other: 6 * time.Second},
			want:      configured,
		},
		"the caller's is shorter": {callers: time.Millisecond, want: func() map[provider.Op]time.Duration {
			m := map[provider.Op]time.Duration{}
			for op := range defaults {
				m[op] = time.Millisecond
			}
			return m
		}()},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := &slow{}
				for op, do := range every(decorators.WithDeadlines(d, tt.deadlines)) {
					ctx := t.Context()
					if tt.callers > 0 {
						var cancel context.CancelFunc
						ctx, cancel = context.WithTimeout(ctx, tt.callers)
						defer cancel()
					}
					err := do(ctx)
					if d.took != tt.want[op] || provider.ClassOf(err) != provider.Transient {
						t.Errorf("%s was cut off after %v with %v, want %v and Transient", op, d.took, err, tt.want[op])
					}
				}
			})
		})
	}
}
