package decorators

import (
	"context"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// call is one call on its way through a decorator.
type call struct {
	op provider.Op
	// id is the instance's id or name, as far as it is known.
	id string
}

// around does something before and after a call. It calls do at most once and
// returns do's error or one of its own.
type around func(ctx context.Context, c *call, do func(context.Context) error) error

// intercept routes every method of p through by, those of Pricer and Companions
// included when p has them. The result has exactly the optional interfaces, of
// these two, that p has.
func intercept(p provider.Provider, by around) provider.Provider {
	b := base{next: p, by: by}
	pr, isPricer := provider.As[provider.Pricer](p)
	co, hasCompanions := provider.As[provider.Companions](p)
	switch {
	case isPricer && hasCompanions:
		return struct {
			base
			pricer
			companions
		}{b, pricer{pr, by}, companions{co, by}}
	case isPricer:
		return struct {
			base
			pricer
		}{b, pricer{pr, by}}
	case hasCompanions:
		return struct {
			base
			companions
		}{b, companions{co, by}}
	}
	return b
}

type base struct {
	next provider.Provider
	by   around
}

var (
	_ provider.Provider   = base{}
	_ provider.Unwrapper  = base{}
	_ provider.Pricer     = pricer{}
	_ provider.Companions = companions{}
)

// Unwrap returns the provider that is decorated.
func (b base) Unwrap() provider.Provider { return b.next }

func (b base) Create(ctx context.Context, req provider.CreateRequest) (id provider.InstanceID, err error) {
	c := &call{provider.OpCreate, req.Name}
	err = b.by(ctx, c, func(ctx context.Context) error {
		id, err = b.next.Create(ctx, req)
		if err == nil {
			c.id = string(id)
		}
		return err
	})
	return id, err
}

func (b base) Get(ctx context.Context, id provider.InstanceID) (in provider.Instance, err error) {
	err = b.by(ctx, &call{provider.OpGet, string(id)}, func(ctx context.Context) error {
		in, err = b.next.Get(ctx, id)
		return err
	})
	return in, err
}

func (b base) Find(ctx context.Context, name string, owner provider.Marks) (in provider.Instance, err error) {
	c := &call{provider.OpFind, name}
	err = b.by(ctx, c, func(ctx context.Context) error {
		in, err = b.next.Find(ctx, name, owner)
		if err == nil {
			c.id = string(in.ID)
		}
		return err
	})
	return in, err
}

func (b base) Delete(ctx context.Context, id provider.InstanceID) error {
	return b.by(ctx, &call{provider.OpDelete, string(id)}, func(ctx context.Context) error { return b.next.Delete(ctx, id) })
}

func (b base) List(ctx context.Context, sel provider.Selector) (all []provider.Instance, err error) {
	err = b.by(ctx, &call{op: provider.OpList}, func(ctx context.Context) error {
		all, err = b.next.List(ctx, sel)
		return err
	})
	return all, err
}

type pricer struct {
	pricing provider.Pricer
	around  around
}

func (p pricer) PriceEURPerHour(ctx context.Context, pl provider.Placement) (price provider.MicroEUR, known bool, err error) {
	err = p.around(ctx, &call{op: provider.OpPrice}, func(ctx context.Context) error {
		price, known, err = p.pricing.PriceEURPerHour(ctx, pl)
		return err
	})
	return price, known, err
}

type companions struct {
	beside provider.Companions
	around around
}

func (c companions) ListCompanions(ctx context.Context, sel provider.Selector) (all []provider.Companion, err error) {
	err = c.around(ctx, &call{op: provider.OpListCompanions}, func(ctx context.Context) error {
		all, err = c.beside.ListCompanions(ctx, sel)
		return err
	})
	return all, err
}

func (c companions) DeleteCompanion(ctx context.Context, comp provider.Companion) error {
	return c.around(ctx, &call{provider.OpDeleteCompanion, comp.ID}, func(ctx context.Context) error {
		return c.beside.DeleteCompanion(ctx, comp)
	})
}
