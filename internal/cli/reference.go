package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

//go:generate go run ./gendoc

// environment is the one table of the variables that the command line reads.
var environment = []struct{ name, meaning string }{
	{"TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_API_KEY, TEMPORAL_TLS_*", "the connection, as for every Temporal client; the flags win"},
	{"TEMPORAL_CONFIG_FILE, TEMPORAL_PROFILE", "temporal.toml and the profile in it"},
	{envNamespace, "default of --namespace"},
	{envKeyFile, "default of --codec-key-file"},
	{envConfig, "default of schedules apply --config"},
	{"OTEL_EXPORTER_OTLP_ENDPOINT and the other OTEL_* variables", "where the trace of a command goes; none by default"},
	{"NO_COLOR", "progress in plain lines on a terminal, too"},
}

// Reference renders the reference of all commands as Markdown.
func Reference() string {
	root := NewRoot(Env{Getenv: func(string) string { return "" }})
	var b strings.Builder
	b.WriteString("# Command line reference\n\n" +
		"<!-- Made from the commands by `go run ./internal/cli/gendoc`. Do not edit. -->\n\n" +
		"`tollgate` starts, signals, updates and queries workflows. Everything it does can be done\n" +
		"with Temporal's own tools too: each command below names the line, and\n" +
		"[Tollgate without its command line](../how-to/temporal-cli.md) explains them.\n\n" +
		"## Exit codes\n\n| Code | Meaning |\n|---:|---|\n")
	for _, m := range exitMeanings {
		fmt.Fprintf(&b, "| %d | %s |\n", m.Code, m.Meaning)
	}
	b.WriteString("\n## Environment\n\n| Variable | Meaning |\n|---|---|\n")
	for _, e := range environment {
		fmt.Fprintf(&b, "| %s | %s |\n", codeWords(e.name), e.meaning)
	}
	b.WriteString("\n## Global flags\n\n")
	writeFlags(&b, root.PersistentFlags())
	b.WriteString("\n## Commands\n\n")
	var list, sections strings.Builder
	describeCommands(&list, &sections, root)
	b.WriteString(list.String() + sections.String())
	return b.String()
}

func describeCommands(list, sections *strings.Builder, c *cobra.Command) {
	for _, child := range c.Commands() {
		if !child.IsAvailableCommand() || child.Name() == "help" {
			continue
		}
		path := child.CommandPath()
		fmt.Fprintf(list, "- [`%s`](#%s): %s\n", path, strings.ReplaceAll(path, " ", "-"), child.Short)
		describeCommand(sections, child)
		if child.Name() != "completion" {
			describeCommands(list, sections, child)
		}
	}
}

func describeCommand(b *strings.Builder, c *cobra.Command) {
	fmt.Fprintf(b, "\n### %s\n\n", c.CommandPath())
	switch {
	case c.Name() == "completion":
		fmt.Fprintf(b, "%s. `tollgate completion bash --help` says how to load it; zsh, fish and powershell work alike.\n", c.Short)
		return
	case c.Long != "":
		b.WriteString(strings.TrimSpace(c.Long) + "\n")
	default:
		b.WriteString(c.Short + ".\n")
	}
	if c.HasAvailableSubCommands() {
		return
	}
	fmt.Fprintf(b, "\n```\n%s\n```\n", c.UseLine())
	if c.LocalNonPersistentFlags().HasAvailableFlags() {
		b.WriteString("\n")
		writeFlags(b, c.LocalNonPersistentFlags())
	}
	block := func(title, text string) {
		if text != "" {
			fmt.Fprintf(b, "\n%s\n\n```sh\n%s\n```\n", title, dedent(text))
		}
	}
	block("Examples:", c.Example)
	block("The same without tollgate:", c.Annotations[annotationTemporal])
}

func writeFlags(b *strings.Builder, fs *pflag.FlagSet) {
	b.WriteString("| Flag | Meaning |\n|---|---|\n")
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		kind, text := pflag.UnquoteUsage(f)
		name := "`--" + f.Name + "`"
		if kind != "" {
			name = "`--" + f.Name + " " + kind + "`"
		}
		if f.Shorthand != "" {
			name = "`-" + f.Shorthand + "`, " + name
		}
		zero := f.DefValue == "" || f.DefValue == "false" || f.DefValue == "[]" || f.DefValue == "0" || f.DefValue == "0s"
		if !zero && !strings.Contains(text, "default") {
			text += " (default " + f.DefValue + ")"
		}
		fmt.Fprintf(b, "| %s | %s |\n", strings.ReplaceAll(name, "|", "\\|"), strings.ReplaceAll(text, "|", "\\|"))
	})
}

// codeWords sets the words in capitals as code.
func codeWords(s string) string {
	words := strings.Split(s, " ")
	for i, w := range words {
		if bare := strings.TrimRight(w, ","); bare == strings.ToUpper(bare) {
			words[i] = "`" + bare + "`" + w[len(bare):]
		}
	}
	return strings.Join(words, " ")
}

func dedent(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimPrefix(l, "  ")
	}
	return strings.Join(lines, "\n")
}
