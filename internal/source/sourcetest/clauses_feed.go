package sourcetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/source"
)

func feedClauses() []Clause {
	return []Clause{
		{
			ID: "SC-10", Slug: "late-completion", Title: "What ends late is read when it ends",
			Rule:  "A change that is seen unfinished, and ends long after later changes were read, is read once, then, with the time of its end.",
			Why:   "Its number lies below everything that was read: a reader that only looks upwards never sees it end.",
			Needs: []Hook{HookBegin},
			check: func(e *env) {
				r := e.reader()
				finish := e.b.(Starter).Begin(e)
				ids := e.changes(2*e.b.PageSize(e) + 1)
				r.until(ids)
				if r.last.Pending != 1 {
					e.Errorf("%d entries pending, want the unfinished one", r.last.Pending)
				}
				r.want(ids, true)
				r.s = e.open()
				ids = append(ids, finish()...)
				r.until(ids)
				r.drain()
				r.want(ids, true)
				if r.last.Pending != 0 {
					e.Errorf("%d entries pending, want none", r.last.Pending)
				}
			},
		},
		{
			ID: "SC-11", Slug: "lost-unfinished", Title: "What vanishes unfinished is said",
			Rule:  "An unfinished change that the platform forgets is rejected with its reference, and no longer pending.",
			Why:   "Waiting for it for ever, and forgetting it in silence, are both wrong.",
			Needs: []Hook{HookBegin, HookLose},
			check: func(e *env) {
				r := e.reader()
				e.b.(Starter).Begin(e)
				ids := e.changes(1)
				r.until(ids)
				e.b.(Loser).Lose(e)
				deadline := time.Now().Add(e.h.Patience)
				for len(r.rejected) == 0 && time.Now().Before(deadline) {
					r.drain()
					e.pause()
				}
				r.drain()
				if len(r.rejected) != 1 || r.rejected[0].Ref == "" || r.rejected[0].Reason == "" || r.last.Pending != 0 {
					e.Errorf("rejected %+v, %d pending: want one with reference and reason, none", r.rejected, r.last.Pending)
				}
				r.want(ids, true)
			},
		},
		{
			ID: "SC-12", Slug: "inserted", Title: "Entries that come between two pages push none out",
			Rule:  "Changes that happen between two reads of a feed, and in the middle of one, are read, and so is everything around them, each once.",
			Why:   "Pages by number shift when an entry is added: the reader sees one twice or not at all.",
			Needs: []Hook{HookDuring},
			check: func(e *env) {
				size := e.b.PageSize(e)
				ids := e.changes(3*size + 1)
				var mu sync.Mutex
				var during []string
				r := e.reader()
				for i := range maxPages {
					if i < 4 {
						e.b.(Interposer).During(e, func() {
							made := e.changes(2)
							mu.Lock()
							defer mu.Unlock()
							during = append(during, made...)
						})
					}
					p := r.page()
					if i < 4 {
						ids = append(ids, e.changes(1)...)
					} else if p.CaughtUp {
						break
					}
				}
				mu.Lock()
				defer mu.Unlock()
				ids = append(ids, during...)
				r.until(ids)
				r.drain()
				r.want(ids, true)
			},
		},
		{
			ID: "SC-13", Slug: "duplicates", Title: "An entry that is shown twice is one event",
			Rule:  "Entries that the feed shows more than once have one id.",
			Why:   "The platform's lists overlap; the receiver can only recognize what is the same.",
			Needs: []Hook{HookRepeat},
			check: func(e *env) {
				e.b.(Repeater).Repeat(e)
				ids := e.changes(2*e.b.PageSize(e) + 1)
				r := e.reader()
				r.until(ids)
				r.want(ids, false)
			},
		},
		{
			ID: "SC-14", Slug: "expired", Title: "A gap is said, and reading goes on",
			Rule:  "When the platform has forgotten entries that were never read, the next page says from when to when, and reading goes on with what there is.",
			Why:   "Silence would be taken for zero usage, and an error would stop the reading for good.",
			Needs: []Hook{HookForget},
			check: func(e *env) {
				old := e.changes(2)
				r := e.reader()
				r.until(old)
				r.drain()
				if len(r.gaps) > 0 {
					e.Errorf("gaps %v although nothing is missing", r.gaps)
				}
				e.changes(e.b.PageSize(e))
				e.b.(Forgetter).Forget(e)
				ids := e.changes(e.b.PageSize(e) + 1)
				r.until(ids)
				r.drain()
				r.want(append(old, ids...), true)
				if len(r.gaps) != 1 || r.gaps[0].From.IsZero() || !r.gaps[0].From.Before(r.gaps[0].To) {
					e.Errorf("gaps %v, want one with its beginning before its end", r.gaps)
				}
			},
		},
		{
			ID: "SC-15", Slug: "poison", Title: "A bad entry holds up nobody",
			Rule:  "An entry of which no event can be made is rejected once, with its reference and a reason; all others are read.",
			Why:   "One entry that nobody foresaw must not stop the billing of the rest.",
			Needs: []Hook{HookPoison},
			check: func(e *env) {
				ids := e.changes(1)
				e.b.(Poisoner).Poison(e)
				ids = append(ids, e.changes(e.b.PageSize(e))...)
				r := e.reader()
				r.until(ids)
				r.drain()
				r.want(ids, true)
				if len(r.rejected) != 1 || r.rejected[0].Ref == "" || r.rejected[0].Reason == "" {
					e.Errorf("rejected %+v, want one with reference and reason", r.rejected)
				}
			},
		},
		{
			ID: "SC-16", Slug: "clock-skew", Title: "The platform's clock may be wrong",
			Rule:  "With the platform's clock hours ahead of or behind ours, every event is read once, and no gap is seen.",
			Why:   "Two clocks are never the same; a reader that filters one's times by the other's loses what lies between.",
			Needs: []Hook{HookSkew, HookBegin},
			check: func(e *env) {
				r := e.reader()
				var ids []string
				for _, d := range []time.Duration{0, 3 * time.Hour, -2 * time.Hour} {
					e.b.(Skewer).Skew(e, d)
					finish := e.b.(Starter).Begin(e)
					ids = append(ids, e.changes(e.b.PageSize(e)+1)...)
					r.until(ids)
					ids = append(ids, finish()...)
					r.until(ids)
				}
				r.drain()
				r.want(ids, true)
				if len(r.gaps) > 0 {
					e.Errorf("gaps %v although nothing is missing", r.gaps)
				}
			},
		},
	}
}

func errorClauses() []Clause {
	return []Clause{
		{
			ID: "SC-17", Slug: "errors", Title: "Failures are classed and cost nothing",
			Rule:  "A read that fails gives an error of the right class and no page, at whichever of its requests it fails; the same cursor can be read afterwards.",
			Why:   "A failed listing that is taken for a short one skips what it did not show.",
			Needs: []Hook{HookFail},
			check: func(e *env) {
				ids := e.changes(2*e.b.PageSize(e) + 1)
				r := e.reader()
				r.page()
				for kind, class := range map[FaultKind]provider.Class{
					FaultUnauthorized: provider.Permanent, FaultThrottled: provider.RateLimited,
					FaultInternal: provider.Transient, FaultTruncated: provider.Transient,
				} {
					heal := e.b.(Faulter).Fail(e, kind, 1, "")
					p, err := r.s.Next(e.ctx(), r.c)
					e.wantClass("next with "+string(kind), err, class)
					if len(p.Items) > 0 || p.Next != "" {
						e.Errorf("%d items and cursor %q beside the error", len(p.Items), p.Next)
					}
					heal()
					// A read of several requests that fails at the second.
					heal = e.b.(Faulter).Fail(e, kind, 2, "")
					if p, err := r.s.Next(e.ctx(), r.c); err != nil && (len(p.Items) > 0 || p.Next != "") {
						e.Errorf("%d items and cursor %q beside the error", len(p.Items), p.Next)
					} else if err == nil {
						r.take(p)
						r.c = p.Next
					}
					heal()
				}
				r.until(ids)
				r.want(ids, true)
			},
		},
		{
			ID: "SC-18", Slug: "context", Title: "A cut-off read returns",
			Rule:  "Next returns promptly once its context has ended, with a Transient error, and the same cursor can be read afterwards.",
			Why:   "A worker that stops waits for its activities.",
			Needs: []Hook{HookHang},
			check: func(e *env) {
				ids := e.changes(1)
				release := e.b.(Hanger).Hang(e)
				r := e.reader()
				ctx, cancel := context.WithTimeoutCause(e.ctx(), 20*time.Millisecond, errors.New("enough"))
				defer cancel()
				done := make(chan error, 1)
				go func() {
					_, err := r.s.Next(ctx, "")
					done <- err
				}()
				select {
				case err := <-done:
					e.wantClass("next with a deadline", err, provider.Transient)
				case <-time.After(20*time.Millisecond + e.h.Prompt):
					e.Errorf("next did not return within %v of its deadline", e.h.Prompt)
					release()
					<-done
				}
				release()
				r.until(ids)
				r.want(ids, true)
			},
		},
		{
			ID: "SC-19", Slug: "secrets", Title: "Credentials stay inside",
			Rule:  "Neither errors nor logs, cursors, references nor events hold the credential, also when the platform repeats it in its message.",
			Why:   "All of these are stored and shown.",
			Needs: []Hook{HookFail},
			check: func(e *env) {
				ids := e.changes(2)
				r := e.reader()
				r.until(ids)
				for _, kind := range []FaultKind{FaultUnauthorized, FaultThrottled, FaultInternal} {
					heal := e.b.(Faulter).Fail(e, kind, 1, e.cred)
					_, err := r.s.Next(e.ctx(), r.c)
					e.wantQuiet("the error for "+string(kind), fmt.Sprintf("%v %+v", err, err))
					heal()
				}
				e.wantQuiet("the cursor", string(r.c))
				e.wantQuiet("the page", fmt.Sprintf("%+v", r.last))
				e.wantQuiet("the log", e.logs.String())
			},
		},
		{
			ID: "SC-20", Slug: "concurrency", Title: "Reads may be concurrent",
			Rule: "A source may be read from several cursors at once.",
			Why:  "A backfill runs beside the reading.",
			check: func(e *env) {
				ids := e.changes(2*e.b.PageSize(e) + 1)
				e.together(e.open(), ids)
			},
		},
	}
}

// together reads a source from the beginning by several readers at once: each has to
// get exactly these events.
func (e *env) together(s source.Source, ids []string) {
	e.Helper()
	var wg sync.WaitGroup
	got := make([]map[string]bool, 4)
	errs := make([]error, len(got))
	for i := range got {
		wg.Go(func() {
			got[i] = map[string]bool{}
			var c source.Cursor
			for range maxPages {
				p, err := s.Next(e.ctx(), c)
				if err != nil {
					errs[i] = err
					return
				}
				for _, it := range p.Items {
					got[i][it.Event.ID] = true
				}
				if c = p.Next; p.CaughtUp {
					return
				}
			}
		})
	}
	wg.Wait()
	for i := range got {
		if errs[i] != nil || len(got[i]) != len(ids) {
			e.Errorf("reader %d: %d of %d events, %v", i, len(got[i]), len(ids), errs[i])
		}
	}
}
