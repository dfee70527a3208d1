package hetzner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
)

var (
	errClamped  = errors.New("the vendor gives smaller pages than it was asked for")
	errShifted  = errors.New("the list has shifted")
	errUnsteady = errors.New("the list of actions shifts faster than it can be read")
)

// References to what events come from.
const (
	refAction = "action/"
	refMade   = "made/"
)

func (r *reading) reject(id int64, reason string) {
	r.out.Rejected = append(r.out.Rejected, source.Rejection{Ref: source.Ref(refAction + strconv.FormatInt(id, 10)), Reason: reason})
}

// finish makes events of what has ended.
func (r *reading) finish(ctx context.Context, c source.Cursor) error {
	sz := r.s.sizer(c)
	if r.s.kind.silent && r.out.CaughtUp {
		if err := r.silentBegins(ctx, sz); err != nil {
			return err
		}
	}
	slices.SortFunc(r.ended, func(a, b *hcloud.Action) int {
		return cmp.Or(a.Finished.Compare(b.Finished), cmp.Compare(a.ID, b.ID))
	})
	changes := make([]change, 0, len(r.ended))
	for _, a := range r.ended {
		ch, what := r.s.change(a)
		switch {
		case what != "":
			r.reject(a.ID, what)
		case ch.verb == "", !r.Since.IsZero() && ch.at.Before(r.Since.Truncate(time.Second)):
			r.out.Ignored++
		default:
			changes = append(changes, ch)
		}
	}
	items, err := sz.items(ctx, changes, !r.out.CaughtUp)
	if err != nil {
		return err
	}
	r.out.Items = append(r.out.Items, items...)
	slices.SortStableFunc(r.out.Items, func(a, b source.Item) int { return a.Event.Time.Compare(b.Event.Time) })
	r.out.UpTo = r.Last.At
	if r.out.CaughtUp {
		r.AsOf, r.out.UpTo = r.begun, r.begun
		sz.warm(ctx)
	}
	r.out.Pending, r.out.Next = len(r.Open), r.encode()
	sz.commit(r.out.Next, r.out.CaughtUp)
	return nil
}

// change is an action that means something.
type change struct {
	action int64
	id     int64 // of the resource
	verb   string
	at     time.Time
}

// change reads an action. what says why it cannot be understood although it
// should; a change without a verb means nothing.
func (s *Source) change(a *hcloud.Action) (ch change, what string) {
	verb, known := s.kind.verbs[a.Command]
	if !known || a.Status == hcloud.ActionStatusError {
		return change{}, ""
	}
	if a.Status != hcloud.ActionStatusSuccess {
		return change{}, fmt.Sprintf("nobody knows the status %q", a.Status)
	}
	i := slices.IndexFunc(a.Resources, func(r *hcloud.ActionResource) bool { return r != nil && string(r.Type) == string(s.kind.Type) })
	if i < 0 || a.Resources[i].ID == 0 {
		return change{}, fmt.Sprintf("%s names no %s", a.Command, s.kind.Type)
	}
	at := a.Finished.UTC()
	if a.Finished.IsZero() {
		if at = a.Started.UTC(); a.Started.IsZero() {
			return change{}, a.Command + " has ended and says neither when it ended nor when it began"
		}
	}
	return change{action: a.ID, id: a.Resources[i].ID, verb: verb, at: at}, ""
}

func (ch change) change() string {
	switch ch.verb {
	case source.VerbCreate:
		return event.ChangeCreate
	case source.VerbDelete:
		return event.ChangeDelete
	}
	return event.Change("action", strconv.FormatInt(ch.action, 10))
}

// silentBegins finds the resources that began without an action.
func (r *reading) silentBegins(ctx context.Context, sz *sizer) error {
	made := r.Made
	for page := 1; ; page++ {
		list, resp, err := r.s.client.FloatingIP.List(ctx, hcloud.FloatingIPListOpts{
			ListOpts: hcloud.ListOpts{Page: page, PerPage: perPage}, Sort: []string{"id:desc"}})
		if err != nil {
			return err
		}
		for _, v := range list {
			if v.ID <= r.Made {
				r.Made = made
				return nil
			}
			made = max(made, v.ID)
			if id := event.ID(TypeName, r.s.account, r.s.resource(v.ID), event.ChangeCreate); v.Created.Before(r.Since.Truncate(time.Second)) ||
				slices.ContainsFunc(r.out.Items, func(i source.Item) bool { return i.Event.ID == id }) {
				continue
			}
			if v.Created.IsZero() {
				r.out.Rejected = append(r.out.Rejected, source.Rejection{
					Ref: source.Ref(refMade + strconv.FormatInt(v.ID, 10)), Reason: "the floating IP does not say when it was made"})
				continue
			}
			sz.put(v.ID, floatingState(v))
			r.out.Items = append(r.out.Items, r.s.made(v))
		}
		if resp.Meta.Pagination == nil || resp.Meta.Pagination.NextPage == 0 {
			r.Made = made
			return nil
		}
	}
}

func (s *Source) made(v *hcloud.FloatingIP) source.Item {
	st := floatingState(v)
	res := s.resource(v.ID)
	res.Name = st.name
	return source.Item{Ref: source.Ref(refMade + strconv.FormatInt(v.ID, 10)), Event: event.New(s.kind.EventType(source.VerbCreate), v.Created, event.Data{
		Platform: TypeName, Account: s.account, Resource: res, Change: event.ChangeCreate, Region: st.region,
		Size: st.size, UnknownSize: source.UnknownFields(TypeName, s.kind.Type, st.size),
	})}
}

// Seek implements source.Source. The list is found by the beginnings of actions,
// which no action outlasts for longer than two days.
func (s *Source) Seek(ctx context.Context, t time.Time) (source.Cursor, error) {
	ctx = provider.ContextWithOp(ctx, source.OpSeek)
	p, _ := s.decode(source.OpSeek, "")
	r := &reading{s: s, position: p, begun: s.now().UTC()}
	t = t.UTC()
	n, last, err := r.count(ctx, func(a *hcloud.Action) bool { return a.Started.Before(t.Add(-longest)) })
	if err != nil {
		return "", s.wrap(source.OpSeek, err)
	}
	r.Pos, r.Since, r.AsOf = n, t, r.begun
	if last == nil {
		return r.encode(), nil
	}
	r.Last, r.Floor = mark{last.ID, last.Started.UTC()}, last.ID
	// What began before and runs still.
	for page := 1; ; page++ {
		list, resp, err := s.kind.list(ctx, s.client, hcloud.ActionListOpts{
			ListOpts: hcloud.ListOpts{Page: page, PerPage: perPage}, Status: []hcloud.ActionStatus{hcloud.ActionStatusRunning}, Sort: []string{"id:asc"}})
		if err != nil {
			return "", s.wrap(source.OpSeek, err)
		}
		for _, a := range list {
			if a.ID <= r.Floor && len(r.Open) < maxOpen {
				r.Open = append(r.Open, a.ID)
			}
		}
		if resp.Meta.Pagination == nil || resp.Meta.Pagination.NextPage == 0 {
			return r.encode(), nil
		}
	}
}

// Derive implements source.Source.
func (s *Source) Derive(ctx context.Context, ref source.Ref) ([]source.Item, error) {
	ctx = provider.ContextWithOp(ctx, source.OpDerive)
	text := string(ref)
	kind := text[:strings.IndexByte(text, '/')+1]
	id, err := strconv.ParseInt(text[len(kind):], 10, 64)
	if err != nil || kind != refAction && !(kind == refMade && s.kind.silent) {
		return nil, source.BadCursor(source.OpDerive, s.name, fmt.Errorf("reference %q: want %s and a number", ref, refAction))
	}
	gone := provider.Wrap(provider.NotFound, source.OpDerive, s.name, text, errors.New("the vendor no longer has it"))
	if kind == refMade {
		v, _, err := s.client.FloatingIP.GetByID(ctx, id)
		switch {
		case err != nil:
			return nil, s.wrap(source.OpDerive, err)
		case v == nil:
			return nil, gone
		}
		return []source.Item{s.made(v)}, nil
	}
	list, _, err := s.client.Action.List(ctx, hcloud.ActionListOpts{ID: []int64{id}})
	switch {
	case err != nil:
		return nil, s.wrap(source.OpDerive, err)
	case len(list) == 0:
		return nil, gone
	case list[0].Status == hcloud.ActionStatusRunning:
		return nil, provider.Wrap(provider.Transient, source.OpDerive, s.name, text, errors.New("the action has not ended"))
	}
	ch, what := s.change(list[0])
	switch {
	case what != "":
		return nil, provider.Wrap(provider.Permanent, source.OpDerive, s.name, text, errors.New(what))
	case ch.verb == "":
		return nil, nil
	}
	items, err := s.sizer("").items(ctx, []change{ch}, false)
	if err != nil {
		return nil, s.wrap(source.OpDerive, err)
	}
	return items, nil
}
