package sourcetest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/internal/source/memory/memorytest"
)

// progress is what a cursor of the source in memory holds of a part.
type progress struct {
	Cursor  source.Cursor `json:"cursor"`
	UpTo    time.Time     `json:"upTo,omitzero"`
	Pending int           `json:"pending,omitempty"`
}

// editParts changes what a cursor holds of each part.
func editParts(c source.Cursor, f func(part string, at *progress) error) (source.Cursor, error) {
	var p struct {
		Parts map[string]progress `json:"parts"`
	}
	if err := source.DecodeCursor(source.OpNext, "m", c, &p); err != nil || c == "" {
		return c, err
	}
	for name, at := range p.Parts {
		if err := f(name, &at); err != nil {
			return c, err
		}
		p.Parts[name] = at
	}
	return source.EncodeCursor(p), nil
}

func isBroken(p *source.Page, part string) bool {
	return slices.ContainsFunc(p.Broken, func(b source.Broken) bool { return b.Part == part })
}

// editBroken changes every page on which a part is broken.
func (m *mutant) editBroken(f func(p *source.Page)) {
	m.edit(func(p *source.Page) {
		if len(p.Broken) > 0 {
			f(p)
		}
	})
}

// anew is a page whose cursor has the broken parts at their beginning.
func anew(p *source.Page) {
	p.Next, _ = editParts(p.Next, func(part string, at *progress) error {
		if isBroken(p, part) {
			at.Cursor = ""
		}
		return nil
	})
}

// oneBroken reports whether one part can be read and the other cannot.
func (m *mutant) oneBroken() bool {
	return m.b.Answers(memorytest.First) != m.b.Answers(memorytest.Second)
}

func partDefects() []defect {
	return []defect{
		{"SC-26", "a broken part is an error of the whole", func(m *mutant) {
			m.next = func(ctx context.Context, c source.Cursor) (source.Page, error) {
				p, err := m.Source.Next(ctx, c)
				if len(p.Broken) > 0 {
					return source.Page{}, p.Broken[0].Err
				}
				return p, err
			}
		}, false},
		{"SC-26", "a broken part is left out in silence", func(m *mutant) {
			m.editBroken(func(p *source.Page) { p.Broken = nil })
		}, true},
		{"SC-26", "parts are numbered", func(m *mutant) {
			m.editBroken(func(p *source.Page) {
				for i := range p.Broken {
					p.Broken[i].Part = fmt.Sprint(i)
				}
			})
		}, true},
		{"SC-26", "all that breaks a part is transient", func(m *mutant) {
			m.editBroken(func(p *source.Page) {
				for i := range p.Broken {
					p.Broken[i].Err = transient(p.Broken[i].Err)
				}
			})
		}, true},
		{"SC-26", "the credential is in the error of a part", func(m *mutant) {
			m.editBroken(func(p *source.Page) {
				for i, b := range p.Broken {
					p.Broken[i].Err = provider.Wrap(provider.ClassOf(b.Err), source.OpNext, "m", "", fmt.Errorf("%w, with token %s", b.Err, m.opts.Credential.Reveal()))
				}
			})
		}, true},
		{"SC-26", "nothing is caught up while a part is broken", func(m *mutant) {
			m.editBroken(func(p *source.Page) { p.CaughtUp = false })
		}, false},
		{"SC-26", "the others are read up to one entry short", func(m *mutant) {
			m.editBroken(func(p *source.Page) { p.Items = p.Items[min(1, len(p.Items)):] })
		}, false},
		{"SC-27", "a broken part begins anew", func(m *mutant) { m.editBroken(anew) }, false},
		{"SC-27", "the place of a broken part is in the process", func(m *mutant) {
			places := map[string]progress{}
			m.next = func(ctx context.Context, c source.Cursor) (source.Page, error) {
				m.turn.Lock()
				defer m.turn.Unlock()
				c, err := editParts(c, func(part string, at *progress) error {
					if was, ok := places[part]; ok && at.Cursor == "" {
						*at = was
					}
					return nil
				})
				if err != nil {
					return source.Page{}, err
				}
				p, err := m.Source.Next(ctx, c)
				if err == nil {
					clear(places)
					_, _ = editParts(p.Next, func(part string, at *progress) error {
						if isBroken(&p, part) {
							places[part] = *at
						}
						return nil
					})
					anew(&p)
				}
				return p, err
			}
		}, true},
		{"SC-27", "a part goes on at its end", func(m *mutant) {
			was := map[string]bool{}
			m.edit(func(p *source.Page) {
				m.turn.Lock()
				defer m.turn.Unlock()
				p.Items = slices.DeleteFunc(p.Items, func(i source.Item) bool { return was[i.Event.Data.Region] })
				clear(was)
				for _, b := range p.Broken {
					was[b.Part] = true
				}
			})
		}, false},
		{"SC-27", "nothing is pending in a broken part", func(m *mutant) {
			m.editBroken(func(p *source.Page) {
				_, _ = editParts(p.Next, func(part string, at *progress) error {
					if isBroken(p, part) {
						p.Pending -= at.Pending
					}
					return nil
				})
			})
		}, true},
		{"SC-28", "up to what the others have", func(m *mutant) {
			m.editBroken(func(p *source.Page) {
				_, _ = editParts(p.Next, func(part string, at *progress) error {
					if !isBroken(p, part) {
						p.UpTo = at.UpTo
					}
					return nil
				})
			})
		}, true},
		{"SC-28", "what was never read does not count", func(m *mutant) {
			m.editBroken(func(p *source.Page) {
				if p.UpTo.IsZero() {
					p.UpTo = time.Now()
				}
			})
		}, true},
		{"SC-29", "a page that has nothing but broken parts", func(m *mutant) {
			m.next = func(ctx context.Context, c source.Cursor) (source.Page, error) {
				p, err := m.Source.Next(ctx, c)
				if err != nil && ctx.Err() == nil && provider.ReasonOf(err) == "" {
					return source.Page{Next: c, CaughtUp: true, Broken: []source.Broken{{Part: "first", Err: err}, {Part: "second", Err: err}}}, nil
				}
				return p, err
			}
		}, false},
		{"SC-29", "broken parts beside the error", func(m *mutant) {
			m.next = func(ctx context.Context, c source.Cursor) (source.Page, error) {
				p, err := m.Source.Next(ctx, c)
				if err != nil && ctx.Err() == nil {
					p.Broken = []source.Broken{{Part: "first", Err: err}}
				}
				return p, err
			}
		}, true},
		{"SC-30", "a part that is cut off is a broken one", func(m *mutant) {
			m.next = func(ctx context.Context, c source.Cursor) (source.Page, error) {
				p, err := m.Source.Next(ctx, c)
				if err == nil || ctx.Err() == nil || !m.oneBroken() {
					return p, err
				}
				broken := memorytest.First
				if m.b.Answers(broken) {
					broken = memorytest.Second
				}
				return source.Page{Next: c, Broken: []source.Broken{{Part: broken, Err: err}}}, nil
			}
		}, true},
		{"SC-30", "one part is waited for", func(m *mutant) {
			m.next = func(ctx context.Context, c source.Cursor) (source.Page, error) {
				if m.oneBroken() {
					p, err := m.Source.Next(context.WithoutCancel(ctx), c)
					if ctx.Err() != nil {
						return source.Page{}, transient(errors.New("cut off"))
					}
					return p, err
				}
				return m.Source.Next(ctx, c)
			}
		}, true},
	}
}
