package providertest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/memory"
	"github.com/tollgate-dev/tollgate/internal/provider/providertest"
)

func without(hooks []providertest.Hook, gone providertest.Hook) []providertest.Hook {
	return slices.DeleteFunc(slices.Clone(hooks), func(h providertest.Hook) bool { return h == gone })
}

// pages lists page by page until stop says so.
func (m *mutant) pages(ctx context.Context, sel provider.Selector, stop func(page int, err error) (bool, error)) ([]provider.Instance, error) {
	var out []provider.Instance
	labels := provider.Marks{Installation: sel.Installation, UID: sel.UID, Namespace: sel.Namespace, Proxy: sel.Proxy}.Labels()
	for page := 1; ; page++ {
		servers, more, err := m.b.ListServers(ctx, string(m.o.Credential.Reveal()), page, labels)
		if end, err := stop(page, err); end {
			return out, err
		}
		if err != nil {
			return m.Provider.List(ctx, sel) // classes the error
		}
		for _, s := range servers {
			if in, err := m.Provider.Get(ctx, memory.ID(s)); err == nil {
				out = append(out, in)
			}
		}
		if !more {
			return out, nil
		}
	}
}

func listDefects() []defect {
	return []defect{
		{
			what: "lists unmarked instances", trips: []string{"PC-35"},
			brk: func(m *mutant) {
				m.list = func(ctx context.Context, sel provider.Selector) ([]provider.Instance, error) {
					all, err := m.Provider.List(ctx, sel)
					for _, s := range m.b.Servers() {
						if err == nil && sel == (provider.Selector{}) && len(s.Labels) == 0 {
							in, _ := m.Provider.Get(ctx, memory.ID(s))
							all = append(all, in)
						}
					}
					return all, err
				}
			},
		},
		{
			what: "drops marked instances without a uid", trips: []string{"PC-35"},
			brk: func(m *mutant) {
				m.list = func(ctx context.Context, sel provider.Selector) ([]provider.Instance, error) {
					all, err := m.Provider.List(ctx, sel)
					return slices.DeleteFunc(all, func(in provider.Instance) bool { return in.Marks.UID == "" }), err
				}
			},
		},
		{
			what: "ignores a field of the selector", trips: []string{"PC-36"},
			brk: func(m *mutant) {
				m.list = func(ctx context.Context, sel provider.Selector) ([]provider.Instance, error) {
					sel.Proxy = ""
					return m.Provider.List(ctx, sel)
				}
			},
		},
		{
			what: "lists without creation times", trips: []string{"PC-37"},
			brk: func(m *mutant) {
				m.list = func(ctx context.Context, sel provider.Selector) ([]provider.Instance, error) {
					all, err := m.Provider.List(ctx, sel)
					for i := range all {
						all[i].CreatedAt = time.Time{}
					}
					return all, err
				}
			},
		},
		{
			what: "reads two pages", trips: []string{"PC-38"},
			brk: func(m *mutant) {
				m.list = func(ctx context.Context, sel provider.Selector) ([]provider.Instance, error) {
					return m.pages(ctx, sel, func(page int, _ error) (bool, error) { return page > 2, nil })
				}
			},
		},
		{
			what: "returns what it has when a page breaks", trips: []string{"PC-39"},
			brk: func(m *mutant) {
				m.list = func(ctx context.Context, sel provider.Selector) ([]provider.Instance, error) {
					return m.pages(ctx, sel, func(page int, err error) (bool, error) { return page > 1 && err != nil, nil })
				}
			},
		},
		{
			what: "looks for what exists in a listing", trips: []string{"PC-40"}, backend: duplicateNames,
			brk: func(m *mutant) {
				m.create = func(ctx context.Context, req provider.CreateRequest) (provider.InstanceID, error) {
					defer m.w.alone()()
					s, found := m.server(req.Name)
					have, managed := provider.MarksFromLabels(s.Labels)
					if !found || !managed || !have.SameOwner(req.Marks) || ctx.Err() != nil {
						return m.Provider.Create(ctx, req)
					}
					all, err := m.Provider.List(ctx, provider.Selector{UID: req.Marks.UID})
					if err != nil || slices.ContainsFunc(all, func(in provider.Instance) bool { return in.Name == req.Name }) {
						return m.Provider.Create(ctx, req)
					}
					return m.raw(ctx, req, req.Marks.Labels())
				}
			},
		},
	}
}

func contextDefects() []defect {
	return []defect{
		{
			what: "creates although the context has ended", trips: []string{"PC-41"},
			brk: func(m *mutant) {
				m.create = func(ctx context.Context, req provider.CreateRequest) (provider.InstanceID, error) {
					if ctx.Err() != nil {
						ctx = context.WithoutCancel(ctx)
					}
					return m.Provider.Create(ctx, req)
				}
			},
		},
		{
			what: "calls the end of a context permanent", trips: []string{"PC-41"},
			brk: func(m *mutant) {
				m.remove = func(ctx context.Context, id provider.InstanceID) error {
					if ctx.Err() != nil {
						return provider.Wrap(provider.Permanent, provider.OpDelete, m.o.Name, string(id), errors.New("gave up"))
					}
					return m.Provider.Delete(ctx, id)
				}
			},
		},
		{
			what: "waits for a silent backend for ever", trips: []string{"PC-42"},
			brk: func(m *mutant) {
				m.get = func(ctx context.Context, id provider.InstanceID) (provider.Instance, error) {
					if ctx.Err() == nil {
						ctx = context.WithoutCancel(ctx)
					}
					return m.Provider.Get(ctx, id)
				}
			},
		},
		{
			what: "keeps the name it looks for in the driver", trips: []string{"PC-43"},
			brk: func(m *mutant) {
				m.find = func(ctx context.Context, name string, owner provider.Marks) (provider.Instance, error) {
					m.w.mu.Lock()
					m.w.note = name
					m.w.mu.Unlock()
					if strings.HasPrefix(name, "proxy-") && ctx.Err() == nil {
						wait(15 * time.Millisecond)
					}
					m.w.mu.Lock()
					name = m.w.note
					m.w.mu.Unlock()
					return m.Provider.Find(ctx, name, owner)
				}
			},
		},
	}
}
