// Package provider is the contract between Tollgate and a cloud: what an
// instance is, what a driver must do with it, how its failures are classed, and
// how everything it makes is marked so that nothing is ever leaked or taken from
// somebody else.
//
// The rules are numbered clauses (PC-01 ...) that live in the package
// providertest, which runs each of them against every driver and renders
// docs/provider-contract.md from the same table. This package imports the
// standard library only; drivers are leaves that import it.
package provider

import (
	"context"
	"net/netip"
	"time"
)

// InstanceID identifies an instance for its provider and nobody else. It is
// self-contained: Get and Delete find the instance by it alone, whatever the
// configuration or the spec says by then. The zero value is invalid.
type InstanceID string

// State is what a provider says of an instance, normalised by the driver.
type State string

// The states of an instance.
const (
	// StateProvisioning is an instance on its way to Running: being built,
	// booting, or running without an address yet.
	StateProvisioning State = "Provisioning"
	// StateRunning is an instance that runs and has an address.
	StateRunning State = "Running"
	// StateStopped is an instance that exists and will not run again by itself.
	StateStopped State = "Stopped"
	// StateTerminated is an instance that is being deleted or is of no further
	// use, and whose name is still taken.
	StateTerminated State = "Terminated"
)

// Instance is one VM-like thing at a provider. Every field is read back from
// the backend; a driver never answers from memory.
type Instance struct {
	ID   InstanceID `json:"id"`
	Name string     `json:"name"`
	// IP is where clients and probes connect. It is valid whenever State is
	// StateRunning.
	IP    netip.Addr `json:"ip,omitzero"`
	State State      `json:"state"`
	// RawState is the backend's own word for the state, for people.
	RawState string `json:"rawState,omitempty"`
	Marks    Marks  `json:"marks"`
	// CreatedAt is the backend's creation time in UTC. Zero when the backend's
	// value could not be read, which never shields an orphan.
	CreatedAt time.Time `json:"createdAt,omitzero"`
	Placement Placement `json:"placement,omitzero"`
}

// Placement says where and on what an instance runs. Which fields apply, and
// what a value means, is the provider's affair; its docs page lists them.
type Placement struct {
	Region      string `json:"region,omitempty" yaml:"region,omitempty"`
	Zone        string `json:"zone,omitempty" yaml:"zone,omitempty"`
	MachineType string `json:"machineType,omitempty" yaml:"machineType,omitempty"`
	Image       string `json:"image,omitempty" yaml:"image,omitempty"`
}

// CreateRequest asks for one instance.
type CreateRequest struct {
	// Name is the idempotency key: two creates of one name make one instance.
	// It comes from InstanceName.
	Name      string
	Marks     Marks
	Placement Placement
	// CloudInit reaches the guest byte for byte, and nothing else: no log, no
	// span, no error.
	CloudInit Sensitive
	// Auth, when set, are the credentials the proxy must ask of its clients, for
	// backends that configure the proxy themselves. Others ignore it: there
	// CloudInit configures the proxy.
	Auth *BasicAuth
	// Port is the TCP port on which the proxy in the instance listens, 1-65535.
	Port int
}

// BasicAuth are the credentials that a proxy asks of its clients.
type BasicAuth struct {
	Username string
	Password Sensitive
}

// Provider is one configured account or scope of a backend. All methods are
// safe for concurrent use, for the same instance too; each honours ctx and
// returns promptly once it ends; each error is built with Wrap.
type Provider interface {
	// Create makes the instance and returns once the request is submitted. A
	// repeat with a name that exists returns that instance's ID if its marks
	// equal the request's (uid, installation and spec hash), and Conflict if
	// they differ. Never NotFound.
	Create(ctx context.Context, req CreateRequest) (InstanceID, error)
	// Get returns the instance, or NotFound when and only when it is gone. While
	// a delete is under way the instance is still returned.
	Get(ctx context.Context, id InstanceID) (Instance, error)
	// Find returns the instance with exactly this name whose marks carry this
	// uid and installation. NotFound when there is no instance of that name;
	// Conflict when the name is taken by an instance that is not ours. It sees
	// what Create made as soon as Create has returned, and is how a create of
	// unknown outcome is cleaned up.
	Find(ctx context.Context, name string, owner Marks) (Instance, error)
	// Delete removes the instance and everything Create made for it. Absent is
	// success; already deleting is success.
	Delete(ctx context.Context, id InstanceID) error
	// List returns the instances that carry the managed mark and match the
	// selector, all pages, or an error: never a part of them.
	List(ctx context.Context, sel Selector) ([]Instance, error)
}

// Selector narrows a List. Fields are joined by AND; a zero field matches all.
type Selector struct {
	Installation string `json:"installation,omitempty"`
	UID          string `json:"uid,omitempty"`
	Namespace    string `json:"namespace,omitempty"`
	Proxy        string `json:"proxy,omitempty"`
}

// Matches reports whether marks satisfy the selector.
func (s Selector) Matches(m Marks) bool {
	return (s.Installation == "" || s.Installation == m.Installation) &&
		(s.UID == "" || s.UID == m.UID) &&
		(s.Namespace == "" || s.Namespace == m.Namespace) &&
		(s.Proxy == "" || s.Proxy == m.Proxy)
}
