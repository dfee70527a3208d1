package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

func (a *app) proxyCreateCmd() *cobra.Command {
	var spec specFlags
	var wait, dryRun bool
	c := &cobra.Command{
		Use: "create NAME --provider PROVIDER", Short: "Create a proxy",
		Long: "Creates a proxy and returns once it is accepted; with --wait, once it serves. A\n" +
			"name that is in use is refused: use update or apply to change a proxy.\n\n" +
			"Secrets stand in the workers' configuration and are named here. Only --cloud-init\n" +
			"sends a value, encrypted, and is refused without the workers' key file.",
		Example: "  tollgate proxy create demo --provider local --wait\n" +
			"  tollgate proxy create demo -p hetzner --region fsn1 --machine-type cx23 --cloud-init-secret squid\n" +
			"  tollgate proxy create demo -p local --dry-run -o yaml > demo.yaml",
		Annotations: temporalLines(
			"temporal workflow start --type " + workflows.TypeProxy + " --task-queue " + workflows.TaskQueue + " --workflow-id proxy/default/demo \\\n" +
				"    --input '{\"spec\":{\"provider\":\"local\",\"cloudInit\":{\"secretRef\":\"squid\"}}}'"),
		Args: exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := a.objectArg(args[0])
			if err != nil {
				return err
			}
			if err := required(cmd, "provider"); err != nil {
				return err
			}
			p := api.Proxy{APIVersion: api.APIVersion, Kind: api.KindProxy, Metadata: api.Metadata{Name: o.name, Namespace: o.namespace}}
			if err := spec.edit(a, cmd.Flags(), &p); err != nil {
				return err
			}
			if err := a.validate(p); err != nil {
				return err
			}
			if dryRun {
				p.Spec = p.Spec.Redact()
				return a.print(p, func(w io.Writer, _ bool) error { return writeYAML(w, p) })
			}
			return a.connected(cmd, a.limit(wait), func(ctx context.Context, s *session) error {
				if err := s.start(ctx, o, p); err != nil {
					return err
				}
				a.say("%s: created", o)
				return a.settled(ctx, s, o, 1, wait)
			})
		},
	}
	spec.register(c.Flags(), false)
	c.Flags().BoolVarP(&wait, "wait", "w", false, "wait until the proxy serves, and show how it goes")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "print the document that would be created, and create nothing")
	return c
}

func (a *app) proxyUpdateCmd() *cobra.Command {
	var spec specFlags
	var wait, dryRun bool
	c := &cobra.Command{
		Use: "update NAME", Short: "Change a proxy",
		Long: "Changes the fields that are given and leaves the others. What the instance depends\n" +
			"on (port, placement, secrets) replaces it. An empty value takes a secret away:\n" +
			"--auth-secret ''. The provider cannot be changed.",
		Example: "  tollgate proxy update demo --port 3129 --wait\n" +
			"  tollgate proxy update demo --label team=web --label old-\n" +
			"  tollgate proxy update demo --replacement CreateBeforeDelete",
		Annotations: temporalLines(
			"temporal workflow update execute --workflow-id proxy/default/demo --name " + workflows.UpdateSetSpec + " \\\n" +
				"    --input '{\"spec\":{\"provider\":\"local\",\"port\":3129}}'   # the whole spec"),
		Args: exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := a.objectArg(args[0])
			if err != nil {
				return err
			}
			return a.connected(cmd, a.limit(wait), func(ctx context.Context, s *session) error {
				old, err := s.status(ctx, o)
				if err != nil {
					return err
				}
				wanted := old
				if err := spec.edit(a, cmd.Flags(), &wanted); err != nil {
					return err
				}
				if err := a.validate(wanted); err != nil {
					return err
				}
				out, err := s.change(ctx, o, old, wanted, false, dryRun)
				if err != nil {
					return err
				}
				a.tell(out)
				if dryRun {
					return a.printDocument([]outcome{out})
				}
				return a.settled(ctx, s, o, out.Generation, wait)
			})
		},
	}
	spec.register(c.Flags(), true)
	c.Flags().BoolVarP(&wait, "wait", "w", false, "wait until the proxy serves the changed spec, and show how it goes")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "print what would change, and change nothing")
	return c
}
