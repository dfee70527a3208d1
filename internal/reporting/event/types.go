package event

import (
	"slices"
	"strings"
)

// Platform is where a resource lives.
type Platform string

// Platforms whose resources have tables here. Others may report too.
const (
	Hetzner   Platform = "hetzner"
	OpenStack Platform = "openstack"
	STACKIT   Platform = "stackit"
	IONOS     Platform = "ionos"
	Gardener  Platform = "gardener"
	Harbor    Platform = "harbor"
)

// ResourceType is the kind of a resource.
type ResourceType string

// Resource types.
const (
	Server            ResourceType = "server"
	Volume            ResourceType = "volume"
	FloatingIP        ResourceType = "floating_ip"
	LoadBalancer      ResourceType = "load_balancer"
	Database          ResourceType = "database"
	KubernetesCluster ResourceType = "kubernetes_cluster"
	NIC               ResourceType = "nic"
	ManagedKubernetes ResourceType = "managed_kubernetes"
	Shoot             ResourceType = "shoot"
	Repository        ResourceType = "repository"
	HarborProject     ResourceType = "project"
)

// Type is the CloudEvents type: resource type, verb and, where the change takes
// time, "end" for its end.
type Type string

// Event types.
const (
	ServerCreate    Type = "server.create.end"
	ServerDelete    Type = "server.delete.end"
	ServerUpgrade   Type = "server.upgrade.end"
	ServerDowngrade Type = "server.downgrade.end"
	ServerResize    Type = "server.resize.end"
	ServerPowerOn   Type = "server.power_on.end"
	ServerPowerOff  Type = "server.power_off.end"
	ServerRestore   Type = "server.restore.end"

	VolumeCreate Type = "volume.create.end"
	VolumeDelete Type = "volume.delete.end"
	VolumeResize Type = "volume.resize.end"

	FloatingIPCreate Type = "floating_ip.create.end"
	FloatingIPDelete Type = "floating_ip.delete.end"

	LoadBalancerCreate       Type = "load_balancer.create.end"
	LoadBalancerDelete       Type = "load_balancer.delete.end"
	LoadBalancerAddTarget    Type = "load_balancer.add_target.end"
	LoadBalancerRemoveTarget Type = "load_balancer.remove_target.end"
	LoadBalancerResize       Type = "load_balancer.resize.end"

	ShootCreate            Type = "shoot.create.end"
	ShootDelete            Type = "shoot.delete.end"
	ShootHibernateStart    Type = "shoot.hibernate.start"
	ShootHibernateEnd      Type = "shoot.hibernate.end"
	ShootWorkerScale       Type = "shoot.worker.scale"
	ShootWorkerMachineType Type = "shoot.worker.machine_type_change"

	RepositoryPush   Type = "repository.push"
	RepositoryPull   Type = "repository.pull"
	RepositoryDelete Type = "repository.delete"
	ProjectCreate    Type = "project.create"
	ProjectDelete    Type = "project.delete"
)

// TypeOf makes the type of the end of a change: TypeOf(NIC, "create") is
// nic.create.end.
func TypeOf(r ResourceType, verb string) Type { return Type(string(r) + "." + verb + ".end") }

// Resource is the resource type that a type is about.
func (t Type) Resource() ResourceType {
	r, _, _ := strings.Cut(string(t), ".")
	return ResourceType(r)
}

// Effect is what an event does to the life of its resource.
type Effect int

// Effects. Each may carry size, state and counters too, except that None only
// counts.
const (
	// Changes: the resource exists and something about it changes.
	Changes Effect = iota
	// Opens: the resource exists from now on.
	Opens
	// Closes: the resource exists until now.
	Closes
	// Touches: the resource exists; if it had ended, it does again. A push to a
	// deleted repository makes it anew, and a server that was deleted softly can be
	// restored.
	Touches
	// None: nothing about the resource changes.
	None
)

// Effect says what events of this type do. Types that are not listed here are
// judged by their words: create opens, delete closes, restore touches, each with
// ".start" does nothing yet, anything else changes.
func (t Type) Effect() Effect {
	switch t {
	case RepositoryPush:
		return Touches
	case RepositoryPull:
		return None
	}
	words := strings.Split(string(t), ".")
	begun := len(words) == 3 && words[2] == "start"
	switch {
	case len(words) < 2 || len(words) > 3:
		return Changes
	case begun && (words[1] == "create" || words[1] == "delete" || words[1] == "restore"):
		return None
	case words[1] == "restore":
		return Touches
	case words[1] == "create":
		return Opens
	case words[1] == "delete":
		return Closes
	}
	return Changes
}

// State is what a resource does while it exists. Whether a state costs less is
// for the price list to say; usage only keeps the states apart.
type State string

// States.
const (
	Active     State = "active"
	Off        State = "off"
	Hibernated State = "hibernated"
)

// States lists the states.
func States() []State { return []State{Active, Off, Hibernated} }

// State is the state that a type brings about, or nothing when it leaves the
// state alone. Hibernation starts with hibernate.start and is over with
// hibernate.end: each is sent when the platform says so, not when somebody
// wishes it.
func (t Type) State() State {
	switch {
	case t == ShootHibernateStart:
		return Hibernated
	case t == ShootHibernateEnd, strings.HasSuffix(string(t), ".power_on.end"), strings.HasSuffix(string(t), ".restore.end"):
		return Active
	case strings.HasSuffix(string(t), ".power_off.end"):
		return Off
	case t.Effect() == Opens:
		return Active
	}
	return ""
}

// Size fields. Those that classify a resource are words, even when they look like
// numbers: an IP version is "4". All others are numbers, and usage multiplies
// them by time. IsWord tells them apart.
const (
	VCPUs          = "vcpus"
	Cores          = "cores"
	RAMGB          = "ram_gb"
	DiskGB         = "disk_gb"
	ServerType     = "server_type"
	MachineType    = "machine_type"
	SizeGB         = "size_gb"
	IPVersion      = "ip_version"
	Kind           = "type"
	Targets        = "targets"
	Flavor         = "flavor"
	StorageGB      = "storage_gb"
	NodeCount      = "node_count"
	Bus            = "bus"
	LANID          = "lan_id"
	FirewallActive = "firewall_active"
	// WorkerCount is the number of worker nodes that were ordered at least, over all
	// pools; PoolWorkerCount is that of one pool.
	WorkerCount = "worker_count"
)

var words = []string{ServerType, MachineType, IPVersion, Kind, Flavor, Bus, LANID, FirewallActive}

// IsWord reports whether a size field of one of the tables is a word.
func IsWord(field string) bool {
	return slices.Contains(words, field) || IsPool(field) && strings.HasSuffix(field, poolMachineType)
}

// The size fields of a worker pool of a shoot: pool_<name>_worker_count, a number,
// and pool_<name>_machine_type, a word. A shoot has as many of them as it has
// pools. A pool that is gone has no workers and keeps the word that it had last.
const (
	poolPrefix      = "pool_"
	poolWorkerCount = "_" + WorkerCount
	poolMachineType = "_" + MachineType
)

// PoolWorkerCount and PoolMachineType name the fields of a pool. Names of pools
// have no underscores, so that different pools have different fields.
func PoolWorkerCount(pool string) string { return poolField(pool) + poolWorkerCount }

// PoolMachineType is described at PoolWorkerCount.
func PoolMachineType(pool string) string { return poolField(pool) + poolMachineType }

func poolField(pool string) string { return poolPrefix + strings.ReplaceAll(pool, "-", "_") }

// IsPool reports whether a size field is one of a worker pool.
func IsPool(field string) bool {
	rest, ok := strings.CutPrefix(field, poolPrefix)
	return ok && (len(rest) > len(poolWorkerCount) && strings.HasSuffix(rest, poolWorkerCount) ||
		len(rest) > len(poolMachineType) && strings.HasSuffix(rest, poolMachineType))
}

// Takes reports whether a size field may be one of a resource type: it is in the
// table, or one of the worker pools of a shoot, or there is no table.
func Takes(p Platform, r ResourceType, field string) bool {
	names, closed := fields[p][r]
	return !closed || slices.Contains(names, field) || p == Gardener && r == Shoot && IsPool(field)
}

var fields = map[Platform]map[ResourceType][]string{
	Hetzner: {
		Server:       {VCPUs, RAMGB, DiskGB, ServerType},
		Volume:       {SizeGB},
		FloatingIP:   {IPVersion, Kind},
		LoadBalancer: {Kind, Targets},
	},
	OpenStack: {
		Server:     {VCPUs, RAMGB, DiskGB, Flavor},
		Volume:     {SizeGB, Kind},
		FloatingIP: {IPVersion},
	},
	STACKIT: {
		Server:            {VCPUs, RAMGB, DiskGB, MachineType},
		Volume:            {SizeGB, Kind},
		Database:          {Kind, Flavor, StorageGB},
		KubernetesCluster: {NodeCount, MachineType},
	},
	IONOS: {
		Server:            {Cores, RAMGB, Kind},
		Volume:            {SizeGB, Kind, Bus},
		NIC:               {LANID, FirewallActive},
		ManagedKubernetes: {NodeCount, Cores, RAMGB},
	},
	Gardener: {Shoot: {WorkerCount}},
	Harbor:   {Repository: {StorageGB}},
}

// Fields lists the size fields that every resource of a type has. ok is false when
// there is no list: then any field goes.
func Fields(p Platform, r ResourceType) (names []string, ok bool) {
	names, ok = fields[p][r]
	return slices.Clone(names), ok
}
