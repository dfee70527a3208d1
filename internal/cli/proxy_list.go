package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// listFilter says which rows of the fleet are shown.
type listFilter struct {
	namespace string // empty: all
	phase     string
	healthy   bool
	labels    map[string]string
}

func (f listFilter) matches(r api.FleetRow) bool {
	if f.namespace != "" && r.Namespace != f.namespace || f.phase != "" && string(r.Phase) != f.phase || f.healthy && !r.Healthy {
		return false
	}
	for k, v := range f.labels {
		if r.Labels[k] != v {
			return false
		}
	}
	return true
}

// listedRow is a row and where it stands.
type listedRow struct {
	api.FleetRow
	provider string
}

func phases() []string {
	return []string{string(api.PhasePending), string(api.PhaseProvisioning), string(api.PhaseRunning), string(api.PhaseReplacing), string(api.PhaseDeleting)}
}

func (a *app) proxyListCmd() *cobra.Command {
	var provider string
	var all, healthy bool
	var labels []string
	phase := choice{"", phases()}
	c := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List proxies",
		Long: "Lists the proxies of a namespace from the fleet tables, which are current and cheap\n" +
			"to read. With -o json or yaml each proxy is asked for its whole document; the\n" +
			"result can be applied.",
		Example: "  tollgate proxy list\n" +
			"  tollgate proxy list -A -o wide\n" +
			"  tollgate proxy list -p hetzner --healthy -l team=web\n" +
			"  tollgate proxy list -o yaml > backup.yaml",
		Annotations: temporalLines(
			"temporal workflow query --workflow-id fleet/local/0 --name "+workflows.QueryTable,
			"temporal workflow list --query \"WorkflowType='"+workflows.TypeProxy+"' AND ExecutionStatus='Running' AND "+workflows.AttrNamespace.GetName()+"='default'\""),
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			want, err := editLabels(nil, labels, false)
			if err != nil {
				return err
			}
			f := listFilter{namespace: a.namespace, phase: phase.value, healthy: healthy, labels: want}
			if all {
				f.namespace = ""
			}
			return a.connected(cmd, callTimeout, func(ctx context.Context, s *session) error {
				rows, partial := s.list(ctx, provider, f)
				if len(rows) == 0 && partial != nil {
					return partial
				}
				return errors.Join(a.printList(ctx, s, rows, all, f), partial)
			})
		},
	}
	c.Flags().StringVarP(&provider, "provider", "p", "", "only the proxies of this provider")
	c.Flags().BoolVarP(&all, "all-namespaces", "A", false, "the proxies of all namespaces")
	c.Flags().BoolVar(&healthy, "healthy", false, "only the proxies that are proven and serve")
	c.Flags().Var(&phase, "phase", "only the proxies in this phase")
	c.Flags().StringArrayVarP(&labels, "label", "l", nil, "only the proxies with label `key=value`; may be repeated")
	return c
}

// list reads the rows that match, in the order of their names. A provider that
// cannot be read gives an error beside the rows of the others.
func (s *session) list(ctx context.Context, provider string, f listFilter) ([]listedRow, error) {
	names := []string{provider}
	if provider == "" {
		var err error
		if names, err = s.providers(ctx); err != nil {
			return nil, err
		}
	}
	tables := make([][]api.FleetTable, len(names))
	index := make([]int, len(names))
	for i := range index {
		index[i] = i
	}
	err := each(ctx, index, func(ctx context.Context, i int) (err error) {
		tables[i], err = s.tables(ctx, names[i])
		if err == nil && tables[i] == nil && provider != "" {
			err = fail(ExitNotFound, "look with: tollgate providers list", "provider %q has no fleet: it is not configured, or no proxy ever named it", provider)
		}
		return err
	})
	var rows []listedRow
	for i, shard := range tables {
		for _, t := range shard {
			for _, r := range t.Rows {
				if f.matches(r) {
					rows = append(rows, listedRow{r, names[i]})
				}
			}
		}
	}
	slices.SortFunc(rows, func(a, b listedRow) int {
		return strings.Compare(a.Namespace+"/"+a.Name+"/"+a.UID, b.Namespace+"/"+b.Name+"/"+b.UID)
	})
	return rows, err
}

func (a *app) printList(ctx context.Context, s *session, rows []listedRow, all bool, f listFilter) error {
	if a.output.value == formatJSON || a.output.value == formatYAML {
		list, err := s.documents(ctx, rows)
		return errors.Join(a.print(list, nil), err)
	}
	if len(rows) == 0 {
		where := "in namespace " + f.namespace
		if all {
			where = "in any namespace"
		}
		fmt.Fprintf(a.env.Stderr, "no proxies %s\n", where)
		return nil
	}
	return a.print(nil, func(w io.Writer, wide bool) error {
		t := table{wide: wide}
		var lead []string
		if all {
			lead = []string{"NAMESPACE"}
		}
		t.head(append(lead, "NAME", "PROVIDER", "PHASE", "HEALTHY", "ENDPOINT", "REASON", "AGE", "+EUR/H", "+INSTANCE", "+PLACEMENT", "+LABELS", "+UID")...)
		for _, r := range rows {
			lead = nil
			if all {
				lead = []string{r.Namespace}
			}
			t.row(append(lead, r.Name, r.provider, string(r.Phase), yesNo(r.Healthy), endpoint(r.IP, r.Port), r.Reason, a.since(r.CreatedAt),
				priceText(r.Price), string(r.InstanceID), placementText(r), labelText(r.Labels), r.UID)...)
		}
		return t.write(w)
	})
}

// documents asks each proxy for its document. One that ended meanwhile is left
// out.
func (s *session) documents(ctx context.Context, rows []listedRow) (proxyList, error) {
	found := make([]*api.Proxy, len(rows))
	index := make([]int, len(rows))
	for i := range index {
		index[i] = i
	}
	err := each(ctx, index, func(ctx context.Context, i int) error {
		p, err := s.status(ctx, object{rows[i].Namespace, rows[i].Name})
		if codeOf(err) == ExitNotFound {
			return nil
		}
		if err == nil {
			found[i] = &p
		}
		return err
	})
	list := proxyList{APIVersion: api.APIVersion, Kind: kindProxyList, Items: []api.Proxy{}}
	for _, p := range found {
		if p != nil {
			list.Items = append(list.Items, *p)
		}
	}
	return list, err
}

// priceText shows an amount without the zeros at its end.
func priceText(m *provider.MicroEUR) string {
	if m == nil {
		return ""
	}
	return strings.TrimSuffix(strings.TrimRight(m.String(), "0"), ".")
}

func placementText(r listedRow) string {
	var parts []string
	for _, v := range []string{r.Placement.Region, r.Placement.Zone, r.Placement.MachineType, r.Placement.Image} {
		if v != "" {
			parts = append(parts, v)
		}
	}
	return strings.Join(parts, "/")
}

func labelText(labels map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, k+"="+labels[k])
	}
	return strings.Join(parts, ",")
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
