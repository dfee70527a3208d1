package orphangc

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/tollgate-dev/tollgate/workflows/api"
	"github.com/tollgate-dev/tollgate/workflows/internal/words"
)

// shown is how many orphans the details list.
const shown = 25

func (s *sweep) step(step string) {
	s.Step = step
	s.show()
}

func (s *sweep) outcome(o api.SweepOutcome, format string, args ...any) {
	s.Status.Outcome, s.Status.Message = o, fmt.Sprintf(format, args...)
}

// failed is the outcome of a sighting that could not be made.
func (s *sweep) failed(err error) {
	if temporal.IsCanceledError(err) {
		s.outcome(api.SweepCanceled, "Canceled before anything was deleted.")
		return
	}
	class, text := words.Explain(err, "provider")
	s.outcome(api.SweepUnreadable, "Nothing was deleted, because %s could not be read: %s: %s.", s.Spec.Provider, class, sentence(text))
}

func (s *sweep) clean(second bool) {
	if second {
		s.outcome(api.SweepClean, "Nothing to delete: what looked like orphans is gone or owned.")
		return
	}
	s.outcome(api.SweepClean, "Nothing to delete.")
}

func (s *sweep) dryRun() {
	for i := range s.Status.Orphans {
		s.Status.Orphans[i].Action = api.OrphanWouldDelete
	}
	s.outcome(api.SweepDryRun, "This was a dry run: %s would be deleted.", words.Plural(s.Status.OrphanCount, "orphan"))
}

func (s *sweep) overCap() {
	s.outcome(api.SweepOverCap, "Nothing was deleted: there are %s, and the cap is %d. Look at them; if nobody owns them indeed, "+
		"sweep once with a larger cap: tollgate gc run --provider %s --cap %d",
		words.Plural(s.Status.OrphanCount, "orphan"), s.Spec.Cap, s.Spec.Provider, min(s.Status.OrphanCount, api.MaxOrphanCap))
}

func (s *sweep) show() { workflow.SetCurrentDetails(s.ctx, details(s.OrphanSweep)) }

// details is the summary of the run for the Temporal UI, in Markdown.
func details(s api.OrphanSweep) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	what := "Sweep"
	if s.Spec.DryRun {
		what = "Dry run"
	}
	line("**%s of %s**: %s", what, s.Spec.Provider, s.Step)
	line("")
	if s.Status.Outcome != "" {
		line("> **%s.** %s", s.Status.Outcome, s.Status.Message)
		line("")
	}
	line("- older than %s, confirmed after %s, at most %d", s.Spec.MinAge, s.Spec.ConfirmAfter, s.Spec.Cap)
	if s.Status.Verdicts != nil {
		line("- listed: %s, %s", words.Plural(s.Status.Instances, "instance"), words.Plural(s.Status.Companions, "companion"))
	}
	for _, reason := range slices.Sorted(maps.Keys(s.Status.Verdicts)) {
		line("- %s: %d", reason, s.Status.Verdicts[reason])
	}
	if len(s.Status.Orphans) == 0 {
		return b.String()
	}
	line("")
	line("Orphans:")
	line("")
	for _, o := range s.Status.Orphans[:min(len(s.Status.Orphans), shown)] {
		text := fmt.Sprintf("- %s `%s` of `%s/%s`: %s", o.Kind, name(o), o.Namespace, o.Proxy, o.Reason)
		if o.Action != "" {
			text += ", **" + string(o.Action) + "**"
		}
		if o.Message != "" {
			text += " (" + o.Message + ")"
		}
		line("%s", text)
	}
	if more := s.Status.OrphanCount - shown; more > 0 {
		line("- and %d more", more)
	}
	return b.String()
}
