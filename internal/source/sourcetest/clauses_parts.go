package sourcetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/source"
)

// Divided is a platform of parts, such as regions, that are read as one feed. Its
// other methods may do what they do in any of them.
type Divided interface {
	// Parts are the names of the parts as the source is configured with them, two or
	// more.
	Parts(tb testing.TB) []string
	// ChangeIn is Change in a part.
	ChangeIn(tb testing.TB, part string) []string
	// FailPart is Fail for the reads of one part: those of the others are not counted,
	// and do not fail.
	FailPart(tb testing.TB, part string, kind FaultKind, read int, echo string) (heal func())
	// HangPart is Hang for the reads of one part.
	HangPart(tb testing.TB, part string) (release func())
}

// faults are the faults that have a class, and the class.
func faults() map[FaultKind]provider.Class {
	return map[FaultKind]provider.Class{
		FaultUnauthorized: provider.Permanent, FaultThrottled: provider.RateLimited,
		FaultInternal: provider.Transient, FaultTruncated: provider.Transient,
	}
}

func partClauses() []Clause {
	return []Clause{
		{
			ID: "SC-26", Slug: "broken-part", Title: "A part that cannot be read holds up no other",
			Rule:  "While a part of the feed cannot be read, Next gives everything of the others, is caught up with them, and has the part in Broken, under its configured name, with the error that Next would give: of the right class, and without the credential. That also holds for several readers at once.",
			Why:   "An outage of one region must not stop the billing of the rest, and nobody repairs what is not named.",
			Needs: []Hook{HookParts},
			check: checkBrokenPart,
		},
		{
			ID: "SC-27", Slug: "part-resumes", Title: "A broken part stays where it was",
			Rule:  "What happened in a part before it broke, and while it was broken, is read once when it answers again, by a source that was built anew as well; whichever of its requests failed, in the middle of its pages too. What is unfinished in it stays pending.",
			Why:   "A part that goes on at its end has lost a time without a gap, and one that begins anew reads its past after every outage.",
			Needs: []Hook{HookParts},
			check: checkPartResumes,
		},
		{
			ID: "SC-28", Slug: "part-up-to", Title: "UpTo waits for a broken part",
			Rule:  "While a part is broken UpTo is not later than when that part was read last, and not later than its first change if it never was. It goes on when the part answers.",
			Why:   "What UpTo has passed is taken for complete: events of the broken part would come too late for those who conclude from it.",
			Needs: []Hook{HookParts},
			check: checkPartUpTo,
		},
		{
			ID: "SC-29", Slug: "no-part", Title: "A feed of which no part can be read is an error",
			Rule:  "When no part can be read Next gives an error of the right class and no page, also from the beginning; the same cursor can be read afterwards.",
			Why:   "A page that says of everything that it is broken is an outage that nobody retries.",
			Needs: []Hook{HookParts},
			check: checkNoPart,
		},
		{
			ID: "SC-30", Slug: "part-context", Title: "A cut-off read is no broken part",
			Rule:  "When its context ends while one part does not answer, Next returns promptly with a Transient error and no page, whatever it has read of the others. The same cursor can be read afterwards.",
			Why:   "A worker that stops would report an outage that there is not, and wait for the part that hangs.",
			Needs: []Hook{HookParts},
			check: checkPartContext,
		},
	}
}

// parts are the parts of the platform.
func (e *env) parts() (Divided, []string) {
	e.Helper()
	d := e.b.(Divided)
	parts := d.Parts(e)
	if n := len(slices.Compact(slices.Sorted(slices.Values(parts)))); n < 2 || n != len(parts) {
		e.Fatalf("the parts of the platform are %q: want two or more", parts)
	}
	return d, parts
}

// changesIn makes n changes in each of these parts.
func (e *env) changesIn(n int, parts ...string) (ids []string) {
	e.Helper()
	for _, part := range parts {
		for range n {
			ids = append(ids, e.b.(Divided).ChangeIn(e, part)...)
		}
	}
	return ids
}

// whole drains until no part is broken, for as long as the kit's patience lasts: a
// source may leave a part alone that has just failed.
func (r *reader) whole() {
	r.e.Helper()
	deadline := time.Now().Add(r.e.h.Patience)
	for {
		r.drain()
		if len(r.last.Broken) == 0 {
			return
		}
		if time.Now().After(deadline) {
			r.e.Errorf("%q answers again, and is still broken: %v", r.last.Broken[0].Part, r.last.Broken[0].Err)
			return
		}
		r.e.pause()
	}
}

func checkBrokenPart(e *env) {
	d, parts := e.parts()
	r := e.reader()
	ids := e.changesIn(1, parts...)
	r.whole()
	for _, broken := range parts {
		others := without(parts, []string{broken})
		for kind, class := range faults() {
			heal := d.FailPart(e, broken, kind, 1, e.cred)
			ids = append(ids, e.changesIn(2, others...)...)
			r.until(ids)
			if m := r.missing(ids); len(m) > 0 {
				e.Errorf("while %q is broken with %s, %d events of the others are missing: %s", broken, kind, len(m), some(m))
			}
			if b := r.last.Broken; len(b) != 1 || b[0].Part != broken {
				e.Errorf("while %q fails with %s, broken are %+v", broken, kind, b)
			} else {
				e.wantClass(broken+" with "+string(kind), b[0].Err, class)
				e.wantQuiet("the error of a part", fmt.Sprintf("%v %+v", b[0].Err, b[0].Err))
			}
			heal()
			r.whole()
		}
		heal := d.FailPart(e, broken, FaultInternal, 1, "")
		s, alone := e.open(), e.reader()
		alone.drain()
		e.together(s, keys(alone.got))
		heal()
	}
	r.drain()
	r.want(ids, false)
	e.wantQuiet("the log", e.logs.String())
}

func checkPartResumes(e *env) {
	d, parts := e.parts()
	size := e.b.PageSize(e)
	r := e.reader()
	var ids []string
	for _, broken := range parts {
		others := without(parts, []string{broken})
		finish := func() []string { return nil }
		if s, ok := e.b.(Starter); ok {
			finish = s.Begin(e)
		}
		ids = append(ids, e.changesIn(size+1, broken)...)
		r.until(ids)
		pending := r.last.Pending
		ids = append(ids, e.changesIn(2*size+1, broken)...)
		r.page() // some of them
		for read := 1; read <= 2; read++ {
			heal := d.FailPart(e, broken, FaultInternal, read, "")
			ids = append(ids, e.changesIn(1, parts...)...)
			for range 3 {
				if r.page(); r.last.Pending != pending {
					e.Errorf("%d entries pending while %q fails at its read %d, want %d", r.last.Pending, broken, read, pending)
				}
			}
			r.s = e.open()
			r.page()
			heal()
		}
		heal := d.FailPart(e, broken, FaultInternal, 1, "")
		ids = append(ids, finish()...)
		ids = append(ids, e.changesIn(1, others...)...)
		r.page()
		heal()
		r.s = e.open()
		r.until(ids)
	}
	r.whole()
	r.want(ids, true)
}

func checkPartUpTo(e *env) {
	d, parts := e.parts()
	for _, broken := range parts {
		r := e.reader()
		// before has the reader read while the part is broken since then.
		before := func(since time.Time, what string) {
			e.Helper()
			heal := d.FailPart(e, broken, FaultInternal, 1, "")
			e.changesIn(1, parts...)
			for range 2 {
				r.drain()
				if up := r.last.UpTo; up.After(since) {
					e.Errorf("up to %v while %q is broken, which %s %v", up, broken, what, since)
				}
				e.pause()
			}
			heal()
		}
		before(time.Now(), "was never read, and empty until")
		for range 2 {
			r.whole()
			since := time.Now()
			if up := r.last.UpTo; up.IsZero() || up.After(since) {
				e.Errorf("up to %v at %v, and no part is broken", up, since)
			}
			before(since, "was read last before")
			r.whole()
			if up := r.last.UpTo; !up.After(since) {
				e.Errorf("up to %v, although %q has answered since %v", up, broken, since)
			}
		}
	}
}

func checkNoPart(e *env) {
	d, parts := e.parts()
	ids := e.changesIn(2, parts...)
	r := e.reader()
	r.page()
	for kind, class := range faults() {
		var heal []func()
		for _, part := range parts {
			heal = append(heal, d.FailPart(e, part, kind, 1, ""))
		}
		for _, c := range []source.Cursor{"", r.c} {
			p, err := r.s.Next(e.ctx(), c)
			e.wantClass("next with "+string(kind)+" in all parts", err, class)
			if len(p.Items) > 0 || p.Next != "" || len(p.Broken) > 0 {
				e.Errorf("%d items, cursor %q and broken parts %+v beside the error", len(p.Items), p.Next, p.Broken)
			}
		}
		for _, f := range heal {
			f()
		}
	}
	r.until(ids)
	r.whole()
	r.want(ids, true)
}

func checkPartContext(e *env) {
	d, parts := e.parts()
	r := e.reader()
	ids := e.changesIn(1, parts...)
	for _, broken := range parts {
		release := d.HangPart(e, broken)
		ctx, cancel := context.WithTimeoutCause(e.ctx(), 50*time.Millisecond, errors.New("enough"))
		type result struct {
			page source.Page
			err  error
		}
		done := make(chan result, 1)
		go func() {
			p, err := r.s.Next(ctx, r.c)
			done <- result{p, err}
		}()
		var got result
		select {
		case got = <-done:
		case <-time.After(50*time.Millisecond + e.h.Prompt):
			e.Errorf("next did not return within %v of its deadline while %q hangs", e.h.Prompt, broken)
			release()
			got = <-done
		}
		release()
		cancel()
		e.wantClass("next with a deadline, while "+broken+" hangs", got.err, provider.Transient)
		if p := got.page; len(p.Items) > 0 || p.Next != "" || len(p.Broken) > 0 {
			e.Errorf("%d items, cursor %q and broken parts %+v of a read that was cut off", len(p.Items), p.Next, p.Broken)
		}
		ids = append(ids, e.changesIn(1, parts...)...)
		r.until(ids)
		r.whole()
	}
	r.want(ids, true)
}

func keys(m map[string]int) (out []string) {
	for k := range m {
		out = append(out, k)
	}
	return out
}
