package openstacksim

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Options are the cloud's properties. The zero value is a quick cloud with one
// region, no quotas and any credentials.
type Options struct {
	// Regions are its regions, RegionOne if empty.
	Regions []string
	// Users are name and password of those who may log in; empty lets everybody
	// in. Names of application credentials count, too.
	Users map[string]string
	// TokenLife is how long a token is valid, an hour if zero.
	TokenLife time.Duration
	// Admins are the users who see and do everything.
	Admins []string
	// Projects are further ones, beside the first, to log in to.
	Projects []string
	// Microversion is the newest of the compute service, "2.93" if empty, and
	// VolumeMicroversion that of the volume service, "3.70" if empty.
	Microversion, VolumeMicroversion string
	// PageSize is the most servers, actions or volumes on one page, 1000 if zero.
	PageSize int
	// BuildTime, DeleteTime and VolumeTime are how long servers are built and
	// deleted, and how long volumes are made.
	BuildTime, DeleteTime, VolumeTime time.Duration
	// ActionTime is how long a server is at what it is told to do, and how long a
	// volume is extended.
	ActionTime time.Duration
	// KeepShelved leaves shelved servers on their hosts until they are taken from
	// them by an action of its own. Else that happens at once, as it does by default.
	KeepShelved bool
	// SoftDelete keeps deleted servers in SOFT_DELETED until they are deleted by
	// force.
	SoftDelete bool
	// NoVolumeFilters is a volume service whose operator allows no filters, which
	// depends on a file of his.
	NoVolumeFilters bool
	// LooseFilters is a network service that ignores filters that it does not know;
	// others refuse them, and changed_since with them.
	LooseFilters bool
	// Zones are the availability zones of the compute service, VolumeZones those of the
	// volume service, the first being the default; nova if empty. ZonesApart refuses
	// volumes of another zone than their server's.
	Zones, VolumeZones []string
	ZonesApart         bool
	// Keys are the names of the user's key pairs.
	Keys []string
	// NoVolumes leaves the volume service out of the catalogue.
	NoVolumes bool
	// Backend, when set, puts something real behind the servers.
	Backend Backend
	// StateFile, when set, keeps the state between runs. Use Open then.
	StateFile string
	// Now is the clock, time.Now if nil.
	Now func() time.Time
	// Logger is told what goes wrong inside; nil is silent.
	Logger *slog.Logger
}

// Backend puts something real behind the simulated servers, such as a proxy on
// this machine. It is called with the state locked, one call at a time: it must
// be quick and must not call the simulator.
type Backend interface {
	// Address picks the fixed address of a new port. An error makes the create
	// answer that the network has no address left.
	Address(ctx context.Context) (netip.Addr, error)
	// Start lets the server run at its address; an error ends it in ERROR.
	Start(ctx context.Context, id, name string, address netip.Addr) error
	// Stop ends it; one that does not run is success.
	Stop(ctx context.Context, id string, address netip.Addr) error
	// Keep takes the address of a port that was there before.
	Keep(address netip.Addr)
	// Release gives back the address of a port that is deleted.
	Release(address netip.Addr)
}

// Quotas are limits of the project; zero values mean none.
type Quotas struct{ Instances, Ports, FloatingIPs, VolumeGB int }

// Sim is the cloud. It is an http.Handler and safe for concurrent use.
type Sim struct {
	opt Options
	mux *http.ServeMux

	mu        sync.Mutex
	regions   map[string]*region
	tokens    map[string]token
	project   object
	projects  []object // the further ones
	quotas    Quotas
	heldNames map[string]bool
	held      bool // servers stay in BUILD
	noHost    bool // the scheduler finds no host, and says so in the answer
	fault     string
	nextAddr  uint32
	// what servers are told to do is not done, or fails; volumes fail
	heldActions, failActions, failVolumes bool
	requests                              int
	saved                                 []byte // what the state file has
}

type token struct {
	user, secret, project string
	admin                 bool
	ends                  time.Time
}

// region is what exists in a region.
type region struct {
	name      string
	servers   []*server
	ports     []*port
	floating  []*floatingIP
	volumes   []*volume
	gone      []*server // deleted servers
	network   object
	external  object
	subnet    object
	group     object
	flavors   []flavor
	images    []image
	nextFloat uint32
}

type object struct{ id, name string }

type flavor struct {
	object
	vcpus, ram, disk, ephemeral, swap int
}

type image struct {
	object
	created time.Time
	hidden  bool // listings do not show it; whoever knows its id uses it
}

// Open makes a cloud, or continues the one in the state file: servers that ran run
// again at their addresses.
func Open(o Options) (*Sim, error) {
	s := New(o)
	if o.StateFile == "" {
		return s, nil
	}
	return s, s.load()
}

// New makes a cloud.
func New(o Options) *Sim {
	if len(o.Regions) == 0 {
		o.Regions = []string{"RegionOne"}
	}
	if o.TokenLife == 0 {
		o.TokenLife = time.Hour
	}
	if o.Microversion == "" {
		o.Microversion = "2.93"
	}
	if o.VolumeMicroversion == "" {
		o.VolumeMicroversion = "3.70"
	}
	if o.PageSize == 0 {
		o.PageSize = 1000
	}
	if len(o.Zones) == 0 {
		o.Zones = []string{zoneName}
	}
	if len(o.VolumeZones) == 0 {
		o.VolumeZones = []string{zoneName}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Sim{opt: o, regions: map[string]*region{}, tokens: map[string]token{}, heldNames: map[string]bool{}, project: object{newID(), "demo"}, mux: http.NewServeMux()}
	for _, name := range o.Projects {
		s.projects = append(s.projects, object{newID(), name})
	}
	for _, name := range o.Regions {
		r := &region{name: name, network: object{uuid.NewString(), "private"}, external: object{uuid.NewString(), "public"},
			subnet: object{uuid.NewString(), "private-v4"}, group: object{uuid.NewString(), "default"}}
		r.flavors = []flavor{{object{uuid.NewString(), "m1.tiny"}, 1, 512, 1, 0, 0}, {object{uuid.NewString(), "m1.small"}, 1, 2048, 20, 0, 0},
			{object{uuid.NewString(), "m1.large"}, 4, 8192, 80, 10, 1024}}
		for _, n := range []string{"cirros", "debian-13"} {
			r.images = append(r.images, image{object: object{uuid.NewString(), n}, created: s.now()})
		}
		s.regions[name] = r
	}
	s.routes()
	return s
}

// newID is an id as the identity service makes them.
func newID() string { return strings.ReplaceAll(uuid.NewString(), "-", "") }

func (s *Sim) now() time.Time { return s.opt.Now().UTC() }

// ServeHTTP implements http.Handler.
func (s *Sim) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests++
	s.mu.Unlock()
	w.Header().Set("Date", s.now().Format(http.TimeFormat))
	s.mux.ServeHTTP(w, r)
}

// Requests is how many requests have come.
func (s *Sim) Requests() int { s.mu.Lock(); defer s.mu.Unlock(); return s.requests }

// SetQuotas changes the limits of the project.
func (s *Sim) SetQuotas(q Quotas) { s.mu.Lock(); defer s.mu.Unlock(); s.quotas = q }

// Hold keeps servers that are made from now on, or being built, in BUILD until
// release is called.
func (s *Sim) Hold() (release func()) {
	set := func(v bool) { s.mu.Lock(); defer s.mu.Unlock(); s.held = v }
	set(true)
	return func() { set(false) }
}

// HoldBuild keeps servers of this name in BUILD until release is called.
func (s *Sim) HoldBuild(name string) (release func()) {
	set := func(v bool) { s.mu.Lock(); defer s.mu.Unlock(); s.tick(); s.heldNames[name] = v }
	set(true)
	return func() { set(false) }
}

// NoHost refuses creates because no host has room, in the answer to the create
// as some clouds do, until release is called.
func (s *Sim) NoHost() (release func()) {
	set := func(v bool) { s.mu.Lock(); defer s.mu.Unlock(); s.noHost = v }
	set(true)
	return func() { set(false) }
}

// FailBuilds ends servers that are built from now on in ERROR with this fault;
// "" ends that.
func (s *Sim) FailBuilds(fault string) { s.mu.Lock(); defer s.mu.Unlock(); s.fault = fault }

// ExpireTokens ends all tokens.
func (s *Sim) ExpireTokens() { s.mu.Lock(); defer s.mu.Unlock(); clear(s.tokens) }

// SetPassword changes a user's password. Tokens stay valid, as they do.
func (s *Sim) SetPassword(user, password string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opt.Users == nil {
		s.opt.Users = map[string]string{}
	}
	s.opt.Users[user] = password
}

// Revoke ends an application credential and its tokens.
func (s *Sim) Revoke(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.opt.Users, id)
	for k, t := range s.tokens {
		if t.user == id {
			delete(s.tokens, k)
		}
	}
}

// Object is one thing of the project, as a look past the driver shows it.
type Object struct {
	Kind    string // server, port, floating_ip or volume
	Region  string
	Project string // its id
	ID      string
	Name    string
	// Labels are a server's or volume's metadata, Text a port's or floating IP's
	// description.
	Labels map[string]string
	Text   string
	Status string
	Fault  string
	// UserData is what the guest of a server reads.
	UserData []byte
	// Port of a floating IP, server of a port or volume.
	On string
	// Network of a port.
	Network string
}

// Objects lists everything of the project in the order of its making.
func (s *Sim) Objects() []Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tick()
	var out []Object
	for _, name := range s.opt.Regions {
		r := s.regions[name]
		for _, x := range r.servers {
			out = append(out, Object{Kind: "server", Region: name, Project: x.project, ID: x.id, Name: x.name, Labels: x.metadata, Status: x.status,
				Fault: x.fault, UserData: x.userData})
		}
		for _, x := range r.ports {
			out = append(out, Object{Kind: "port", Region: name, Project: x.project, ID: x.id, Name: x.name, Text: x.description, On: x.device, Network: x.network})
		}
		for _, x := range r.floating {
			out = append(out, Object{Kind: "floating_ip", Region: name, Project: x.project, ID: x.id, Text: x.description, On: x.port})
		}
		for _, x := range r.volumes {
			out = append(out, Object{Kind: "volume", Region: name, Project: x.project, ID: x.id, Name: x.name, Labels: x.metadata, Status: x.status, On: x.server})
		}
	}
	return out
}
