package providertest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// misclassing gives errors that match another class.
func misclassing(class provider.Class, match func(op provider.Op, e *provider.Error) bool) func(m *mutant) {
	return func(m *mutant) {
		m.changeError = func(op provider.Op, err error) error {
			var e *provider.Error
			if errors.As(err, &e) && match(op, e) {
				c := *e
				c.Class = class
				return &c
			}
			return err
		}
	}
}

// answered matches errors with that answer of the backend in their text.
func answered(answer string) func(provider.Op, *provider.Error) bool {
	return func(_ provider.Op, e *provider.Error) bool { return strings.Contains(e.Error(), answer) }
}

func errorDefects() []defect {
	return []defect{
		{
			what: "names the type instead of the provider", trips: []string{"PC-44"},
			brk: func(m *mutant) {
				m.changeError = func(_ provider.Op, err error) error {
					var e *provider.Error
					if !errors.As(err, &e) {
						return err
					}
					c := *e
					c.Provider = "memory"
					return &c
				}
			},
		},
		{what: "retries bad credentials", trips: []string{"PC-45"}, brk: misclassing(provider.Transient, answered("401 unauthorized"))},
		{what: "takes forbidden for a limit", trips: []string{"PC-46"}, brk: misclassing(provider.QuotaExceeded, answered("403 forbidden"))},
		{
			what: "create is not found", trips: []string{"PC-47"},
			brk: misclassing(provider.NotFound, func(op provider.Op, e *provider.Error) bool {
				return op == provider.OpCreate && strings.Contains(e.Error(), "404 not_found")
			}),
		},
		{what: "latches on a busy account", trips: []string{"PC-48"}, brk: misclassing(provider.Permanent, answered("409 busy"))},
		{what: "retries a refused request", trips: []string{"PC-49"}, brk: misclassing(provider.Transient, answered("422 invalid_input"))},
		{
			what: "forgets how long to wait", trips: []string{"PC-50"},
			brk: func(m *mutant) {
				m.changeError = func(_ provider.Op, err error) error { return provider.WithRetryAfter(err, 0) }
			},
		},
		{
			what: "sleeps through the wait", trips: []string{"PC-50"},
			brk: func(m *mutant) {
				m.get = func(ctx context.Context, id provider.InstanceID) (provider.Instance, error) {
					in, err := m.Provider.Get(ctx, id)
					if provider.RetryAfterOf(err) > 0 {
						<-ctx.Done()
					}
					return in, err
				}
			},
		},
		{
			what: "an outage reads as gone", trips: []string{"PC-51"},
			brk: misclassing(provider.NotFound, func(op provider.Op, e *provider.Error) bool {
				return op == provider.OpGet && strings.Contains(e.Error(), "503 unavailable")
			}),
		},
		{
			what: "an outage reads as deleted", trips: []string{"PC-51"},
			brk: func(m *mutant) {
				m.remove = func(ctx context.Context, id provider.InstanceID) error {
					if err := m.Provider.Delete(ctx, id); err == nil || !strings.Contains(err.Error(), "500 internal") {
						return err
					}
					return nil
				}
			},
		},
		{
			what: "a list that is cut off is a list", trips: []string{"PC-52"},
			brk: func(m *mutant) {
				m.list = func(ctx context.Context, sel provider.Selector) ([]provider.Instance, error) {
					all, err := m.Provider.List(ctx, sel)
					if err != nil && strings.Contains(err.Error(), "cut off") {
						return nil, nil
					}
					return all, err
				}
			},
		},
		{what: "a used-up account is permanent", trips: []string{"PC-53"}, brk: misclassing(provider.Permanent, answered("403 quota"))},
		{what: "sold out is a limit", trips: []string{"PC-54"}, brk: misclassing(provider.QuotaExceeded, answered("412 sold_out"))},
	}
}

func secretDefects() []defect {
	return []defect{
		{
			what: "shows the request in its error", trips: []string{"PC-55"},
			brk: func(m *mutant) {
				m.create = func(ctx context.Context, req provider.CreateRequest) (provider.InstanceID, error) {
					id, err := m.Provider.Create(ctx, req)
					var e *provider.Error
					if errors.As(err, &e) {
						c := *e
						c.Err = fmt.Errorf("create %s with %q: %w", req.Name, req.CloudInit.Reveal(), e.Err)
						err = &c
					}
					return id, err
				}
			},
		},
		{
			what: "repeats what the backend says", trips: []string{"PC-55"},
			brk: func(m *mutant) {
				m.changeError = func(_ provider.Op, err error) error {
					var e *provider.Error
					if !errors.As(err, &e) || !strings.Contains(e.Error(), "422") {
						return err
					}
					c := *e
					c.Err = fmt.Errorf("%w; token %s", e.Err, m.o.Credential.Reveal())
					return &c
				}
			},
		},
		{
			what: "logs cloud-init for debugging", trips: []string{"PC-56"},
			brk: func(m *mutant) {
				m.create = func(ctx context.Context, req provider.CreateRequest) (provider.InstanceID, error) {
					m.o.Logger.Log(ctx, slog.LevelDebug-4, "creating", slog.String("user_data", string(req.CloudInit.Reveal())))
					return m.Provider.Create(ctx, req)
				}
			},
		},
		{
			what: "logs its credential when it starts", trips: []string{"PC-56"},
			brk: func(m *mutant) {
				m.beforeOpen = func() {
					m.o.Logger.Info("built", slog.Any("config", map[string]string{"token": string(m.o.Credential.Reveal())}))
				}
			},
		},
	}
}

func optionalDefects() []defect {
	return []defect{
		{
			what: "checks in any order", trips: []string{"PC-57"},
			brk: func(m *mutant) {
				var n atomic.Int32
				m.check = func(ctx context.Context) []provider.TargetStatus {
					all := m.Provider.Check(ctx)
					if n.Add(1)%2 == 0 {
						slices.Reverse(all)
					}
					return all
				}
			},
		},
		{
			what: "checks until the time is up", trips: []string{"PC-58"},
			brk: func(m *mutant) {
				m.check = func(ctx context.Context) []provider.TargetStatus {
					all := m.Provider.Check(ctx)
					if ctx.Err() != nil {
						return all[:1]
					}
					return all
				}
			},
		},
		{
			what: "is ready unless told otherwise", trips: []string{"PC-58"},
			brk: func(m *mutant) {
				m.check = func(ctx context.Context) []provider.TargetStatus {
					all := m.Provider.Check(ctx)
					for i := range all {
						all[i].Ready = all[i].Ready || all[i].Reason == provider.ReasonTimeout
					}
					return all
				}
			},
		},
		{
			what: "every trouble is an API error", trips: []string{"PC-59"},
			brk: func(m *mutant) {
				m.check = func(ctx context.Context) []provider.TargetStatus {
					all := m.Provider.Check(ctx)
					for i := range all {
						if !all[i].Ready {
							all[i].Reason = provider.ReasonAPIError
						}
					}
					return all
				}
			},
		},
		{
			what: "an unknown price is nothing", trips: []string{"PC-60"},
			brk: func(m *mutant) {
				m.price = func(ctx context.Context, p provider.Placement) (provider.MicroEUR, bool, error) {
					price, _, err := m.Provider.PriceEURPerHour(ctx, p)
					return price, true, err
				}
			},
		},
		{
			what: "costs nothing in an outage", trips: []string{"PC-60"},
			brk: func(m *mutant) {
				m.price = func(ctx context.Context, p provider.Placement) (provider.MicroEUR, bool, error) {
					price, known, err := m.Provider.PriceEURPerHour(ctx, p)
					if err != nil {
						return 0, false, nil
					}
					return price, known, nil
				}
			},
		},
		{
			what: "does not say what a companion is attached to", trips: []string{"PC-61"},
			brk: func(m *mutant) {
				m.listBeside = func(ctx context.Context, sel provider.Selector) ([]provider.Companion, error) {
					all, err := m.Provider.ListCompanions(ctx, sel)
					for i := range all {
						all[i].AttachedTo = ""
					}
					return all, err
				}
			},
		},
		{
			what: "lists companions of everybody", trips: []string{"PC-61"},
			brk: func(m *mutant) {
				m.listBeside = func(ctx context.Context, sel provider.Selector) ([]provider.Companion, error) {
					sel.Installation = ""
					return m.Provider.ListCompanions(ctx, sel)
				}
			},
		},
		{
			what: "a companion that is gone is an error", trips: []string{"PC-62"},
			brk: func(m *mutant) {
				m.dropBeside = func(ctx context.Context, c provider.Companion) error {
					if !m.w.once("dropped " + c.ID) {
						return provider.Wrap(provider.NotFound, provider.OpDeleteCompanion, m.o.Name, c.ID, errors.New("it is gone"))
					}
					return m.Provider.DeleteCompanion(ctx, c)
				}
			},
		},
	}
}
