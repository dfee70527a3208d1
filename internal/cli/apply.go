package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/tollgate-dev/tollgate/workflows/api"
)

func (a *app) applyCmd() *cobra.Command {
	var files []string
	var recursive, wait, dryRun bool
	c := &cobra.Command{
		Use: "apply -f FILE", Short: "Make proxies what documents say",
		Long: "Creates the proxies that do not exist and changes those that differ, and prints what\n" +
			"differs. Applying the same documents again changes nothing. All documents are\n" +
			"checked before anything is changed.\n\n" +
			"A file may hold several documents, each a Proxy or a ProxyList. Of a directory the\n" +
			".yaml, .yml and .json files are read. Without metadata.labels the labels stay as\n" +
			"they are. An inline secret shown as " + api.RedactedInline + " keeps its value.",
		Example: "  tollgate apply -f proxies.yaml --dry-run\n" +
			"  tollgate apply -f proxies/ --wait\n" +
			"  tollgate proxy get demo -o yaml | sed 's/port: 3128/port: 3129/' | tollgate apply -f -",
		Annotations: temporalLines("temporal workflow start ... or temporal workflow update execute ..., as with proxy create and proxy update"),
		Args:        exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := required(cmd, "filename"); err != nil {
				return err
			}
			all, err := a.manifests(files, recursive)
			if err != nil {
				return err
			}
			return a.connected(cmd, a.limit(wait), func(ctx context.Context, s *session) error {
				return a.apply(ctx, s, all, wait, dryRun)
			})
		},
	}
	c.Flags().StringArrayVarP(&files, "filename", "f", nil, "`file` or directory with documents, - for standard input; may be repeated (required)")
	c.Flags().BoolVarP(&recursive, "recursive", "R", false, "read directories below too")
	c.Flags().BoolVarP(&wait, "wait", "w", false, "wait until all of them serve, and show how it goes")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "print what would change, and change nothing")
	return c
}

// apply goes through the documents in their order, and on after a failure; then
// it waits for all that worked.
func (a *app) apply(ctx context.Context, s *session, all []manifest, wait, dryRun bool) error {
	done := []outcome{}
	var errs []error
	for _, m := range all {
		out, err := s.apply(ctx, m, dryRun)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		a.tell(out)
		done = append(done, out)
	}
	if wait && !dryRun {
		show := a.progress(len(done))
		errs = append(errs, each(ctx, done, func(ctx context.Context, x outcome) error {
			p, err := s.waitServing(ctx, x.object(), x.Generation, show)
			if err == nil {
				a.say("%s: serves at %s", x.object(), endpoint(p.Status.IP, p.Status.Port))
			}
			return err
		}))
		show.done()
	}
	return errors.Join(append(errs, a.printDocument(done))...)
}

// apply makes one proxy what its document says.
func (s *session) apply(ctx context.Context, m manifest, dryRun bool) (outcome, error) {
	old, err := s.status(ctx, m.object)
	if codeOf(err) == ExitNotFound {
		return s.applyNew(ctx, m, dryRun)
	}
	if err != nil {
		return outcome{}, err
	}
	if err := m.doc.Annotate(m.proxy.Spec.ValidateChange(old.Spec)); err != nil {
		return outcome{}, usageErr(err)
	}
	return s.change(ctx, m.object, old, m.proxy, m.proxy.Metadata.Labels == nil, dryRun)
}

func (s *session) applyNew(ctx context.Context, m manifest, dryRun bool) (outcome, error) {
	if c := m.proxy.Spec.CloudInit; c != nil && c.Inline == api.RedactedInline {
		return outcome{}, usageErr(m.doc.Errorf("spec.cloudInit.inline", "%q stands for a value, and %s does not exist: give the value, or a secretRef", api.RedactedInline, m.object))
	}
	out := outcome{Namespace: m.namespace, Name: m.name, Action: actionWouldCreate, Changes: additions(m.proxy)}
	if dryRun {
		return out, nil
	}
	out.Action, out.Generation = actionCreated, 1
	return out, s.start(ctx, m.object, m.proxy)
}
