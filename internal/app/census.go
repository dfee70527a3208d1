package app

import (
	"context"
	"time"

	"github.com/tollgate-dev/tollgate/internal/registration/census"
)

const (
	// defaultCountShoots is the time between two counts of registrations.
	defaultCountShoots = time.Minute
	countTimeout       = 20 * time.Second
	// countRounds is how long a count is shown, in counts.
	countRounds = 5
)

// countShoots counts the registrations of shoots until ctx ends. Every worker
// counts all of them: the figures are for people, and none depends on which worker
// has done what.
func (a *App) countShoots(ctx context.Context) {
	every := a.opts.CountShoots
	if every == 0 {
		every = defaultCountShoots
	}
	before := map[string]bool{}
	for {
		now := map[string]bool{}
		for name := range a.current.Load().tolls.registrations {
			now[name] = true
			a.countShootsOf(ctx, name, countRounds*every+countTimeout)
		}
		for name := range before {
			if !now[name] {
				a.registered.Forget(name)
			}
		}
		before = now
		select {
		case <-ctx.Done():
			return
		case <-time.After(every):
		}
	}
}

func (a *App) countShootsOf(ctx context.Context, name string, shown time.Duration) {
	cctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	groups, err := census.Take(cctx, a.conn.Client, name)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		a.registered.Failed(name)
		a.log.Warn("registrations of shoots are not counted", "source", name, "error", err)
	default:
		a.registered.Counted(name, groups, shown)
	}
}
