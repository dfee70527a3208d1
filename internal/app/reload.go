package app

import (
	"context"

	"github.com/tollgate-dev/tollgate/internal/config"
)

// reload takes a new configuration over, or leaves the old one at work.
func (a *App) reload(ctx context.Context, cfg *config.Config) error {
	v, err := a.prepare(ctx, cfg)
	if err != nil {
		return err
	}
	return a.commit(ctx, v)
}

// commit makes v the version at work. Nothing in it can be refused any more;
// what needs the server is left to the announcer, which goes on trying.
func (a *App) commit(ctx context.Context, v *version) error {
	a.committing = v
	changes, err := a.registry.Reload(ctx, v.defs)
	if err != nil {
		return err
	}
	if err := a.commitTolls(ctx, v); err != nil {
		return err
	}
	a.usable.Reset()
	for _, e := range a.registry.Entries() {
		p, _ := v.cfg.Provider(e.Name)
		a.budgets.For(e.Name, limits(p)) // of those that were kept, too
		a.requests.Set(e.Name, requestLimits(p))
		a.watched.Declare(e.Name)
		a.watched.Intervals(e.Name, p.DriftInterval, v.cfg.GC.Interval)
		usable := a.usable.WithLabelValues(e.Name, e.Type)
		usable.Set(1)
		if e.Err != nil {
			usable.Set(0)
			a.log.Error("a provider cannot be used", "provider", e.Name, "error", e.Err)
		}
	}
	for _, name := range changes.Removed {
		a.watched.Forget(name)
		a.requests.Forget(name)
	}
	a.current.Store(v)
	a.level.Set(v.cfg.Log.Level)
	a.log.Debug("providers built", "added", changes.Added, "rebuilt", changes.Rebuilt, "removed", changes.Removed,
		"kept", changes.Kept, "broken", changes.Broken)
	a.announce.changed()
	return nil
}
