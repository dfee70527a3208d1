package reaper

import (
	"fmt"
	"strings"
	"time"

	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// shown is how many instances the details list.
const shown = 25

// details is the summary of the run for the Temporal UI, in Markdown.
func details(r api.Reap) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	what := "Reaping"
	if r.Spec.DryRun {
		what = "Dry run of reaping"
	}
	line("**%s %s**: `%s` older than %s", what, r.Spec.Provider, workflows.SelectorText(r.Spec.Selector), r.Spec.OlderThan)
	line("")
	s := r.Status
	if s.Outcome == "" {
		line("- looking since %s", clock(s.StartedAt))
		return b.String()
	}
	line("> **%s.** %s", s.Outcome, s.Message)
	line("")
	line("- %d match, %d are old enough", s.Matched, s.Count)
	for _, i := range s.Reaped[:min(len(s.Reaped), shown)] {
		text := fmt.Sprintf("- `%s` of `%s/%s`, made %s: **%s**", i.Name, i.Namespace, i.Proxy, clock(i.CreatedAt), i.Action)
		if i.Owned {
			text += ", its proxy runs"
		}
		if i.Message != "" {
			text += " (" + i.Message + ")"
		}
		line("%s", text)
	}
	if more := s.Count - shown; more > 0 {
		line("- and %d more", more)
	}
	return b.String()
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }
