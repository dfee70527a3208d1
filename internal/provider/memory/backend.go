// Package memory is a provider whose backend is a data structure: the reference
// driver of the contract, the double for everybody's tests, and the base of the
// broken drivers that prove the conformance kit. It is no entry of the type
// list.
//
// It is cut like a driver for a real cloud: Backend (backend.go, hooks.go) is
// the vendor, with an API of its own, latency, faults and time that passes;
// Provider (driver.go, classify.go) is the driver, which knows the vendor only
// through that API.
package memory

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// Words of the backend for the state of a server.
const (
	RawBooting  = "booting"
	RawActive   = "active"
	RawHalted   = "halted"
	RawDeleting = "deleting"
)

// Server is one machine as the backend describes it.
type Server struct {
	ID       int64
	Name     string
	Labels   map[string]string
	State    string
	IP       netip.Addr
	Created  time.Time
	Region   string
	Type     string
	UserData []byte
}

// Address is an address that can outlive the server it was made for.
type Address struct {
	ID      int64
	Name    string
	Labels  map[string]string
	Created time.Time
	// Server is the server that uses it, zero when none does.
	Server int64
}

type server struct {
	Server
	bootUntil   time.Time
	heldBoot    bool
	hidden      bool // the address is
	unlisted    bool
	address     int64
	raw         string
	deleteUntil time.Time
	heldDelete  bool
	deleting    bool
}

// Options are the backend's constants. The zero value boots at once, deletes at
// once and pages listings by 50.
type Options struct {
	// BootTime and DeleteTime are how long a server is booting and deleting.
	BootTime, DeleteTime time.Duration
	PageSize             int
	// Regions are the regions that exist, by default "north" and "south".
	Regions []string
	// Address gives the n-th server its address; by default 10.0.0.0/8.
	Address func(n int64) netip.Addr
	// Quota is the number of servers the account may have; zero is no limit.
	Quota int
	// DuplicateNames lets two servers have one name, as some clouds do.
	DuplicateNames bool
	// Credential is what callers have to show; empty lets everybody in.
	Credential string
}

// Backend is the vendor: one account that any number of providers, of any
// number of installations, can share. It is safe for concurrent use.
type Backend struct {
	opt Options

	mu         sync.Mutex
	seq        int64
	servers    map[int64]*server
	byName     map[string][]int64
	dying      map[int64]*server
	addresses  map[int64]*Address
	addressIDs map[string]int64
	hooks      hooks
}

// NewBackend returns an empty account.
func NewBackend(opt Options) *Backend {
	if opt.PageSize <= 0 {
		opt.PageSize = 50
	}
	if len(opt.Regions) == 0 {
		opt.Regions = []string{"north", "south"}
	}
	if opt.Address == nil {
		opt.Address = func(n int64) netip.Addr {
			return netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})
		}
	}
	return &Backend{
		opt: opt, servers: map[int64]*server{}, byName: map[string][]int64{}, dying: map[int64]*server{},
		addresses: map[int64]*Address{}, addressIDs: map[string]int64{},
		hooks: hooks{calls: map[Call]int{}, latency: map[Call]time.Duration{}},
	}
}

// APIError is the backend's refusal.
type APIError struct {
	Status     int
	Code       string
	Message    string
	RetryAfter time.Duration
}

func (e *APIError) Error() string { return fmt.Sprintf("%d %s: %s", e.Status, e.Code, e.Message) }

func refuse(status int, code, format string, args ...any) error {
	return &APIError{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

// Call names a request of the API for faults and latency.
type Call string

// The requests.
const (
	CallCreateServer  Call = "create_server"
	CallGetServer     Call = "get_server"
	CallFindServer    Call = "find_server"
	CallDeleteServer  Call = "delete_server"
	CallListServers   Call = "list_servers"
	CallCreateAddress Call = "create_address"
	CallDetachAddress Call = "detach_address"
	CallDeleteAddress Call = "delete_address"
	CallListAddresses Call = "list_addresses"
	CallPing          Call = "ping"
	CallPrice         Call = "price"
)

// NewServer is a request for a server.
type NewServer struct {
	Name, Region, Type string
	Labels             map[string]string
	UserData           []byte
	AddressID          int64
}

// CreateServer makes a server. A name in use is refused with 409
// "uniqueness", unless the backend allows duplicates.
func (b *Backend) CreateServer(ctx context.Context, cred string, req NewServer) (out Server, err error) {
	err = b.call(ctx, cred, CallCreateServer, func() error {
		if !slices.Contains(b.opt.Regions, req.Region) {
			return refuse(422, "invalid_input", "region %q does not exist", req.Region)
		}
		b.reap()
		if len(b.byName[req.Name]) > 0 && !b.opt.DuplicateNames {
			return refuse(409, "uniqueness", "server name %q is already used", req.Name)
		}
		if b.opt.Quota > 0 && len(b.servers) >= b.opt.Quota {
			return refuse(403, "quota", "the account may have %d servers", b.opt.Quota)
		}
		s := b.insert(req)
		out = b.view(s)
		return nil
	})
	return out, err
}

func (b *Backend) insert(req NewServer) *server {
	b.seq++
	now := time.Now()
	s := &server{
		Server: Server{
			ID: b.seq, Name: req.Name, Labels: maps.Clone(req.Labels), Region: req.Region, Type: req.Type,
			UserData: slices.Clone(req.UserData), IP: b.opt.Address(b.seq), Created: now.UTC(),
		},
		bootUntil: now.Add(b.opt.BootTime), heldBoot: b.hooks.holdBoot,
	}
	b.servers[s.ID] = s
	b.byName[s.Name] = append(b.byName[s.Name], s.ID)
	if a := b.addresses[req.AddressID]; a != nil {
		a.Server, s.address = s.ID, a.ID
	}
	return s
}

// GetServer returns a server, or 404.
func (b *Backend) GetServer(ctx context.Context, cred string, id int64) (out Server, err error) {
	err = b.call(ctx, cred, CallGetServer, func() error {
		b.reap()
		s := b.servers[id]
		if s == nil {
			return refuse(404, "not_found", "server %d does not exist", id)
		}
		out = b.view(s)
		return nil
	})
	return out, err
}

// FindServers returns the servers of exactly this name, oldest first. It reads
// what was written, unlike ListServers.
func (b *Backend) FindServers(ctx context.Context, cred, name string) (out []Server, err error) {
	err = b.call(ctx, cred, CallFindServer, func() error {
		b.reap()
		for _, id := range b.byName[name] {
			out = append(out, b.view(b.servers[id]))
		}
		return nil
	})
	return out, err
}

// DeleteServer starts the deletion of a server; 404 when it is gone, success
// when it is already being deleted.
func (b *Backend) DeleteServer(ctx context.Context, cred string, id int64) error {
	return b.call(ctx, cred, CallDeleteServer, func() error {
		b.reap()
		s := b.servers[id]
		if s == nil {
			return refuse(404, "not_found", "server %d does not exist", id)
		}
		if !s.deleting {
			s.deleting, s.deleteUntil, s.heldDelete = true, time.Now().Add(b.opt.DeleteTime), b.hooks.holdDeletes
			b.dying[id] = s
			b.release(s)
		}
		b.reap()
		return nil
	})
}

// ListServers returns one page of the servers that carry all the labels, and
// whether there are more. Pages are numbered from 1.
func (b *Backend) ListServers(ctx context.Context, cred string, page int, labels map[string]string) (out []Server, more bool, err error) {
	err = b.call(ctx, cred, CallListServers, func() error {
		if b.hooks.brokenPage == page {
			return refuse(500, "internal", "page %d could not be read", page)
		}
		b.reap()
		lo, matching := (page-1)*b.opt.PageSize, 0
		for _, id := range slices.Sorted(maps.Keys(b.servers)) {
			s := b.servers[id]
			if s.unlisted || !hasLabels(s.Labels, labels) || time.Since(s.Created) < b.hooks.listLag {
				continue
			}
			if more = matching == lo+b.opt.PageSize; more {
				break
			}
			if matching >= lo {
				out = append(out, b.view(s))
			}
			matching++
		}
		return nil
	})
	if err != nil {
		return nil, false, err
	}
	return out, more, nil
}

func hasLabels(have, want map[string]string) bool {
	for k, v := range want {
		if have[k] != v {
			return false
		}
	}
	return true
}

// Regions lists the regions.
func (b *Backend) Regions() []string { return slices.Clone(b.opt.Regions) }

// Ping asks one region whether it works.
func (b *Backend) Ping(ctx context.Context, cred, region string) error {
	return b.call(ctx, cred, CallPing, func() error {
		if !slices.Contains(b.opt.Regions, region) {
			return refuse(404, "not_found", "region %q does not exist", region)
		}
		return nil
	})
}

// Price is the price of a server with its address per hour in millionths of a
// euro. ok is false for a region that has no price.
func (b *Backend) Price(ctx context.Context, cred, region string) (price int64, ok bool, err error) {
	err = b.call(ctx, cred, CallPrice, func() error {
		if i := slices.Index(b.opt.Regions, region); i >= 0 {
			price, ok = int64(5_000+1_000*i), true
		}
		return nil
	})
	return price, ok, err
}

// view is the server as the API shows it now. Callers hold mu.
func (b *Backend) view(s *server) Server {
	out := s.Server
	out.Labels, out.UserData = maps.Clone(s.Labels), slices.Clone(s.UserData)
	switch {
	case s.deleting:
		out.State = RawDeleting
	case s.raw != "":
		out.State = s.raw
	case s.heldBoot || time.Now().Before(s.bootUntil):
		out.State = RawBooting
	default:
		out.State = RawActive
	}
	if s.hidden || out.State == RawBooting {
		out.IP = netip.Addr{}
	}
	return out
}

// reap removes the servers whose deletion has ended. Callers hold mu.
func (b *Backend) reap() {
	now := time.Now()
	for id, s := range b.dying {
		if !s.heldDelete && !now.Before(s.deleteUntil) {
			b.remove(id)
		}
	}
}

func (b *Backend) remove(id int64) {
	s := b.servers[id]
	delete(b.servers, id)
	delete(b.dying, id)
	b.byName[s.Name] = slices.DeleteFunc(b.byName[s.Name], func(i int64) bool { return i == id })
	if len(b.byName[s.Name]) == 0 {
		delete(b.byName, s.Name)
	}
	b.release(s)
}

// release takes the server's address off it. Callers hold mu.
func (b *Backend) release(s *server) {
	if a := b.addresses[s.address]; a != nil && a.Server == s.ID {
		a.Server = 0
	}
}

// call runs one request: the way there, faults before, the work, faults after,
// the way back. When the context ends on the way back the work is done and the
// caller does not know.
func (b *Backend) call(ctx context.Context, cred string, c Call, work func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	hung, there, back := b.delays(c)
	if err := wait(ctx, hung, there); err != nil {
		return err
	}
	if err := b.serve(cred, c, work); err != nil {
		return err
	}
	return wait(ctx, nil, back)
}

func (b *Backend) serve(cred string, c Call, work func() error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hooks.calls[c]++
	if b.opt.Credential != "" && strings.TrimSpace(cred) != b.opt.Credential {
		return refuse(401, "unauthorized", "the token is not valid")
	}
	if err := b.hooks.before(c); err != nil {
		return err
	}
	if err := work(); err != nil {
		return err
	}
	return b.hooks.after(c)
}
