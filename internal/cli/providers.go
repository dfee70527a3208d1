package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

func (a *app) providersCmd() *cobra.Command {
	c := group("providers", "Show and check the providers",
		"Providers stand in the workers' configuration. Each has a workflow that checks its\n"+
			"health, and one that watches its fleet.",
		a.providersListCmd(), a.providersCheckCmd())
	c.Aliases = []string{"provider"}
	return c
}

// providerView is what is known of one provider.
type providerView struct {
	Name string `json:"name"`
	// Health is absent when the provider has no health workflow.
	Health *api.ProviderHealth `json:"health,omitempty"`
	Fleet  []api.Fleet         `json:"fleet,omitempty"`
}

func (a *app) providersListCmd() *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the providers",
		Example:     "  tollgate providers list\n  tollgate providers list -o wide",
		Annotations: temporalLines("temporal workflow query --workflow-id health/local --name " + workflows.QueryStatus),
		Args:        exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.connected(cmd, callTimeout, func(ctx context.Context, s *session) error {
				names, err := s.providers(ctx)
				if err != nil {
					return err
				}
				if len(names) == 0 {
					return fail(ExitNotFound, "a worker announces its providers when it starts", "no providers: no worker with a configuration ever ran in this Temporal namespace")
				}
				found := make([]*providerView, len(names))
				index := make([]int, len(names))
				for i := range index {
					index[i] = i
				}
				partial := each(ctx, index, func(ctx context.Context, i int) error {
					v, err := s.provider(ctx, names[i])
					if err == nil {
						found[i] = &v
					}
					return err
				})
				var views []providerView // of those that could be read
				for _, v := range found {
					if v != nil {
						views = append(views, *v)
					}
				}
				if len(views) == 0 {
					return partial
				}
				return errors.Join(a.print(views, func(w io.Writer, wide bool) error { return a.writeProviders(w, views, wide) }), partial)
			})
		},
	}
}

// provider asks all that is known of one provider.
func (s *session) provider(ctx context.Context, name string) (providerView, error) {
	v := providerView{Name: name}
	var h api.ProviderHealth
	err := s.query(ctx, workflows.ProviderHealthID(name), workflows.QueryStatus, &h)
	var closed *closedError
	switch {
	case err == nil:
		v.Health = &h
	case isNotFound(err), errors.As(err, &closed):
	default:
		return v, s.translate(ctx, "provider "+name, err)
	}
	v.Fleet, err = s.fleets(ctx, name)
	return v, err
}

func (a *app) writeProviders(w io.Writer, views []providerView, wide bool) error {
	t := table{wide: wide}
	t.head("NAME", "TYPE", "READY", "REASON", "PROXIES", "HEALTHY", "CHECKED", "MESSAGE", "+SHARDS", "+SINCE")
	for _, v := range views {
		rows, healthy := 0, 0
		for _, f := range v.Fleet {
			rows, healthy = rows+f.Status.Rows, healthy+f.Status.Healthy
		}
		kind, ready, reason, checked, message, since := "", "unknown", "NoHealthWorkflow", "never", "", ""
		if h := v.Health; h != nil {
			kind, ready, reason, message = h.Status.Type, yesNo(h.Status.Ready), h.Status.Reason, h.Status.Message
			checked, since = a.ago(h.Status.CheckedAt), a.since(h.Status.Since)
		}
		t.row(v.Name, kind, ready, reason, strconv.Itoa(rows), strconv.Itoa(healthy), checked, message, strconv.Itoa(len(v.Fleet)), since)
	}
	return t.write(w)
}

func (a *app) providersCheckCmd() *cobra.Command {
	return &cobra.Command{
		Use: "check [PROVIDER...]", Short: "Check providers now",
		Long: fmt.Sprintf("Has providers checked now, all of them or the named ones, and shows each target.\n"+
			"The exit code is %d when one is not ready.", ExitUnhealthy),
		Example:     "  tollgate providers check\n  tollgate providers check local -o json",
		Annotations: temporalLines("temporal workflow update execute --workflow-id health/local --name " + workflows.UpdateCheck),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.connected(cmd, callTimeout, func(ctx context.Context, s *session) error {
				names := args
				if len(names) == 0 {
					var err error
					if names, err = s.providers(ctx); err != nil {
						return err
					}
				}
				found := make([]*api.ProviderHealth, len(names))
				index := make([]int, len(names))
				for i := range index {
					index[i] = i
				}
				errs := []error{each(ctx, index, func(ctx context.Context, i int) (err error) {
					found[i], err = s.check(ctx, names[i])
					return err
				})}
				checked := []api.ProviderHealth{}
				for _, h := range found {
					if h == nil {
						continue
					}
					checked = append(checked, *h)
					if !h.Status.Ready {
						errs = append(errs, fail(ExitUnhealthy, "", "provider %s is not ready: %s: %s", h.Metadata.Name, h.Status.Reason, orDash(h.Status.Message)))
					}
				}
				if len(checked) == 0 {
					return errors.Join(errs...)
				}
				return errors.Join(append(errs, a.print(checked, func(w io.Writer, wide bool) error { return a.writeTargets(w, checked, wide) }))...)
			})
		},
	}
}

// check has a provider checked now.
func (s *session) check(ctx context.Context, name string) (*api.ProviderHealth, error) {
	var h api.ProviderHealth
	what := "provider " + name
	err := s.update(ctx, workflows.ProviderHealthID(name), newUpdateID(), workflows.UpdateCheck, nil, &h)
	if isNotFound(err) {
		return nil, fail(ExitNotFound, "look with: tollgate providers list", "%s is not configured: it has no health workflow", what)
	}
	if err != nil {
		return nil, s.translate(ctx, what, err)
	}
	return &h, nil
}

func (a *app) writeTargets(w io.Writer, checked []api.ProviderHealth, wide bool) error {
	t := table{wide: wide}
	t.head("PROVIDER", "TARGET", "READY", "REASON", "LATENCY", "MESSAGE", "+DETAILS")
	for _, h := range checked {
		if len(h.Status.Targets) == 0 {
			t.row(h.Metadata.Name, "", yesNo(h.Status.Ready), h.Status.Reason, "", h.Status.Message, "")
		}
		for _, x := range h.Status.Targets {
			t.row(h.Metadata.Name, x.Target, yesNo(x.Ready), x.Reason, fmt.Sprintf("%dms", x.Latency.Milliseconds()), x.Message, labelText(x.Details))
		}
	}
	return t.write(w)
}
