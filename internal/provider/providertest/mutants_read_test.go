package providertest_test

import (
	"context"
	"errors"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/memory"
	"github.com/tollgate-dev/tollgate/internal/provider/memory/memorytest"
	"github.com/tollgate-dev/tollgate/internal/provider/providertest"
)

// nameOf and keyOf are the parts of an id of the in-memory driver.
func nameOf(id provider.InstanceID) string {
	return string(id[strings.LastIndexByte(string(id), '/')+1:])
}

func keyOf(id provider.InstanceID) byte {
	parts := strings.Split(string(id), "/")
	n, _ := strconv.Atoi(parts[1]) // an id that the driver made
	return byte(n)
}

// seeing changes what Get, and with list set List, say of an instance.
func seeing(list bool, change func(m *mutant, in provider.Instance) provider.Instance) func(m *mutant) {
	return func(m *mutant) {
		m.get = func(ctx context.Context, id provider.InstanceID) (provider.Instance, error) {
			in, err := m.Provider.Get(ctx, id)
			if err == nil {
				in = change(m, in)
			}
			return in, err
		}
		if !list {
			return
		}
		m.list = func(ctx context.Context, sel provider.Selector) ([]provider.Instance, error) {
			all, err := m.Provider.List(ctx, sel)
			for i := range all {
				all[i] = change(m, all[i])
			}
			return all, err
		}
	}
}

func readDefects() []defect {
	return []defect{
		{
			what: "reads a copy made at the start", trips: []string{"PC-17"},
			brk: func(m *mutant) {
				known := newWorld()
				m.beforeOpen = func() {
					for _, s := range m.b.Servers() {
						known.once(s.Name)
					}
				}
				m.create = func(ctx context.Context, req provider.CreateRequest) (provider.InstanceID, error) {
					known.once(req.Name)
					return m.Provider.Create(ctx, req)
				}
				m.get = func(ctx context.Context, id provider.InstanceID) (provider.Instance, error) {
					in, err := m.Provider.Get(ctx, id)
					if err == nil && !known.has(in.Name) {
						return provider.Instance{}, provider.Wrap(provider.NotFound, provider.OpGet, m.o.Name, string(id), errors.New("not in the copy"))
					}
					return in, err
				}
			},
		},
		{
			what: "finds by listing", trips: []string{"PC-18"},
			brk: func(m *mutant) {
				m.find = func(ctx context.Context, name string, owner provider.Marks) (provider.Instance, error) {
					in, err := m.Provider.Find(ctx, name, owner)
					if err != nil {
						return in, err
					}
					all, err := m.Provider.List(ctx, provider.Selector{UID: owner.UID})
					for _, in := range all {
						if in.Name == name {
							return in, nil
						}
					}
					if err == nil {
						err = provider.Wrap(provider.NotFound, provider.OpFind, m.o.Name, name, errors.New("not listed"))
					}
					return provider.Instance{}, err
				}
			},
		},
		{
			what: "finds half an instance beside the error", trips: []string{"PC-19"},
			brk: func(m *mutant) {
				m.find = func(ctx context.Context, name string, owner provider.Marks) (provider.Instance, error) {
					in, err := m.Provider.Find(ctx, name, owner)
					if provider.ClassOf(err) == provider.NotFound {
						in.Name = name
					}
					return in, err
				}
			},
		},
		{
			what: "forgets the creation time", trips: []string{"PC-20"},
			brk: seeing(true, func(_ *mutant, in provider.Instance) provider.Instance { in.CreatedAt = time.Time{}; return in }),
		},
		{
			what: "a vanished instance is nothing without an error", trips: []string{"PC-21"},
			brk: func(m *mutant) {
				m.remove = func(ctx context.Context, id provider.InstanceID) error {
					m.w.once("deleted " + string(id))
					return m.Provider.Delete(ctx, id)
				}
				m.get = func(ctx context.Context, id provider.InstanceID) (provider.Instance, error) {
					in, err := m.Provider.Get(ctx, id)
					if provider.ClassOf(err) == provider.NotFound && !m.w.has("deleted "+string(id)) {
						return provider.Instance{}, nil
					}
					return in, err
				}
			},
		},
		{
			what: "a malformed id is not found", trips: []string{"PC-22"},
			brk: func(m *mutant) {
				m.get = func(ctx context.Context, id provider.InstanceID) (provider.Instance, error) {
					in, err := m.Provider.Get(ctx, id)
					if provider.ReasonOf(err) == provider.ReasonMalformedID {
						err = provider.Wrap(provider.NotFound, provider.OpGet, m.o.Name, string(id), errors.New("no such id"))
					}
					return in, err
				}
			},
		},
		{
			what: "looks stopped for a moment when it has booted", trips: []string{"PC-23"},
			brk: seeing(false, func(m *mutant, in provider.Instance) provider.Instance {
				if in.RawState == memory.RawActive && m.w.once("active "+in.Name) {
					in.State = provider.StateStopped
				}
				return in
			}),
		},
		{
			what: "is taken for running after a while", trips: []string{"PC-24"},
			brk: seeing(true, func(_ *mutant, in provider.Instance) provider.Instance {
				// Longer than a boot takes that nobody holds back.
				if in.RawState == memory.RawBooting && time.Since(in.CreatedAt) > 5*time.Millisecond {
					in.State, in.IP = provider.StateRunning, netip.AddrFrom4([4]byte{10, 0, 0, keyOf(in.ID)})
				}
				return in
			}),
		},
		{
			what: "its address is a group's", trips: []string{"PC-25"},
			brk: seeing(true, func(_ *mutant, in provider.Instance) provider.Instance {
				if in.State == provider.StateRunning {
					in.IP = netip.AddrFrom4([4]byte{224, 0, 0, keyOf(in.ID)})
				}
				return in
			}),
		},
		{
			what: "runs without an address", trips: []string{"PC-26"},
			brk: seeing(false, func(_ *mutant, in provider.Instance) provider.Instance {
				if in.RawState == memory.RawActive {
					in.State = provider.StateRunning
				}
				return in
			}),
		},
		{
			what: "a stopped one might come back", trips: []string{"PC-27"},
			brk: seeing(false, func(_ *mutant, in provider.Instance) provider.Instance {
				if in.RawState == memory.RawHalted {
					in.State = provider.StateProvisioning
				}
				return in
			}),
		},
		{
			what: "an unknown state is stopped", trips: []string{"PC-28"},
			brk: seeing(false, func(_ *mutant, in provider.Instance) provider.Instance {
				if in.RawState == "reticulating-splines" {
					in.State = provider.StateStopped
				}
				return in
			}),
		},
		{
			what: "hides the word for an unknown state", trips: []string{"PC-28"},
			brk: seeing(false, func(_ *mutant, in provider.Instance) provider.Instance {
				if in.RawState == "reticulating-splines" {
					in.RawState = "unknown"
				}
				return in
			}),
		},
	}
}

func deleteDefects() []defect {
	return []defect{
		{
			what: "deleting what vanished is an error", trips: []string{"PC-29"},
			brk: func(m *mutant) {
				m.remove = func(ctx context.Context, id provider.InstanceID) error {
					_, err := m.Provider.Get(ctx, id)
					if provider.ClassOf(err) == provider.NotFound && m.w.once("deleted "+string(id)) {
						return provider.Wrap(provider.NotFound, provider.OpDelete, m.o.Name, string(id), errors.New("it does not exist"))
					}
					m.w.once("deleted " + string(id))
					return m.Provider.Delete(ctx, id)
				}
			},
		},
		{
			what: "refuses a delete beside another one", trips: []string{"PC-30"},
			brk: func(m *mutant) {
				m.remove = func(ctx context.Context, id provider.InstanceID) error {
					if !m.w.once("deleting " + string(id)) {
						if m.w.has("deleted " + string(id)) {
							return m.Provider.Delete(ctx, id)
						}
						return provider.Wrap(provider.Permanent, provider.OpDelete, m.o.Name, string(id), errors.New("it is being deleted"))
					}
					wait(15 * time.Millisecond)
					defer m.w.once("deleted " + string(id))
					return m.Provider.Delete(ctx, id)
				}
			},
		},
		{
			what: "what is being deleted is gone already", trips: []string{"PC-31"},
			brk: func(m *mutant) {
				m.get = func(ctx context.Context, id provider.InstanceID) (provider.Instance, error) {
					in, err := m.Provider.Get(ctx, id)
					if in.State == provider.StateTerminated {
						return provider.Instance{}, provider.Wrap(provider.NotFound, provider.OpGet, m.o.Name, string(id), errors.New("it is going"))
					}
					return in, err
				}
			},
		},
		{
			what: "says it waits and does not", trips: []string{"PC-32"}, harness: waitingHarness,
			backend: func(o *memory.Options) { o.DeleteTime = 5 * time.Millisecond },
		},
		{
			what: "a repeated delete leaves a tombstone", trips: []string{"PC-33"},
			brk: func(m *mutant) {
				m.remove = func(ctx context.Context, id provider.InstanceID) error {
					err := m.Provider.Delete(ctx, id)
					if err == nil && !m.w.once("deleted "+string(id)) {
						_, _ = m.b.CreateAddress(ctx, string(m.o.Credential.Reveal()), "tombstone-"+nameOf(id), nil)
					}
					return err
				}
			},
		},
		{
			what: "leaves the address", trips: []string{"PC-33", "PC-34", "PC-43"},
			brk: func(m *mutant) {
				m.remove = func(ctx context.Context, id provider.InstanceID) error {
					var had *memory.Address
					for _, a := range m.b.Addresses() {
						if a.Name == nameOf(id)+"-ip" {
							had = &a
						}
					}
					err := m.Provider.Delete(ctx, id)
					if err == nil && had != nil {
						_, _ = m.b.CreateAddress(ctx, string(m.o.Credential.Reveal()), had.Name, had.Labels)
					}
					return err
				}
			},
		},
		{
			what: "deletes by uid in all installations", trips: []string{"PC-34"},
			brk: func(m *mutant) {
				m.remove = func(ctx context.Context, id provider.InstanceID) error {
					if s, found := m.server(nameOf(id)); found && ctx.Err() == nil {
						for _, o := range m.b.Servers() {
							if o.ID != s.ID && o.Labels[provider.LabelUID] == s.Labels[provider.LabelUID] {
								m.b.Kill(o.Name)
							}
						}
					}
					return m.Provider.Delete(ctx, id)
				}
			},
		},
	}
}

// waitingHarness is for drivers whose Delete waits.
func waitingHarness(h *providertest.Harness) {
	h.Profile.DeleteReturn = "waits"
	h.Hooks = without(h.Hooks, providertest.HookHoldDeletes)
	newBackend, open := h.NewBackend, h.Open
	h.NewBackend = func(tb testing.TB) providertest.Backend { return &neverHolds{newBackend(tb).(*memorytest.Backend)} }
	h.Open = func(tb testing.TB, b providertest.Backend, o providertest.OpenOptions) provider.Provider {
		return open(tb, b.(*neverHolds).Backend, o)
	}
}

// neverHolds is a backend without the hook for slow deletes.
type neverHolds struct{ *memorytest.Backend }

// HoldDeletes hides the hook: its signature is not the kit's.
func (*neverHolds) HoldDeletes() {}

// waitForDeletes makes Delete wait until the instance is gone.
func waitForDeletes(m *mutant) {
	m.remove = func(ctx context.Context, id provider.InstanceID) error {
		if err := m.Provider.Delete(ctx, id); err != nil {
			return err
		}
		for {
			_, err := m.Provider.Get(ctx, id)
			switch {
			case provider.ClassOf(err) == provider.NotFound:
				return nil
			case err != nil:
				return provider.Wrap(provider.ClassOf(err), provider.OpDelete, m.o.Name, string(id), err)
			}
			wait(time.Millisecond)
		}
	}
}
