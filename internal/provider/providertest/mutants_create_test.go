package providertest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/memory"
	"github.com/tollgate-dev/tollgate/internal/provider/providertest"
)

func defects() []defect {
	return slices.Concat(createDefects(), adoptionDefects(), readDefects(), deleteDefects(), listDefects(),
		contextDefects(), errorDefects(), secretDefects(), optionalDefects())
}

func duplicateNames(o *memory.Options) { o.DuplicateNames = true }

// raw makes a server without looking left or right.
func (m *mutant) raw(ctx context.Context, req provider.CreateRequest, labels map[string]string) (provider.InstanceID, error) {
	s, err := m.b.CreateServer(ctx, string(m.o.Credential.Reveal()), memory.NewServer{
		Name: req.Name, Region: req.Placement.Region, Type: req.Placement.MachineType, Labels: labels, UserData: req.CloudInit.Reveal(),
	})
	if err != nil {
		return "", provider.Wrap(provider.Transient, provider.OpCreate, m.o.Name, req.Name, err)
	}
	return memory.ID(s), nil
}

// server is the server of that name, past all API.
func (m *mutant) server(name string) (memory.Server, bool) {
	for _, s := range m.b.Servers() {
		if s.Name == name {
			return s, true
		}
	}
	return memory.Server{}, false
}

func createDefects() []defect {
	return []defect{
		{
			what: "an undeclared optional interface", trips: []string{"PC-01"},
			harness: func(h *providertest.Harness) { h.Pricer = false },
		},
		{
			what: "an undeclared hook", trips: []string{"PC-01"},
			harness: func(h *providertest.Harness) {
				h.Hooks = slices.DeleteFunc(h.Hooks, func(k providertest.Hook) bool { return k == providertest.HookSellOut })
			},
		},
		{
			what: "a profile with an unknown answer", trips: []string{"PC-01"},
			harness: func(h *providertest.Harness) { h.Profile.GCMark = "sticky-notes" },
		},
		{
			what: "New asks the backend", trips: []string{"PC-02"},
			brk: func(m *mutant) {
				m.beforeOpen = func() {
					ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
					defer cancel()
					_ = m.b.Ping(ctx, string(m.o.Credential.Reveal()), "north") // its answer is nobody's affair
				}
			},
		},
		{
			what: "the namespace is remembered and not stored", trips: []string{"PC-03"},
			brk: func(m *mutant) {
				m.create = func(ctx context.Context, req provider.CreateRequest) (provider.InstanceID, error) {
					stored := req
					stored.Marks.Namespace = ""
					m.w.once("namespace of " + req.Name + " is " + req.Marks.Namespace)
					return m.Provider.Create(ctx, stored)
				}
				recall := func(in provider.Instance) provider.Instance {
					for _, ns := range []string{"kit", "kit-other"} {
						if m.w.has("namespace of " + in.Name + " is " + ns) {
							in.Marks.Namespace = ns
						}
					}
					return in
				}
				m.get = func(ctx context.Context, id provider.InstanceID) (provider.Instance, error) {
					in, err := m.Provider.Get(ctx, id)
					return recall(in), err
				}
				m.find = func(ctx context.Context, name string, owner provider.Marks) (provider.Instance, error) {
					in, err := m.Provider.Find(ctx, name, owner)
					return recall(in), err
				}
				m.list = func(ctx context.Context, sel provider.Selector) ([]provider.Instance, error) {
					wide := sel
					wide.Namespace = ""
					all, err := m.Provider.List(ctx, wide)
					for i := range all {
						all[i] = recall(all[i])
					}
					return slices.DeleteFunc(all, func(in provider.Instance) bool { return !sel.Matches(in.Marks) }), err
				}
			},
		},
		{
			what: "the marks come in a second call", trips: []string{"PC-03", "PC-07"},
			brk: func(m *mutant) {
				m.create = func(ctx context.Context, req provider.CreateRequest) (provider.InstanceID, error) {
					defer m.w.alone()()
					if _, taken := m.server(req.Name); taken || ctx.Err() != nil {
						return m.Provider.Create(ctx, req)
					}
					// The driver below makes the whole thing, unless the reply to the
					// bare server gets lost.
					probe := req
					probe.Name += "-x"
					id, err := m.Provider.Create(ctx, probe)
					if _, made := m.server(probe.Name); made && errors.Is(err, memory.ErrReplyLost) {
						m.b.Kill(probe.Name)
						m.b.Place(memory.NewServer{Name: req.Name})
						return "", err
					}
					if err != nil {
						return "", err
					}
					m.b.Kill(probe.Name)
					_ = m.Provider.Delete(ctx, id)
					return m.Provider.Create(ctx, req)
				}
			},
		},
		{
			what: "a repeated create makes another address", trips: []string{"PC-04"},
			brk: func(m *mutant) {
				second := func(name string) string { return name + "-ip-2" }
				m.create = func(ctx context.Context, req provider.CreateRequest) (provider.InstanceID, error) {
					id, err := m.Provider.Create(ctx, req)
					if err == nil && !m.w.once("created "+req.Name) {
						_, _ = m.b.CreateAddress(ctx, string(m.o.Credential.Reveal()), second(req.Name), req.Marks.Labels())
					}
					return id, err
				}
				m.remove = func(ctx context.Context, id provider.InstanceID) error {
					for _, a := range m.b.Addresses() {
						if a.Name == second(nameOf(id)) {
							_ = m.b.DeleteAddress(ctx, string(m.o.Credential.Reveal()), a.ID)
						}
					}
					return m.Provider.Delete(ctx, id)
				}
			},
		},
		{
			what: "looks first and creates then", trips: []string{"PC-05"}, backend: duplicateNames,
			brk: func(m *mutant) {
				m.create = func(ctx context.Context, req provider.CreateRequest) (provider.InstanceID, error) {
					if _, taken := m.server(req.Name); !taken && ctx.Err() == nil {
						wait(25 * time.Millisecond)
						if m.w.once("racing for " + req.Name) {
							return m.Provider.Create(ctx, req)
						}
						return m.raw(ctx, req, req.Marks.Labels())
					}
					return m.Provider.Create(ctx, req)
				}
			},
		},
		{
			what: "every instance has the gateway's address", trips: []string{"PC-06"},
			backend: func(o *memory.Options) {
				o.Address = func(int64) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, 1}) }
			},
		},
		{
			what: "a lost reply is answered by another create", trips: []string{"PC-07"}, backend: duplicateNames,
			brk: func(m *mutant) {
				m.create = func(ctx context.Context, req provider.CreateRequest) (provider.InstanceID, error) {
					defer m.w.alone()()
					id, err := m.Provider.Create(ctx, req)
					if err != nil && errors.Is(err, memory.ErrReplyLost) && ctx.Err() == nil {
						if id, again := m.raw(ctx, req, req.Marks.Labels()); again == nil {
							return id, nil
						}
					}
					return id, err
				}
			},
		},
		{
			what: "an unfinished create locks its name", trips: []string{"PC-08"},
			brk: func(m *mutant) {
				m.create = func(ctx context.Context, req provider.CreateRequest) (provider.InstanceID, error) {
					if m.w.has("begun " + req.Name) {
						return "", provider.Wrap(provider.Transient, provider.OpCreate, m.o.Name, req.Name, errors.New("a create of this name is under way"))
					}
					if ctx.Err() != nil {
						m.w.once("begun " + req.Name)
					}
					return m.Provider.Create(ctx, req)
				}
			},
		},
		{
			what: "an unknown region is taken for the default one", trips: []string{"PC-09"},
			brk: func(m *mutant) {
				m.create = func(ctx context.Context, req provider.CreateRequest) (provider.InstanceID, error) {
					req.Placement.Region = "north"
					return m.Provider.Create(ctx, req)
				}
			},
		},
		{
			what: "each failed create leaves an address", trips: []string{"PC-10"},
			brk: func(m *mutant) {
				m.create = func(ctx context.Context, req provider.CreateRequest) (provider.InstanceID, error) {
					id, err := m.Provider.Create(ctx, req)
					if provider.ClassOf(err) == provider.CapacityUnavailable {
						name := fmt.Sprintf("port-%d", time.Now().UnixNano())
						_, _ = m.b.CreateAddress(ctx, string(m.o.Credential.Reveal()), name, req.Marks.Labels())
					}
					return id, err
				}
			},
		},
		{
			what: "cloud-init is trimmed", trips: []string{"PC-11"},
			brk: func(m *mutant) {
				m.create = func(ctx context.Context, req provider.CreateRequest) (provider.InstanceID, error) {
					req.CloudInit = provider.NewSensitive(bytes.TrimSpace(req.CloudInit.Reveal()))
					return m.Provider.Create(ctx, req)
				}
			},
		},
	}
}

// wait holds a call back, for defects that are races.
func wait(d time.Duration) { <-time.After(d) }

func adoptionDefects() []defect {
	// adopting takes a server of the name over when ok says so.
	adopting := func(ok func(have, want provider.Marks, managed bool) bool) func(m *mutant) {
		return func(m *mutant) {
			m.create = func(ctx context.Context, req provider.CreateRequest) (provider.InstanceID, error) {
				id, err := m.Provider.Create(ctx, req)
				if provider.ClassOf(err) != provider.Conflict {
					return id, err
				}
				s, found := m.server(req.Name)
				if have, managed := provider.MarksFromLabels(s.Labels); found && ok(have, req.Marks, managed) {
					return memory.ID(s), nil
				}
				return id, err
			}
		}
	}
	return []defect{
		{what: "adopts what was made for another spec", trips: []string{"PC-12"}, brk: adopting(func(have, want provider.Marks, managed bool) bool {
			return have.SameOwner(want) && managed
		})},
		{what: "adopts another owner's", trips: []string{"PC-13"}, brk: adopting(func(have, want provider.Marks, managed bool) bool {
			return managed && have.UID != want.UID
		})},
		{what: "adopts another installation's", trips: []string{"PC-14"}, brk: adopting(func(have, want provider.Marks, managed bool) bool {
			return managed && have.Installation != want.Installation
		})},
		{what: "adopts an unmarked one", trips: []string{"PC-15"}, brk: adopting(func(_, _ provider.Marks, managed bool) bool {
			return !managed
		})},
		{what: "marks what it found", trips: []string{"PC-15"}, brk: func(m *mutant) {
			m.create = func(ctx context.Context, req provider.CreateRequest) (provider.InstanceID, error) {
				id, err := m.Provider.Create(ctx, req)
				if s, _ := m.server(req.Name); provider.ClassOf(err) == provider.Conflict && len(s.Labels) == 0 {
					m.b.Kill(req.Name)
					m.b.Place(memory.NewServer{Name: req.Name, Labels: req.Marks.Labels()})
				}
				return id, err
			}
		}},
		{what: "finds by name alone", trips: []string{"PC-16"}, brk: func(m *mutant) {
			m.find = func(ctx context.Context, name string, owner provider.Marks) (provider.Instance, error) {
				in, err := m.Provider.Find(ctx, name, owner)
				if s, found := m.server(name); provider.ClassOf(err) == provider.Conflict && found {
					return m.Provider.Get(ctx, memory.ID(s))
				}
				return in, err
			}
		}},
	}
}
