package inventory

import (
	"fmt"
	"strings"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/tollgate-dev/tollgate/workflows/api"
	"github.com/tollgate-dev/tollgate/workflows/internal/words"
)

// shown is how many differences the details list.
const shown = 25

func (i *inventory) step(step string) {
	i.Step = step
	i.show()
}

func (i *inventory) outcome(o api.InventoryOutcome, format string, args ...any) {
	i.Status.Outcome, i.Status.Message = o, fmt.Sprintf(format, args...)
}

// failed is the outcome of a step that could not be made.
func (i *inventory) failed(err error) {
	if temporal.IsCanceledError(err) {
		i.outcome(api.InventoryCanceled, "Canceled before anything was concluded.")
		return
	}
	class, text := words.Explain(err, "source")
	i.outcome(api.InventoryUnreadable, "Nothing was concluded: %s: %s.", class, strings.TrimSuffix(text, "."))
}

// conclude sets the outcome of an inventory that came to its end.
func (i *inventory) conclude(actions map[api.DifferenceAction]int) {
	r := &i.Status
	compared, failed := 0, []string{}
	for _, s := range r.Streams {
		if s.Error != "" {
			failed = append(failed, s.Stream+": "+strings.TrimSuffix(s.Error, "."))
		} else {
			compared++
		}
	}
	what := words.Plural(r.Count, "difference") + counted(actions)
	if r.Count == 0 {
		what = "No difference in what could be compared"
	}
	switch {
	case len(failed) > 0 && compared == 0:
		i.outcome(api.InventoryUnreadable, "Nothing was concluded: %s.", strings.Join(failed, "; "))
	case len(failed) > 0:
		i.outcome(api.InventoryIncomplete, "%s. Not compared, and nothing concluded of it: %s.", what, strings.Join(failed, "; "))
	case actions[api.DifferenceHeld] > 0:
		i.outcome(api.InventoryHeld, "%s. Look at those that are held; the report says why.", what)
	case actions[api.DifferenceFailed]+actions[api.DifferenceRefused] > 0:
		i.outcome(api.InventoryIncomplete, "%s. The next inventory tries again.", what)
	case r.Count == 0:
		i.outcome(api.InventoryClean, "Everything agrees.")
	case i.Spec.DryRun:
		i.outcome(api.InventoryDryRun, "This was a dry run: %s.", what)
	case actions[api.DifferenceNone] > 0:
		i.outcome(api.InventoryDiffers, "%s.", what)
	default:
		i.outcome(api.InventoryRepaired, "%s.", what)
	}
}

// actionWords are the actions as the message counts them, in its order.
var actionWords = []struct {
	action api.DifferenceAction
	words  string
}{
	{api.DifferenceRepaired, "repaired"}, {api.DifferenceKnown, "known to the sink"}, {api.DifferenceWouldRepair, "to repair"},
	{api.DifferenceWaits, "left to the feed for now"}, {api.DifferenceHeld, "held"}, {api.DifferenceNone, "that no event repairs"},
	{api.DifferenceRefused, "refused by the sink"}, {api.DifferenceFailed, "not delivered"},
}

func counted(actions map[api.DifferenceAction]int) string {
	var parts []string
	for _, w := range actionWords {
		if n := actions[w.action]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, w.words))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}

func (i *inventory) show() { workflow.SetCurrentDetails(i.ctx, details(i.Inventory)) }

// details is the summary of the run for the Temporal UI, in Markdown.
func details(v api.Inventory) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	what := "Inventory"
	if v.Spec.DryRun {
		what = "Dry run"
	}
	line("**%s of %s**: %s", what, v.Spec.Source, v.Step)
	line("")
	if v.Status.Outcome != "" {
		line("> **%s.** %s", v.Status.Outcome, v.Status.Message)
		line("")
	}
	line("- to sink `%s`, confirmed after %s", v.Spec.Sink, v.Spec.ConfirmAfter)
	for _, s := range v.Status.Streams {
		line("- %s", s.Text())
	}
	if len(v.Status.Differences) == 0 {
		return b.String()
	}
	line("")
	for _, d := range v.Status.Differences[:min(len(v.Status.Differences), shown)] {
		text := fmt.Sprintf("- %s `%s/%s` %s: **%s**", d.Kind, d.Resource.Type, d.Resource.ID, d.Resource.Name, d.Action)
		if d.Message != "" {
			text += " (" + d.Message + ")"
		}
		line("%s", text)
	}
	if more := v.Status.Count - shown; more > 0 {
		line("- and %d more", more)
	}
	return b.String()
}
