package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

func (a *app) fleetCmd() *cobra.Command {
	return group("fleet", "Show and steer the watching of proxies",
		"A provider's fleet watch lists its instances and probes its proxies. When many fail\n"+
			"at once it believes its own network to be the cause, and replaces nobody: the brake.",
		a.fleetListCmd(), a.fleetReleaseCmd())
}

func (a *app) fleetListCmd() *cobra.Command {
	return &cobra.Command{
		Use: "list [PROVIDER...]", Aliases: []string{"ls", "get"}, Short: "Show the fleets",
		Example:     "  tollgate fleet list\n  tollgate fleet list local -o yaml",
		Annotations: temporalLines("temporal workflow query --workflow-id fleet/local/0 --name " + workflows.QueryStatus),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.connected(cmd, callTimeout, func(ctx context.Context, s *session) error {
				fleets, err := s.allFleets(ctx, args)
				if len(fleets) == 0 && err != nil {
					return err
				}
				return errors.Join(a.print(fleets, func(w io.Writer, wide bool) error { return a.writeFleets(w, fleets, wide) }), err)
			})
		},
	}
}

// allFleets reads the shards of the named providers, or of all.
func (s *session) allFleets(ctx context.Context, names []string) ([]api.Fleet, error) {
	named := len(names) > 0
	if !named {
		var err error
		if names, err = s.providers(ctx); err != nil {
			return nil, err
		}
	}
	fleets := []api.Fleet{}
	var errs []error
	for _, p := range names {
		f, err := s.fleets(ctx, p)
		if err == nil && f == nil && named {
			err = fail(ExitNotFound, "look with: tollgate providers list", "provider %q has no fleet: it is not configured, or no proxy ever named it", p)
		}
		fleets, errs = append(fleets, f...), append(errs, err)
	}
	return fleets, errors.Join(errs...)
}

func (a *app) writeFleets(w io.Writer, fleets []api.Fleet, wide bool) error {
	t := table{wide: wide}
	t.head("PROVIDER", "SHARD", "PROXIES", "HEALTHY", "LATCHED", "LISTED", "PROBED", "FAILING", "STATE", "+PENDING", "+REFUSED", "+NEXT LISTING", "+NEXT PROBES")
	for _, f := range fleets {
		st := f.Status
		listed := a.ago(st.Drift.ListedAt)
		if f.Status.Shard > 0 {
			listed = "" // shard 0 lists for all
		}
		t.row(fleetProvider(f), strconv.Itoa(st.Shard), strconv.Itoa(st.Rows), strconv.Itoa(st.Healthy), strconv.Itoa(st.Latched),
			listed, a.ago(st.Probe.At), countText(st.Probe.Failing), fleetState(f),
			strconv.Itoa(st.Pending), strconv.FormatInt(st.Refused.Count, 10), formatTime(st.NextDrift), formatTime(st.NextProbe))
	}
	return t.write(w)
}

// fleetProvider is the provider of a fleet, whose name is <provider> or
// <provider>/<shard>.
func fleetProvider(f api.Fleet) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(f.Metadata.Name, "fleet/"), "/")
	return name
}

// fleetState is what keeps a fleet from its work, or "watching".
func fleetState(f api.Fleet) string {
	switch st := f.Status; {
	case st.Brake.On:
		return "brake on since " + formatTime(st.Brake.Since) + ": " + st.Brake.Reason + ": " + st.Brake.Message
	case st.Drift.Failures > 0:
		return fmt.Sprintf("listing failed %d times: %s: %s", st.Drift.Failures, st.Drift.Class, st.Drift.Error)
	case st.Probe.Failures > 0:
		return fmt.Sprintf("probing failed %d times: %s", st.Probe.Failures, st.Probe.Error)
	}
	for _, c := range f.Status.Conditions {
		if c.Status == api.False {
			return c.Type + "=False " + c.Reason + ": " + c.Message
		}
	}
	return "watching"
}

func countText(counts map[string]int) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[k], k))
	}
	if len(parts) == 0 {
		return "0"
	}
	return strings.Join(parts, ", ")
}

func (a *app) fleetReleaseCmd() *cobra.Command {
	return &cobra.Command{
		Use: "release PROVIDER", Short: "Take the brake off",
		Long: "Takes the brake off all shards of a provider's fleet: failing proxies are replaced\n" +
			"from the next probe round on. The brake can come on again once fewer fail.",
		Example:     "  tollgate fleet release local",
		Annotations: temporalLines("temporal workflow signal --workflow-id fleet/local/0 --name " + workflows.SignalRelease),
		Args:        exactly("PROVIDER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.connected(cmd, callTimeout, func(ctx context.Context, s *session) error {
				fleets, err := s.allFleets(ctx, args)
				if err != nil {
					return err
				}
				var errs []error
				for _, f := range fleets {
					id := workflows.FleetID(args[0], f.Status.Shard)
					if err := s.translate(ctx, id, s.conn.Client.SignalWorkflow(ctx, id, "", workflows.SignalRelease, nil)); err != nil {
						errs = append(errs, err)
						continue
					}
					was := "the brake was not on"
					if f.Status.Brake.On {
						was = "the brake is taken off"
					}
					a.say("%s: %s", id, was)
				}
				return errors.Join(errs...)
			})
		},
	}
}

// ago is how long something is past, "never" for the zero time.
func (a *app) ago(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return a.since(t) + " ago"
}
