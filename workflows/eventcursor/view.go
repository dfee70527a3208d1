package eventcursor

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

func sprintf(format string, args ...any) string { return fmt.Sprintf(format, args...) }

func clock(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

func (c *cursor) view() api.Cursor {
	return api.Cursor{
		APIVersion: api.APIVersion, Kind: api.KindCursor,
		Metadata: api.Metadata{Name: c.source + "/" + c.stream, CreationTimestamp: c.CreatedAt},
		Spec:     api.CursorConfig{Sink: c.Config.Sink, Interval: api.Duration(c.interval()), ConfigHash: c.Config.ConfigHash}, Status: c.Status,
	}
}

// shown is what the search attributes say.
type shown struct {
	phase   api.CursorPhase
	reason  string
	gap     string
	letters int64
	upTo    time.Time
}

// showEvery is how often a time alone is worth a history event.
const showEvery = 10 * time.Minute

func shownOf(s api.CursorStatus) shown {
	out := shown{phase: s.Phase, reason: s.Reason, letters: int64(len(s.DeadLetters)), upTo: s.CaughtUpTo}
	if s.Dropped != nil {
		out.letters += s.Dropped.Count
	}
	if n := len(s.Gaps); n > 0 {
		out.gap = s.Gaps[n-1].String()
	}
	return out
}

// show keeps what people see up to date.
func (c *cursor) show() {
	workflow.SetCurrentDetails(c.ctx, details(c.view()))
	now, was := shownOf(c.Status), c.shown
	fresh := now.upTo.Sub(was.upTo) < showEvery && !now.upTo.Before(was.upTo)
	// Reading and CaughtUp take turns while things happen: that is one state.
	busy := func(p api.CursorPhase) bool { return p == api.CursorReading || p == api.CursorCaughtUp }
	if now.reason == was.reason && now.gap == was.gap && now.letters == was.letters && fresh &&
		(now.phase == was.phase || was.phase != "" && busy(now.phase) && busy(was.phase)) {
		return
	}
	c.shown = now
	set := []temporal.SearchAttributeUpdate{
		workflows.AttrPhase.ValueSet(string(now.phase)), workflows.AttrReason.ValueSet(now.reason),
		workflows.AttrHealthy.ValueSet(busy(now.phase)), workflows.AttrDeadLetters.ValueSet(now.letters),
	}
	if now.gap != "" {
		set = append(set, workflows.AttrGap.ValueSet(now.gap))
	}
	if !now.upTo.IsZero() {
		set = append(set, workflows.AttrCaughtUpTo.ValueSet(now.upTo), workflows.AttrLagSeconds.ValueSet(int64(c.Status.Lag.Std()/time.Second)))
	}
	if err := workflow.UpsertTypedSearchAttributes(c.ctx, set...); err != nil {
		c.log.Warn("search attributes not set", "error", err)
	}
}

// details is the summary of the run for the Temporal UI, in Markdown.
func details(v api.Cursor) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	s := v.Status
	line("**%s** to sink `%s`: %s since %s", v.Metadata.Name, v.Spec.Sink, s.Phase, clock(s.Since))
	line("")
	if s.Message != "" {
		line("> **%s.** %s", s.Reason, s.Message)
		line("")
	}
	for _, g := range s.Gaps {
		line("- **%s**: the source no longer had everything", g)
	}
	if n := len(s.DeadLetters); n > 0 {
		last := s.DeadLetters[n-1]
		line("- **%d dead letters**, the latest `%s`: %s", n, last.Ref, last.Reason)
	}
	if d := s.Dropped; d != nil {
		line("- **%d more dead letters** of %s to %s: backfill that time", d.Count, clock(d.From), clock(d.To))
	}
	if s.CaughtUpTo.IsZero() {
		line("- nothing read yet")
	} else {
		line("- caught up to %s, read at %s, %s behind", clock(s.CaughtUpTo), clock(s.ReadAt), s.Lag)
	}
	n := s.Counts
	line("- delivered %d, duplicates %d, rejected %d, of unknown size %d, not about usage %d, pending %d",
		n.Delivered, n.Duplicates, n.Rejected, n.UnknownSizes, n.Ignored, s.Pending)
	if f := s.Backfill; f != nil {
		how := "under way, up to " + clock(f.UpTo)
		if !f.Done.IsZero() {
			how = "done at " + clock(f.Done)
		}
		line("- backfill of %s to %s: %s, delivered %d, duplicates %d", clock(f.From), clock(f.To), how, f.Counts.Delivered, f.Counts.Duplicates)
	}
	return b.String()
}
