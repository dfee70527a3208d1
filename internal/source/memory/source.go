package memory

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
)

// MaxPending is the most unfinished entries that a cursor holds. With as many,
// reading goes no further until some are finished.
const MaxPending = 100

// Source reads a Feed. It is safe for concurrent use.
type Source struct {
	name, account string
	// region is the part of a feed that this is, "" for one that has no parts.
	region string
	feed   *Feed
}

var (
	_ source.Source    = (*Source)(nil)
	_ source.Lister    = (*Source)(nil)
	_ source.Confirmer = (*Source)(nil)
)

// New returns a source of that configured name over a feed, in events of that
// account.
func New(name, account string, f *Feed) *Source {
	return &Source{name: name, account: account, feed: f}
}

// Type is a type whose sources all read the feed.
func Type(f *Feed) source.Type {
	return source.Type{
		Name: TypeName, Summary: "a feed in memory, for tests", Kinds: []source.Kind{Kind()},
		New: func(_ context.Context, cfg source.Config) ([]source.Stream, error) {
			return []source.Stream{{Name: string(Kind().Type), Source: New(cfg.Name, cfg.Account, f)}}, nil
		},
	}
}

// position is what a cursor holds.
type position struct {
	// After is the last entry that was read; Pending are those before it that were
	// not finished then.
	After   int64     `json:"after"`
	Pending []int64   `json:"pending,omitempty"`
	Last    time.Time `json:"last,omitzero"`
}

// Next implements source.Source.
func (s *Source) Next(ctx context.Context, c source.Cursor) (source.Page, error) {
	var p position
	if err := source.DecodeCursor(source.OpNext, s.name, c, &p); err != nil {
		return source.Page{}, err
	}
	begun := s.feed.now()
	old, fresh, more, oldest, err := s.feed.read(ctx, p.Pending, p.After)
	if err != nil {
		return source.Page{}, s.wrap(source.OpNext, err)
	}
	var out source.Page
	// Everything that was read has been forgotten, and something may have been
	// forgotten before it was read.
	if p.After > 0 && oldest.ID > p.After+1 && len(old) == 0 {
		out.Gap = &source.Gap{From: p.Last, To: oldest.Started}
	}
	next := position{After: p.After, Last: p.Last}
	for _, id := range p.Pending {
		if !slices.ContainsFunc(old, func(e Entry) bool { return e.ID == id }) {
			out.Rejected = append(out.Rejected, source.Rejection{Ref: ref(id), Reason: "the entry was forgotten before it was finished"})
		}
	}
	for _, e := range append(old, fresh...) {
		if slices.Contains(next.Pending, e.ID) {
			continue // shown twice
		}
		if e.Finished.IsZero() {
			if len(next.Pending) == MaxPending {
				more = true
				break
			}
			next.Pending = append(next.Pending, e.ID)
		} else if item, err := s.item(e); err != nil {
			out.Rejected = append(out.Rejected, source.Rejection{Ref: ref(e.ID), Reason: err.Error()})
		} else {
			out.Items = append(out.Items, item)
		}
		next.After = max(next.After, e.ID)
		if e.Started.After(next.Last) {
			next.Last = e.Started
		}
	}
	out.Next, out.Pending, out.CaughtUp, out.UpTo = source.EncodeCursor(next), len(next.Pending), !more, next.Last
	if !more {
		out.UpTo = begun
	}
	return out, nil
}

// Seek implements source.Source.
func (s *Source) Seek(ctx context.Context, t time.Time) (source.Cursor, error) {
	after, err := s.feed.seek(ctx, t)
	if err != nil {
		return "", s.wrap(source.OpSeek, err)
	}
	return source.EncodeCursor(position{After: after, Last: t.UTC()}), nil
}

// Derive implements source.Source.
func (s *Source) Derive(ctx context.Context, r source.Ref) ([]source.Item, error) {
	id, err := strconv.ParseInt(string(r), 10, 64)
	if err != nil {
		return nil, source.BadCursor(source.OpDerive, s.name, err)
	}
	e, err := s.feed.find(ctx, id)
	if err != nil {
		return nil, s.wrap(source.OpDerive, err)
	}
	item, err := s.item(e)
	if err != nil {
		return nil, s.wrap(source.OpDerive, provider.Wrap(provider.Permanent, source.OpDerive, s.name, string(r), err))
	}
	return []source.Item{item}, nil
}

// List implements source.Lister.
func (s *Source) List(ctx context.Context) (source.Snapshot, error) {
	out := source.Snapshot{At: time.Now().UTC()}
	for after, more := int64(0), true; more; {
		var page []thing
		var err error
		if page, more, err = s.feed.list(ctx, after); err != nil {
			return source.Snapshot{}, s.wrap(source.OpList, err)
		}
		for _, t := range page {
			after = t.seq
			x := source.Existing{Account: s.account, Region: s.region, Resource: event.Resource{Type: Kind().Type, ID: t.name}}
			if !t.odd {
				x.CreatedAt, x.Size = t.made, event.Size{"units": event.Int(t.units)}
			}
			out.Resources = append(out.Resources, x)
		}
	}
	return out, nil
}

// Gone implements source.Confirmer. Only the feed's own word that there is no such
// thing counts.
func (s *Source) Gone(ctx context.Context, account, region string, r event.Resource) (bool, error) {
	if region != "" && region != s.region {
		return false, provider.Wrap(provider.Permanent, source.OpGone, s.name, r.ID, fmt.Errorf("region %q: want %q", region, s.region))
	}
	there, err := s.feed.look(ctx, r.ID)
	if err != nil {
		return false, s.wrap(source.OpGone, err)
	}
	return !there || account != s.account, nil
}

// wrap classes a failure. The platform's message is left out: it may repeat what
// it was sent, the credential included.
func (s *Source) wrap(op provider.Op, err error) error {
	var classed *provider.Error
	if errors.As(err, &classed) {
		e := *classed
		e.Op, e.Provider = op, s.name
		return &e
	}
	class := provider.Transient
	var api *APIError
	if errors.As(err, &api) {
		err = fmt.Errorf("the feed answered with status %d", api.Status)
		switch api.Status {
		case http.StatusUnauthorized:
			class = provider.Permanent
		case http.StatusTooManyRequests:
			class = provider.RateLimited
		}
	}
	return provider.Wrap(class, op, s.name, "", err)
}

func ref(id int64) source.Ref { return source.Ref(strconv.FormatInt(id, 10)) }

func (s *Source) item(e Entry) (source.Item, error) {
	k := Kind()
	if !slices.Contains(k.Verbs, e.Verb) {
		return source.Item{}, fmt.Errorf("entry %d: nobody knows what %q means", e.ID, e.Verb)
	}
	return source.Item{Ref: ref(e.ID), Event: event.New(k.EventType(e.Verb), e.Finished, event.Data{
		Platform: TypeName, Account: s.account, Resource: e.resource(), Change: e.change(), Region: s.region,
		Size: event.Size{"units": event.Int(e.Units)}, Sequence: e.ID,
	})}, nil
}
