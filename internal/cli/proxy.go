package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

func (a *app) proxyCmd() *cobra.Command {
	c := group("proxy", "Create, show, change and delete proxies",
		"A proxy is a workflow with the id proxy/NAMESPACE/NAME. It makes an instance at a\n"+
			"provider, proves it, replaces it when it dies or its spec changes, and deletes all\n"+
			"it made in the end.",
		a.proxyCreateCmd(), a.proxyGetCmd(), a.proxyListCmd(), a.proxyUpdateCmd(), a.proxyReplaceCmd(),
		a.proxyRetryCmd(), a.proxyDeleteCmd(), a.proxyHistoryCmd())
	c.Aliases = []string{"proxies"}
	return c
}

func endpoint(ip string, port int) string {
	if ip == "" {
		return ""
	}
	return net.JoinHostPort(ip, strconv.Itoa(port))
}

func (a *app) proxyGetCmd() *cobra.Command {
	return &cobra.Command{
		Use: "get NAME", Short: "Show a proxy",
		Long: "Shows a proxy: where it serves, and if it does not, why. With -o yaml the whole\n" +
			"document is printed, which can be edited and applied again: status and what the\n" +
			"server set are ignored then, and inline secrets, shown as " + api.RedactedInline + ", are kept.",
		Example: "  tollgate proxy get demo\n" +
			"  tollgate proxy get demo -o yaml > demo.yaml && vi demo.yaml && tollgate apply -f demo.yaml\n" +
			"  curl -x http://$(tollgate proxy get demo -o json | jq -r '.status | \"\\(.ip):\\(.port)\"') http://example.com",
		Annotations: temporalLines("temporal workflow query --workflow-id proxy/default/demo --name " + workflows.QueryStatus),
		Args:        exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := a.objectArg(args[0])
			if err != nil {
				return err
			}
			return a.connected(cmd, callTimeout, func(ctx context.Context, s *session) error {
				p, err := s.status(ctx, o)
				if err != nil {
					return err
				}
				return a.print(p, func(w io.Writer, wide bool) error { return a.writeProxy(w, p, wide) })
			})
		},
	}
}

// writeProxy describes one proxy for people.
func (a *app) writeProxy(w io.Writer, p api.Proxy, wide bool) error {
	m, st := p.Metadata, p.Status
	var lines [][2]string
	width := 0
	line := func(label, value string) {
		if value != "" {
			lines = append(lines, [2]string{label + ":", oneLine(value)})
			width = max(width, len(label)+1)
		}
	}
	line("Name", m.Namespace+"/"+m.Name)
	line("Provider", p.Spec.Provider)
	line("Phase", string(st.Phase))
	line("Endpoint", endpoint(st.IP, st.Port))
	line("Instance", string(st.InstanceID))
	line("Labels", labelText(m.Labels))
	line("Generation", generationText(p))
	if st.Replacements > 0 || st.LastReplacement != "" {
		line("Replacements", fmt.Sprintf("%d, last: %s", st.Replacements, orDash(st.LastReplacement)))
	}
	if !st.NextRetry.IsZero() {
		line("Next try", fmt.Sprintf("%s, in %s", formatTime(st.NextRetry), age(st.NextRetry.Sub(a.env.Now()))))
	}
	line("Created", fmt.Sprintf("%s, %s ago", formatTime(m.CreationTimestamp), a.since(m.CreationTimestamp)))
	if wide {
		line("UID", m.UID)
		line("Instance name", st.InstanceName)
		line("Spec hash", st.SpecHash)
		line("Workflow", workflows.ProxyID(m.Namespace, m.Name))
		spec := fields(p, true)
		for _, path := range slices.Sorted(maps.Keys(spec)) {
			if path != "spec.provider" {
				line(strings.TrimPrefix(path, "spec."), spec[path])
			}
		}
	}
	for _, l := range lines {
		fmt.Fprintf(w, "%-*s  %s\n", width, l[0], l[1])
	}
	fmt.Fprintln(w)
	var t table
	t.head("CONDITION", "STATUS", "REASON", "SINCE", "MESSAGE")
	for _, c := range st.Conditions {
		t.row(c.Type, string(c.Status), c.Reason, a.since(c.LastTransitionTime), c.Message)
	}
	return t.write(w)
}

func generationText(p api.Proxy) string {
	g := strconv.FormatInt(p.Metadata.Generation, 10)
	if p.Status.ObservedGeneration != p.Metadata.Generation {
		g += fmt.Sprintf(" (seen: %d)", p.Status.ObservedGeneration)
	}
	return g
}

func (a *app) proxyRetryCmd() *cobra.Command {
	return &cobra.Command{
		Use: "retry NAME...", Short: "Let waiting proxies try again now",
		Long: "Tells proxies that wait, or stand still after a permanent failure, to try again at\n" +
			"once. It does nothing to proxies that serve.",
		Example:     "  tollgate proxy retry demo",
		Annotations: temporalLines("temporal workflow signal --workflow-id proxy/default/demo --name " + workflows.SignalRetry),
		Args:        atLeastOne("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			objects, err := a.objects(args, nil)
			if err != nil {
				return err
			}
			return a.connected(cmd, callTimeout, func(ctx context.Context, s *session) error {
				return each(ctx, objects, func(ctx context.Context, o object) error {
					if err := s.updateEnded(ctx, o, s.conn.Client.SignalWorkflow(ctx, o.id(), "", workflows.SignalRetry, nil)); err != nil {
						return err
					}
					a.say("%s: told to try again", o)
					return nil
				})
			})
		},
	}
}
