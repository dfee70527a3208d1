package providertest

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

//go:generate go run ./gendoc -o ../../../docs/provider-contract.md

const pageIntro = `# The provider contract

<!-- Made by "go generate ./internal/provider/providertest" from the clauses, the axes and the table of
error classes. Do not edit. -->

A provider is one configured account or scope of a cloud; a driver is the Go package that serves all providers
of one type. This page says what a driver must do. Every rule is a numbered clause with the check that proves it,
in the package ` + "`internal/provider/providertest`" + `; every driver is run against all of them, and for every clause
there is a broken driver that proves that the check can fail. Clauses are only ever added.

How to write a driver is in [Adding a provider](adding-a-provider.md); what a driver's page has to say, too.

**Not goals.** A driver does not retry (Temporal does), wait for an instance to boot (workflows do), decide what to
delete (workflows do), know what runs inside an instance, or keep state of its own.

## Words

| word | meaning |
| --- | --- |
| instance | one VM-like thing that runs one proxy, named ` + "`proxy-`" + ` and 16 characters made from its owner's uid and a counter |
| companion | what a driver makes beside an instance and that can outlive it: an address, a port, a volume, a key |
| marks | what is written on an instance and its companions in the call that makes them: the managed mark, uid, installation, namespace, proxy, spec hash |
| owner | the proxy whose uid and installation the marks carry |
| installation | one Tollgate; several can share an account and never touch each other's instances |
| settle | how long after the end of a create its instance may still appear |

## States

| state | meaning | what a proxy does |
| --- | --- | --- |
| Provisioning | on its way: being built, booting, without an address yet, or in a state that the driver does not know | waits until the never-healthy deadline, then replaces it |
| Running | it runs and has an address | proves it with a CONNECT and serves |
| Stopped | it exists and will not run again by itself | replaces it |
| Terminated | it is being deleted; the name is still taken | replaces it, or waits for its end when deleting |

`

// WriteContract writes the contract page in Markdown.
func WriteContract(w io.Writer) error {
	var b strings.Builder
	b.WriteString(pageIntro)
	writeMarks(&b)
	writeClauses(&b)
	writeAxes(&b)
	writeClasses(&b)
	writeHooks(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

func writeMarks(b *strings.Builder) {
	b.WriteString("## Marks\n\nKeys as labels or tags; a backend with stricter rules maps them one to one and its page says how.\n\n| key | value |\n| --- | --- |\n")
	for _, row := range [][2]string{
		{provider.LabelManaged, "`" + provider.LabelManagedYes + "`: Tollgate made it, and may delete it"},
		{provider.LabelUID, "the owner's uid, fixed before its first create"},
		{provider.LabelInstallation, "the installation of the configuration"},
		{provider.LabelNamespace, "the owner's namespace"},
		{provider.LabelProxy, "the owner's name; with the namespace it gives the workflow id"},
		{provider.LabelSpecHash, "a keyed hash of the spec that the instance was made for"},
	} {
		fmt.Fprintf(b, "| `%s` | %s |\n", row[0], row[1])
	}
	b.WriteString("\n")
}

func writeClauses(b *strings.Builder) {
	b.WriteString("## Clauses\n\n")
	for _, section := range sections() {
		fmt.Fprintf(b, "### %s\n\n", section)
		for _, c := range Clauses() {
			if c.Section != section {
				continue
			}
			fmt.Fprintf(b, "**%s %s.** %s\\\n*Why:* %s", c.ID, c.Title, c.Rule, c.Why)
			if c.When != "" {
				fmt.Fprintf(b, "\\\n*Holds when* %s.", c.When)
			}
			if len(c.Needs) > 0 {
				names := make([]string, len(c.Needs))
				for i, h := range c.Needs {
					names[i] = "`" + string(h) + "`"
				}
				fmt.Fprintf(b, "\\\n*Checked with* %s.", strings.Join(names, ", "))
			}
			b.WriteString("\n\n")
		}
	}
}

func writeAxes(b *strings.Builder) {
	b.WriteString(`## Profile

A type answers every axis, in its ` + "`provider.Profile`" + ` and on its page. An answer picks one of the allowed ways to keep
the contract; none of them excuses from a clause. The kit and the tests of the type list check that the answers are
allowed, that they agree with each other and with the page, and that the harness has what they ask for.

| axis | question | answers |
| --- | --- | --- |
`)
	for _, a := range provider.Axes() {
		answers := make([]string, len(a.Values))
		for i, v := range a.Values {
			answers[i] = fmt.Sprintf("**%s**: %s", v.Value, v.Meaning)
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", a.Code, a.Question, strings.Join(answers, "<br>"))
	}
	b.WriteString(`
Beside the axes a profile has intervals: ` + "`ReadyPoll`" + ` and ` + "`GonePoll`" + ` (how often a new and a deleted instance is asked
for) and ` + "`Settle`" + `; ` + "`Surge`" + ` (two instances of one proxy can exist side by side) and ` + "`Isolated`" + ` (instances are reachable
from the worker's machine only).

`)
}

func writeClasses(b *strings.Builder) {
	b.WriteString(`## Errors

Every error of a method is built with ` + "`provider.Wrap`" + `: a class, the operation, the provider's configured name, the instance.
A driver has one function that classes the backend's answers. What is not classed is Transient. The class strings
are stored in workflow histories.

| class | what the driver asserts | Temporal | next try | what a proxy does |
| --- | --- | --- | --- | --- |
`)
	for _, r := range provider.ClassRules() {
		temporal, next := "retries the activity", "by backoff, or as long as the error asks"
		if r.NonRetryable {
			temporal, next = "hands it to the workflow", "after a change"
		}
		if r.Class == provider.NotFound {
			next = "none: it is an answer"
		}
		if r.Delay > 0 {
			next = "after " + shortDuration(r.Delay) + ", or as long as the error asks"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", r.Class, r.Meaning, temporal, next, r.Proxy)
	}
	b.WriteString(`
Reasons say more than the class where somebody acts on it:

| reason | class | meaning |
| --- | --- | --- |
`)
	for _, r := range [][3]string{
		{provider.ReasonUnauthorized, "Permanent", "credentials are missing, wrong or expired; nothing is known about the instance"},
		{provider.ReasonForbidden, "Permanent", "the credentials are good and lack the right"},
		{provider.ReasonInvalidSpec, "Permanent", "a value of the spec can never be satisfied; the text names field, value and what is allowed"},
		{provider.ReasonMalformedID, "Permanent", "the instance id is none of this provider's"},
		{provider.ReasonThrottled, "RateLimited", "our own request budget refused, before any call"},
	} {
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", r[0], r[1], r[2])
	}
	b.WriteString("\n")
}

func shortDuration(d time.Duration) string {
	if d%time.Minute == 0 {
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return fmt.Sprintf("%d s", d/time.Second)
}

func writeHooks(b *strings.Builder) {
	b.WriteString(`## The kit's hooks

A driver's contract test gives the kit a backend: a simulator or the real thing, to look at past the driver and to
break on demand. Abilities are small interfaces, each declared by the harness. Declaration, implementation and
profile have to agree (PC-01); there is no way to skip a clause. What applies and has no hook is reported as skipped,
and fails with ` + "`" + RequireEnv + "=all`" + `.

| hook | wanted when | clauses |
| --- | --- | --- |
`)
	for _, r := range hookRules() {
		var ids []string
		for _, c := range Clauses() {
			for _, h := range c.Needs {
				if h == r.hook {
					ids = append(ids, c.ID)
				}
			}
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", r.hook, r.when, strings.Join(ids, ", "))
	}
}
