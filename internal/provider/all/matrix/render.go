package matrix

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// The part of README.md that is made here.
const (
	begin = "<!-- providers: made by \"make docs\", do not edit -->\n"
	end   = "<!-- /providers -->\n"
)

const intro = `# Providers

<!-- Made by "go generate ./internal/provider/all/matrix" from the list of provider types. Do not edit. -->

What each type of provider can do. A type is one package, one line and one page; [adding a provider](../adding-a-provider.md) says
how, and [the contract](../provider-contract.md) what the words mean. All drivers pass the same conformance kit.

`

// Page renders docs/reference/providers.md.
func Page(rows []Row) []byte {
	var b bytes.Buffer
	b.WriteString(intro)
	overview(&b, rows, "../")
	b.WriteString(`
- **Health check**: the provider's account is checked every ` + "`health.interval`" + `, and its reasons say who repairs what.
- **Prices**: the backend says what an instance costs; where it does not, ` + "`prices`" + ` of the configuration does, for a ` + "`spendCap`" + `.
- **Companions**: what is made beside an instance is marked, listed, and swept when it outlives it.
- **Surge**: two instances of one proxy can exist side by side, so a replacement can be created before its predecessor is deleted.
- **Usage events**: a source of the same name reports what exists in the account.

## Tested against

| provider | what | by |
| --- | --- | --- |
`)
	for _, r := range rows {
		for _, t := range r.Tests {
			fmt.Fprintf(&b, "| %s | %s | `%s` |\n", r.Type.Name, t.What, t.By)
		}
	}
	b.WriteString("\n## Profiles\n\nThe answers of each type on every [axis](../provider-contract.md#profile) of the contract.\n\n| axis |")
	for _, r := range rows {
		fmt.Fprintf(&b, " [%s](../%s) |", r.Type.Name, r.page())
	}
	b.WriteString("\n| --- |" + strings.Repeat(" --- |", len(rows)) + "\n")
	line := func(name string, of func(provider.Profile) string) {
		fmt.Fprintf(&b, "| %s |", name)
		for _, r := range rows {
			fmt.Fprintf(&b, " %s |", of(r.Type.Profile))
		}
		b.WriteString("\n")
	}
	for _, a := range provider.Axes() {
		line(a.Code, a.Of)
	}
	every := func(d time.Duration) string { return strings.TrimSuffix(strings.TrimSuffix(d.String(), "0s"), "0m") }
	seconds := func(d time.Duration) string {
		if d < time.Minute {
			return d.String()
		}
		return every(d)
	}
	line("asked for while it boots, every", func(p provider.Profile) string { return seconds(p.ReadyPoll) })
	line("asked for while it is deleted, every", func(p provider.Profile) string { return seconds(p.GonePoll) })
	line("may appear after its create by", func(p provider.Profile) string { return seconds(p.Settle) })
	line("reachable from", func(p provider.Profile) string {
		if p.Isolated {
			return "the worker's machine only"
		}
		return "the network"
	})
	return b.Bytes()
}

// overview is the table of both places. docs is the way to the folder docs.
func overview(b *bytes.Buffer, rows []Row, docs string) {
	b.WriteString("| provider | instances are | health check | prices | companions | surge | usage events | tested against |\n" +
		"| --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, r := range rows {
		fmt.Fprintf(b, "| [%s](%s%s) | %s | %s | %s | %s | %s | %s | %s |\n", r.Type.Name, docs, r.page(), r.Type.Summary,
			yes(r.Checker), yes(r.Pricer), yes(r.Companions), yes(r.Type.Profile.Surge), yes(r.Events), r.tests())
	}
}

// Readme replaces the part of README.md that is made here.
func Readme(text []byte, rows []Row) ([]byte, error) {
	i, j := bytes.Index(text, []byte(begin)), bytes.Index(text, []byte(end))
	if i < 0 || j < i {
		return nil, fmt.Errorf("README.md lacks the lines %q and %q", strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	var b bytes.Buffer
	b.Write(text[:i])
	b.WriteString(begin)
	overview(&b, rows, "docs/")
	b.Write(text[j:])
	return b.Bytes(), nil
}
