package gardener

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/tollgate-dev/tollgate/internal/gardener"
)

// beyond is how much longer than a read a watch is asked for. API servers send a
// bookmark two seconds before its end: it comes when the read wants to know
// whether it has everything.
const beyond = 2 * time.Second

// watch reads what happened after the cursor's version. The page is caught up once
// it has come to the version newest, which the API server had when the reading
// began: only an event or a bookmark of it proves that nothing is missing.
func (r *reading) watch(ctx context.Context, newest string) error {
	c, err := r.s.conn.Client(ctx)
	if err != nil {
		return err
	}
	seconds := int64((r.s.o.Wait + beyond + time.Second - 1) / time.Second)
	// An API server that says nothing, not even that it has ended the watch, holds
	// nobody up.
	wctx, cancel := context.WithTimeout(ctx, time.Duration(seconds)*time.Second+r.s.o.CallTimeout)
	defer cancel()
	w, err := c.Shoots(r.s.o.Namespace).Watch(wctx, metav1.ListOptions{ResourceVersion: r.Version, AllowWatchBookmarks: true, TimeoutSeconds: &seconds})
	switch {
	case gardener.IsExpired(err):
		return errExpired
	case err != nil:
		return err
	}
	defer w.Stop()
	wait := time.NewTimer(r.s.o.Wait)
	defer wait.Stop()
	waiting := wait.C
	var settled <-chan time.Time
	for seen := 0; ; {
		caughtUp := !older(r.Version, newest)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-settled:
			r.out.CaughtUp = caughtUp
			return nil
		case <-waiting:
			if caughtUp {
				r.out.CaughtUp = true
				return nil
			}
			waiting = nil // the bookmark is to come
		case ev, open := <-w.ResultChan():
			if !open {
				return r.cutOff(ctx, caughtUp, seen, nil)
			}
			more, err := r.take(ev)
			if err != nil {
				return r.cutOff(ctx, caughtUp, seen, err)
			}
			if more {
				seen++
			}
			if seen >= r.s.pageSize {
				return nil
			}
			if seen > 0 && settled == nil {
				t := time.NewTimer(r.s.settle)
				defer t.Stop()
				settled = t.C
			}
		}
	}
}

// take takes in an event of the watch. more is false for one that says nothing
// new. An error is the end of the watch.
func (r *reading) take(ev watch.Event) (more bool, err error) {
	if ev.Type == watch.Error {
		return false, apierrors.FromObject(ev.Object)
	}
	s, ok := ev.Object.(*corev1beta1.Shoot)
	if !ok {
		return false, fmt.Errorf("the watch shows a %T", ev.Object)
	}
	if !older(r.Version, s.ResourceVersion) {
		return false, nil // shown already
	}
	r.Version = s.ResourceVersion
	if ev.Type == watch.Bookmark {
		return false, nil
	}
	st := observe(s)
	var was *state
	if before, had := r.shoots[st.uid]; had {
		was = &before
		if ev.Type != watch.Deleted && before.reported != nil && st.specAt.Before(before.specAt) && st.factAt.Before(before.specAt) {
			// More was reported than the cursor says: this is older.
			r.out.Ignored++
			return true, nil
		}
	}
	list := changes(was, st)
	switch ev.Type {
	case watch.Deleted:
		if st.created {
			list = append(list, ended(st, st.endedAt))
		}
		r.drop(st.uid)
	case watch.Added, watch.Modified:
		r.set(st)
	default:
		return false, fmt.Errorf("the watch has an event of type %q", ev.Type)
	}
	if len(list) == 0 {
		r.out.Ignored++
	}
	r.add(st, list)
	return true, nil
}

// errUnproved: a watch has shown nothing, and there was something, or may have
// been.
var errUnproved = errors.New("the watch ended before it had shown what happened")

// cutOff ends a watch that ended before it had proved anything. What it has shown
// counts. When it has shown nothing, a listing tells whether there was anything.
func (r *reading) cutOff(ctx context.Context, caughtUp bool, seen int, err error) error {
	switch {
	case gardener.IsExpired(err) && seen == 0:
		return errExpired
	case ctx.Err() != nil:
		return ctx.Err()
	case seen > 0, caughtUp && err == nil:
		r.out.CaughtUp = caughtUp
		return nil
	case err != nil && !brokenStream(err):
		return err
	case r.partial:
		return errors.Join(errUnproved, err)
	}
	shoots, at, lerr := r.s.list(ctx, "")
	if lerr != nil {
		return lerr
	}
	for uid, st := range shoots {
		if was, had := r.shoots[uid]; !had || was.version != st.version {
			return errors.Join(errUnproved, err)
		}
	}
	if len(shoots) != len(r.shoots) {
		return errors.Join(errUnproved, err)
	}
	r.Version, r.out.CaughtUp = at, true
	return nil
}

// brokenStream reports that a watch ended in the middle, by its connection and not
// by a word of the API server: client-go says so in this way.
func brokenStream(err error) bool { return apierrors.HasStatusCause(err, "ClientWatchDecoding") }
