package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// completionLimit bounds what a press of the tab key may take.
const completionLimit = 2 * time.Second

// completions teaches the shell the names of proxies and providers, which are
// asked of Temporal, and the values of flags.
func (a *app) completions(root *cobra.Command) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		group := ""
		if c.Parent() != nil {
			group = c.Parent().Name()
		}
		use := strings.Fields(c.Use)
		switch {
		case len(use) < 2 || c.Name() == "create":
		case group == "proxy":
			c.ValidArgsFunction = a.completeWith(completeProxies)
		case group == "cursor":
			c.ValidArgsFunction = a.completeWith(func(ctx context.Context, s *session, _ *app) ([]string, error) { return s.cursorNames(ctx) })
		case group == "shoot" && c.Name() != "list" && c.Name() != "register":
			c.ValidArgsFunction = a.completeWith(completeShoots)
		case group == "inventory":
			c.ValidArgsFunction = a.completeWith(func(ctx context.Context, s *session, _ *app) ([]string, error) { return s.sources(ctx) })
		case group == "providers", group == "fleet", group == "gc":
			c.ValidArgsFunction = a.completeWith(func(ctx context.Context, s *session, _ *app) ([]string, error) { return s.providers(ctx) })
		}
		if f := c.Flags().Lookup("provider"); f != nil {
			mustComplete(c, "provider", a.completeWith(func(ctx context.Context, s *session, _ *app) ([]string, error) { return s.providers(ctx) }))
		}
		for name, values := range map[string][]string{
			"replacement": {"Recreate", "CreateBeforeDelete"}, "phase": phases(),
		} {
			if c.Flags().Lookup(name) != nil {
				if group == "shoot" {
					values = shootPhases()
				}
				mustComplete(c, name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
			}
		}
		for _, child := range c.Commands() {
			walk(child)
		}
	}
	walk(root)
	mustComplete(root, "output", cobra.FixedCompletions(a.output.allowed, cobra.ShellCompDirectiveNoFileComp))
	mustComplete(root, "namespace", a.completeWith(completeNamespaces))
}

// mustComplete registers a completion for a flag that exists.
func mustComplete(c *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := c.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err)
	}
}

func completeShoots(ctx context.Context, s *session, _ *app) ([]string, error) {
	found, err := s.shoots(ctx, shootFilter{})
	var names []string
	for _, f := range found {
		names = append(names, f.project+"/"+f.name)
	}
	return slices.Compact(names), err
}

// completeWith asks Temporal; what goes wrong is only no completion.
func (a *app) completeWith(f func(context.Context, *session, *app) ([]string, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if a.check(cmd) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionLimit)
		defer cancel()
		opts := a.connect
		opts.KeyFile = a.keyFile()
		conn, err := a.env.Connect(ctx, opts)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer conn.Client.Close()
		s := &session{env: a.env, conn: conn, timeout: completionLimit, grace: completionLimit, pollEvery: a.pollEvery}
		words, _ := f(ctx, s, a) // what could be read is offered
		words = slices.DeleteFunc(words, func(w string) bool { return !strings.HasPrefix(w, typed) || slices.Contains(args, w) })
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

func completeProxies(ctx context.Context, s *session, a *app) ([]string, error) {
	rows, err := s.list(ctx, "", listFilter{namespace: a.namespace})
	names := make([]string, len(rows))
	for i, r := range rows {
		names[i] = r.Name
	}
	return names, err
}

func completeNamespaces(ctx context.Context, s *session, _ *app) ([]string, error) {
	rows, err := s.list(ctx, "", listFilter{})
	var names []string
	for _, r := range rows {
		names = append(names, r.Namespace)
	}
	slices.Sort(names)
	return slices.Compact(names), err
}
