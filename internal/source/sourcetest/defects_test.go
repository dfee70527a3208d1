package sourcetest_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
)

// defect is one way to break the source, and the clause that has to catch it.
type defect struct {
	clause, what string
	brk          func(m *mutant)
	// only means that no other clause is tripped.
	only bool
}

// at reads the number in a mutant's own cursor.
func at(c source.Cursor) int {
	n, _ := strconv.Atoi(string(c))
	return n
}

func transient(err error) error {
	return provider.Wrap(provider.Transient, source.OpNext, "m", "", err)
}

func defects() []defect {
	return []defect{
		{"SC-01", "an empty page is an error", func(m *mutant) {
			m.next = func(ctx context.Context, c source.Cursor) (source.Page, error) {
				p, err := m.Source.Next(ctx, c)
				if err == nil && c == "" && len(p.Items)+p.Pending == 0 {
					return source.Page{}, transient(errors.New("nothing there"))
				}
				return p, err
			}
		}, false},
		{"SC-02", "the last entry of a full page is skipped", func(m *mutant) {
			m.edit(func(p *source.Page) {
				if len(p.Items) == m.b.PageSize(nil) {
					p.Items = p.Items[:len(p.Items)-1]
				}
			})
		}, false},
		{"SC-02", "what was read is read for ever", func(m *mutant) {
			m.next = func(ctx context.Context, c source.Cursor) (source.Page, error) {
				p, err := m.Source.Next(ctx, c)
				if p.CaughtUp && len(p.Items) > 0 {
					p.Next = c
				}
				return p, err
			}
		}, false},
		{"SC-03", "the position is in the process", func(m *mutant) {
			var cursors []source.Cursor
			m.next = func(ctx context.Context, c source.Cursor) (source.Page, error) {
				m.turn.Lock()
				defer m.turn.Unlock()
				var from source.Cursor
				if n := at(c); n > 0 && n <= len(cursors) {
					from = cursors[n-1]
				}
				p, err := m.Source.Next(ctx, from)
				if err == nil {
					cursors = append(cursors, p.Next)
					p.Next = source.Cursor(strconv.Itoa(len(cursors)))
				}
				return p, err
			}
		}, false},
		{"SC-04", "every page is the last", func(m *mutant) { m.edit(func(p *source.Page) { p.CaughtUp = true }) }, false},
		{"SC-04", "caught up to tomorrow", func(m *mutant) {
			m.edit(func(p *source.Page) { p.UpTo = p.UpTo.Add(24 * time.Hour) })
		}, true},
		{"SC-05", "seek always finds the end", func(m *mutant) {
			m.seek = func() source.Cursor {
				var c source.Cursor
				for {
					p, err := m.Source.Next(context.Background(), c)
					if err != nil || p.CaughtUp {
						return p.Next
					}
					c = p.Next
				}
			}
		}, true},
		{"SC-06", "derive makes another id", func(m *mutant) {
			m.derive = func(ctx context.Context, r source.Ref) ([]source.Item, error) {
				items, err := m.Source.Derive(ctx, r)
				for i := range items {
					items[i].Event.ID += "-again"
				}
				return items, err
			}
		}, true},
		{"SC-07", "a strange cursor is the beginning", func(m *mutant) {
			m.next = func(ctx context.Context, c source.Cursor) (source.Page, error) {
				p, err := m.Source.Next(ctx, c)
				if provider.ReasonOf(err) == source.ReasonBadCursor {
					return m.Source.Next(ctx, "")
				}
				return p, err
			}
		}, true},
		{"SC-08", "reading uses entries up", func(m *mutant) {
			m.edit(func(p *source.Page) {
				var left []source.Item
				for _, i := range p.Items {
					if m.w.once(i.Event.ID) {
						left = append(left, i)
					}
				}
				p.Items = left
			})
		}, false},
		{"SC-09", "a crash skips a page", func(m *mutant) {
			fresh := true
			m.next = func(ctx context.Context, c source.Cursor) (source.Page, error) {
				m.turn.Lock()
				defer m.turn.Unlock()
				p, err := m.Source.Next(ctx, c)
				if fresh && c != "" && err == nil {
					p.Items = nil
				}
				fresh = false
				return p, err
			}
		}, false},
		{"SC-10", "a watermark and nothing more", func(m *mutant) {
			m.next = func(ctx context.Context, c source.Cursor) (source.Page, error) {
				type position struct {
					After int64     `json:"after"`
					Last  time.Time `json:"last,omitzero"`
				}
				var p position
				if err := source.DecodeCursor(source.OpNext, "m", c, &p); err != nil {
					return source.Page{}, err
				}
				if c != "" {
					c = source.EncodeCursor(p)
				}
				out, err := m.Source.Next(ctx, c)
				out.Pending = 0
				return out, err
			}
		}, false},
		{"SC-11", "what vanished is passed over in silence", func(m *mutant) {
			m.edit(func(p *source.Page) {
				kept := p.Rejected[:0]
				for _, r := range p.Rejected {
					if _, err := m.Source.Derive(context.Background(), r.Ref); err == nil || provider.ClassOf(err) != provider.NotFound {
						kept = append(kept, r)
					}
				}
				p.Rejected = kept
			})
		}, true},
		{"SC-12", "pages by number from the newest on", byOffset, false},
		{"SC-13", "an id for each sight", func(m *mutant) {
			m.edit(func(p *source.Page) {
				seen := map[string]bool{}
				for i := range p.Items {
					e := &p.Items[i].Event
					if seen[e.ID] {
						d := e.Data
						d.Change = event.Change("sight", strconv.Itoa(m.w.count()))
						*e = event.New(e.Type, e.Time, d)
					}
					seen[e.ID] = true
				}
			})
		}, true},
		{"SC-14", "a gap is passed over in silence", func(m *mutant) { m.edit(func(p *source.Page) { p.Gap = nil }) }, true},
		{"SC-15", "a bad entry stops everything", func(m *mutant) {
			m.next = func(ctx context.Context, c source.Cursor) (source.Page, error) {
				p, err := m.Source.Next(ctx, c)
				if err == nil && len(p.Rejected) > 0 && p.Rejected[0].Reason != "" {
					return source.Page{}, provider.Wrap(provider.Permanent, source.OpNext, "m", "", errors.New(p.Rejected[0].Reason))
				}
				return p, err
			}
		}, false},
		{"SC-16", "what happens in the future is left out", func(m *mutant) {
			m.edit(func(p *source.Page) {
				var past []source.Item
				for _, i := range p.Items {
					if time.Until(i.Event.Time) < time.Minute {
						past = append(past, i)
					}
				}
				p.Items = past
			})
		}, true},
		{"SC-17", "a failed read is an empty page", func(m *mutant) {
			m.next = func(ctx context.Context, c source.Cursor) (source.Page, error) {
				p, err := m.Source.Next(ctx, c)
				if provider.ClassOf(err) == provider.Transient && ctx.Err() == nil {
					return source.Page{Next: c, CaughtUp: true}, nil
				}
				return p, err
			}
		}, false},
		{"SC-17", "everything is transient", func(m *mutant) {
			m.next = func(ctx context.Context, c source.Cursor) (source.Page, error) {
				p, err := m.Source.Next(ctx, c)
				if err != nil && provider.ReasonOf(err) == "" {
					err = transient(err)
				}
				return p, err
			}
		}, true},
		{"SC-18", "the context is not passed on", func(m *mutant) {
			m.next = func(ctx context.Context, c source.Cursor) (source.Page, error) {
				return m.Source.Next(context.WithoutCancel(ctx), c)
			}
		}, true},
		{"SC-19", "the credential is in the error", func(m *mutant) {
			m.next = func(ctx context.Context, c source.Cursor) (source.Page, error) {
				p, err := m.Source.Next(ctx, c)
				if err != nil {
					err = provider.Wrap(provider.ClassOf(err), source.OpNext, "m", "",
						provider.WithReason(fmt.Errorf("%w, with token %s", err, m.opts.Credential.Reveal()), provider.ReasonOf(err)))
				}
				return p, err
			}
		}, false},
		{"SC-20", "readers share a position", func(m *mutant) {
			var here source.Cursor
			m.next = func(ctx context.Context, c source.Cursor) (source.Page, error) {
				m.turn.Lock()
				defer m.turn.Unlock()
				if here != "" {
					c = here
				}
				p, err := m.Source.Next(ctx, c)
				if err == nil {
					here = p.Next
				}
				return p, err
			}
		}, false},
	}
}

func (m *mutant) Seek(ctx context.Context, t time.Time) (source.Cursor, error) {
	if m.seek != nil {
		return m.seek(), nil
	}
	return m.Source.Seek(ctx, t)
}

// byOffset reads all entries there are anew and takes those behind an offset that
// is counted from the newest one: each new entry shifts all others.
func byOffset(m *mutant) {
	m.next = func(ctx context.Context, c source.Cursor) (source.Page, error) {
		type position struct {
			Top    string // the newest event of the last walk
			Walk   string // the newest event of this walk
			Offset int
		}
		var p position
		if err := source.DecodeCursor(source.OpNext, "m", c, &p); err != nil {
			return source.Page{}, err
		}
		page, err := m.Source.Next(ctx, "")
		all := page.Items
		for err == nil && !page.CaughtUp {
			page, err = m.Source.Next(ctx, page.Next)
			all = append(all, page.Items...)
		}
		if err != nil {
			return source.Page{}, err
		}
		out := source.Page{CaughtUp: true, UpTo: page.UpTo}
		size, n := m.b.PageSize(nil), 0
		for i := len(all) - 1 - p.Offset; i >= 0; i-- {
			if all[i].Event.ID == p.Top {
				break
			}
			if n == size {
				out.CaughtUp = false
				break
			}
			out.Items = append(out.Items, all[i])
			n++
		}
		if p.Offset == 0 && len(all) > 0 {
			p.Walk = all[len(all)-1].Event.ID
		}
		if p.Offset += n; out.CaughtUp {
			p = position{Top: p.Walk}
		}
		out.Next = source.EncodeCursor(p)
		return out, nil
	}
}
