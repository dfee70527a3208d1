package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// annotationTemporal holds a command's equivalent lines of the temporal CLI.
const annotationTemporal = "temporal"

// NewRoot builds the whole command tree, for documentation.
func NewRoot(env Env) *cobra.Command { return newApp(env).root() }

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "tollgate",
		Short: "Egress proxies as durable workflows",
		Long: "tollgate creates, shows, changes and deletes egress proxies. Each proxy is a\n" +
			"workflow at Temporal; this command line starts, signals, updates and queries it,\n" +
			"and keeps no state of its own.\n\n" + exitHelp(),
		Example: "  tollgate proxy create demo --provider local --wait\n" +
			"  tollgate proxy list\n" +
			"  tollgate apply -f proxies.yaml --dry-run",
		SilenceErrors: true, SilenceUsage: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return a.check(cmd) },
		RunE:              groupRun,
		Args:              cobra.ArbitraryArgs,
	}
	root.SetIn(a.env.Stdin)
	root.SetOut(a.env.Stdout)
	root.SetErr(a.env.Stderr)
	root.SetFlagErrorFunc(flagError)
	root.SetUsageTemplate(usageTemplate)
	f := root.PersistentFlags()
	f.StringVar(&a.connect.Address, "address", "", "host:port of Temporal (default TEMPORAL_ADDRESS, the profile, or 127.0.0.1:7233)")
	f.StringVar(&a.connect.Namespace, "temporal-namespace", "", "Temporal namespace (default TEMPORAL_NAMESPACE, the profile, or default)")
	f.StringVar(&a.connect.Profile, "profile", "", "profile of temporal.toml (default TEMPORAL_PROFILE, or default)")
	f.StringVarP(&a.namespace, "namespace", "n", "", "Tollgate namespace of the proxies (default "+envNamespace+", or default)")
	f.VarP(&a.output, "output", "o", "output format")
	f.StringVar(&a.keyFileFlag, "codec-key-file", "", "key file of the payload codec (default "+envKeyFile+", or "+stateDir+"/"+devKeyFile+" here or in a directory above)")
	f.DurationVar(&a.timeout, "timeout", 0, fmt.Sprintf("how long the command may take (default %s, or %s when it waits)", callTimeout, waitTimeout))
	root.AddCommand(a.proxyCmd(), a.applyCmd(), a.fleetCmd(), a.providersCmd(), a.cursorCmd(), a.shootCmd(), a.inventoryCmd(), a.gcCmd(), a.reapCmd(), a.schedulesCmd(), a.keysCmd(), a.versionCmd())
	root.InitDefaultCompletionCmd()
	a.completions(root)
	return root
}

func exitHelp() string {
	var b strings.Builder
	b.WriteString("Exit codes:\n")
	for _, m := range exitMeanings {
		fmt.Fprintf(&b, "  %3d  %s\n", m.Code, m.Meaning)
	}
	return strings.TrimRight(b.String(), "\n")
}

// group makes a command that only holds others.
func group(use, short, long string, children ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Long: long, RunE: groupRun, Args: cobra.ArbitraryArgs}
	c.AddCommand(children...)
	return c
}

// groupRun shows the help of a group; a word that is none of its commands is an
// error that names the closest ones.
func groupRun(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	hint := ""
	cmd.SuggestionsMinimumDistance = 2
	if s := cmd.SuggestionsFor(args[0]); len(s) > 0 {
		hint = "did you mean " + cmd.CommandPath() + " " + s[0] + "?"
	}
	return fail(ExitUsage, hint, "%q is no command of %s: use %s", args[0], cmd.CommandPath(), orList(names))
}

// exactly checks the number of arguments and names what is missing.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return usage("%s: %s is required; usage: %s", cmd.CommandPath(), names[len(args)], useLine(cmd))
		case len(args) > len(names):
			return usage("%s: %q is one argument too many; usage: %s", cmd.CommandPath(), args[len(names)], useLine(cmd))
		}
		return nil
	}
}

// atLeastOne is exactly for commands that take several names.
func atLeastOne(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usage("%s: %s is required; usage: %s", cmd.CommandPath(), name, useLine(cmd))
		}
		return nil
	}
}

func useLine(cmd *cobra.Command) string { return strings.TrimSuffix(cmd.UseLine(), " [flags]") }

// flagError names the flag, the value and what is allowed.
func flagError(cmd *cobra.Command, err error) error {
	var value *pflag.InvalidValueError
	if !errors.As(err, &value) {
		return fail(ExitUsage, "see "+cmd.CommandPath()+" --help", "%v", err)
	}
	f := value.GetFlag()
	allowed := ""
	switch f.Value.Type() {
	case "duration":
		allowed = "use a number with a unit, such as 90s or 10m"
	case "bool":
		allowed = "use true or false"
	case "int":
		allowed = "use a whole number"
	default:
		allowed = value.Unwrap().Error()
	}
	return usage("--%s: %q is not allowed: %s", f.Name, value.GetValue(), allowed)
}

// required makes sure that flags are given.
func required(cmd *cobra.Command, names ...string) error {
	for _, n := range names {
		if f := cmd.Flags().Lookup(n); f == nil || f.Value.String() == "" || !f.Changed {
			return usage("%s: --%s is required", cmd.CommandPath(), n)
		}
	}
	return nil
}

// temporalLines is the annotation of a command's equivalent temporal lines.
func temporalLines(lines ...string) map[string]string {
	return map[string]string{annotationTemporal: "  " + strings.Join(lines, "\n  ")}
}

const usageTemplate = `Usage:{{if not .HasAvailableSubCommands}}
  {{.UseLine}}{{end}}{{if .HasAvailableSubCommands}}
  {{.CommandPath}} COMMAND{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{with index .Annotations "temporal"}}

The same without tollgate:
{{.}}{{end}}{{if .HasAvailableSubCommands}}

Commands:{{range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding }} {{.Short}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}{{if .HasAvailableInheritedFlags}}

Global flags:
{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}{{if .HasAvailableSubCommands}}

More about a command: {{.CommandPath}} COMMAND --help{{end}}
`
