package shoot

import (
	"fmt"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

func refuse(format string, args ...any) error {
	return temporal.NewApplicationError(fmt.Sprintf(format, args...), ErrRefused)
}

func (r *registration) usable() error {
	if r.ending {
		return temporal.NewApplicationError("the registration is ending", ErrEnding)
	}
	return nil
}

func (r *registration) took(ctx workflow.Context) {
	r.asked++
	r.updateAt = workflow.GetInfo(ctx).GetCurrentHistoryLength()
}

func (r *registration) handlers() error {
	type options = workflow.UpdateHandlerOptions
	for _, h := range []struct {
		name string
		f    any
		o    options
	}{
		{workflows.UpdateShootRegister, func(ctx workflow.Context, f api.ShootFacts) (api.ShootRegistration, error) {
			r.took(ctx)
			r.created(f)
			return r.view(), nil
		}, options{Description: "adds what is known of the shoot; a tenant that is given counts before anything else",
			Validator: func(_ workflow.Context, f api.ShootFacts) error {
				if err := r.agrees(f); err != nil {
					return refuse("%v", err)
				}
				if is := r.Facts.CreatedAt; !f.CreatedAt.IsZero() && !is.IsZero() && !is.Equal(f.CreatedAt) {
					return refuse("createdAt: %s contradicts %s, which is known", clock(f.CreatedAt), clock(is))
				}
				return r.usable()
			}}},
		{workflows.UpdateShootEnd, func(ctx workflow.Context, e api.ShootEnd) (api.ShootRegistration, error) {
			r.took(ctx)
			r.end(workflow.Now(ctx), e)
			return r.view(), nil
		}, options{Description: "says when the shoot was gone: its relation is closed then",
			Validator: func(ctx workflow.Context, e api.ShootEnd) error {
				had := r.Status.End
				switch {
				case e.At.IsZero():
					return refuse("at: is required: when the shoot was gone")
				case e.At.After(workflow.Now(ctx)):
					return refuse("at: %s is in the future", clock(e.At))
				case !r.Facts.CreatedAt.IsZero() && e.At.Before(r.Facts.CreatedAt):
					return refuse("at: %s is before the shoot was created, at %s", clock(e.At), clock(r.Facts.CreatedAt))
				case had != nil && !had.Concluded && !had.At.Equal(e.At):
					return refuse("at: the shoot was gone at %s already", clock(had.At))
				}
				return r.usable()
			}}},
		{workflows.UpdateShootRetry, func(ctx workflow.Context) (api.ShootRegistration, error) {
			r.took(ctx)
			r.retry()
			return r.view(), nil
		}, options{Description: "looks at the tenant and the relation again, at once",
			Validator: func(workflow.Context) error { return r.usable() }}},
	} {
		if err := workflow.SetUpdateHandlerWithOptions(r.ctx, h.name, h.f, h.o); err != nil {
			return err
		}
	}
	return nil
}
