package simcloud

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacksim"
)

const (
	// OpenStackName is the name of the simulator on the command line.
	OpenStackName = "openstack-sim"
	// OpenStackProvider is the name of the provider that it adds, and OpenStackSource
	// that of the source that reads it.
	OpenStackProvider = "openstack"
	OpenStackSource   = "openstack"
)

const (
	openStackUser    = "demo"
	openStackProject = "demo"
	passwordFile     = "password"
)

// openStackNetwork is where its servers have their addresses.
var openStackNetwork = netip.MustParsePrefix("127.82.0.0/16")

// OpenStack is a running simulator of an OpenStack cloud with one project, whose
// servers are real forward proxies.
type OpenStack struct {
	dir, addr string
	sim       *openstacksim.Sim
	machines  *OpenStackMachines
	server    *http.Server
	orders    orders
}

// StartOpenStack runs the simulator on a free port of loopback. dir keeps the
// password and the state: started again there, servers that ran run again at
// their addresses.
func StartOpenStack(dir string, log *slog.Logger) (*OpenStack, error) {
	fail := func(err error) (*OpenStack, error) { return nil, fmt.Errorf("%s: %w", OpenStackName, err) }
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fail(err)
	}
	password, err := ensureToken(filepath.Join(dir, passwordFile))
	if err != nil {
		return fail(err)
	}
	log = log.With("component", OpenStackName)
	o := &OpenStack{dir: dir, machines: NewOpenStackMachines(openStackNetwork, log)}
	o.sim, err = openstacksim.Open(openstacksim.Options{
		Users: map[string]string{openStackUser: password}, BuildTime: 3 * time.Second, DeleteTime: time.Second, ActionTime: 2 * time.Second,
		VolumeTime: time.Second, Backend: o.machines, StateFile: filepath.Join(dir, stateFile), Logger: log,
	})
	if err != nil {
		o.machines.Close()
		return fail(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		o.machines.Close()
		return fail(err)
	}
	o.addr = l.Addr().String()
	o.server = &http.Server{Handler: o.handler(), ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
	go func() {
		if err := o.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("simulator ended", "error", err)
		}
	}()
	return o, nil
}

// Endpoint is the URL of its identity service, AdminURL that of what tells it to
// fail.
func (o *OpenStack) Endpoint() string { return "http://" + o.addr + "/identity/v3" }

// AdminURL is the base URL of the paths by which the simulator itself is told
// what to do: faults, quotas, states of servers.
func (o *OpenStack) AdminURL() string { return "http://" + o.addr + "/_sim" }

// PasswordFile holds the password of the project's user.
func (o *OpenStack) PasswordFile() string { return filepath.Join(o.dir, passwordFile) }

// Config is what a configuration needs to use it, as an overlay of
// config.Options.
func (o *OpenStack) Config() []byte {
	return fmt.Appendf(nil, `providers:
  - name: %s
    type: openstack
    drift: {interval: 15s}
    openstack:
      auth: {url: %q, username: %s, password: openstack-sim-password, project: %s}
      flavor: m1.small
      image: debian-13
      network: private
      poll: 500ms
secrets:
  openstack-sim-password: {file: %q}
`, OpenStackProvider, o.Endpoint(), openStackUser, openStackProject, o.PasswordFile())
}

// Sources is an overlay with a source that reads it and delivers to a sink. It
// needs Config beside it.
func (o *OpenStack) Sources(sink string) []byte {
	return fmt.Appendf(nil, `sources:
  - name: %s
    type: openstack
    account: %s
    sink: %s
    interval: 15s
    inventory: {interval: 2m}
    openstack:
      auth: {url: %q, username: %s, password: openstack-sim-password, project: %s}
`, OpenStackSource, OpenStackName, sink, o.Endpoint(), openStackUser, openStackProject)
}

// Close stops the simulator and its proxies, and keeps its state.
func (o *OpenStack) Close(ctx context.Context) error {
	o.orders.faults.Clear() // nobody waits for an answer any more
	err := o.server.Shutdown(ctx)
	o.sim.Save()
	o.machines.Close()
	return err
}
