package demoday

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"github.com/tollgate-dev/tollgate/internal/reporting/event"
)

// callTimeout bounds each call: everything is on this machine.
const callTimeout = 20 * time.Second

// cloud is the simulator as a customer sees it, and its clock.
type cloud struct {
	api   *hcloud.Client
	admin string
	http  *http.Client
	// ids are those of what was created, by name.
	ids map[string]int64
}

func newCloud(o Options) *cloud {
	client := &http.Client{Timeout: callTimeout}
	return &cloud{
		api: hcloud.NewClient(hcloud.WithEndpoint(o.Endpoint), hcloud.WithToken(o.Token), hcloud.WithApplication("tollgate-dev", ""),
			hcloud.WithHTTPClient(client), hcloud.WithRetryOpts(hcloud.RetryOpts{MaxRetries: 0})),
		admin: o.Admin, http: client, ids: map[string]int64{},
	}
}

// tell calls the simulator itself.
func (c *cloud) tell(ctx context.Context, method, path string, body, into any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, method, c.admin+path, bytes.NewReader(b))
	if err != nil {
		return err
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the simulator answers %s to %s: %s", resp.Status, path, answer)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(answer, into)
}

// now is the time of the simulated clock.
func (c *cloud) now(ctx context.Context) (time.Time, error) {
	var state struct{ Now time.Time }
	err := c.tell(ctx, http.MethodGet, "/state", nil, &state)
	return state.Now, err
}

// set moves the simulated clock.
func (c *cloud) set(ctx context.Context, t time.Time) error {
	return c.tell(ctx, http.MethodPost, "/clock", map[string]any{"now": t}, nil)
}

// holdReads lets nobody read until release is called.
func (c *cloud) holdReads(ctx context.Context) (release func(), err error) {
	var fault struct{ ID int }
	err = c.tell(ctx, http.MethodPost, "/faults", map[string]any{
		"fault": map[string]any{"kind": "hang", "method": http.MethodGet, "times": -1}}, &fault)
	return func() {
		// What ends the script must not leave the readers hanging.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
		defer cancel()
		_ = c.tell(ctx, http.MethodPost, "/faults/remove", map[string]any{"id": fault.ID}, nil) // the events will be missing, which is said
	}, err
}

func (c *cloud) server(name string) *hcloud.Server { return &hcloud.Server{ID: c.ids[name]} }
func (c *cloud) volume(name string) *hcloud.Volume { return &hcloud.Volume{ID: c.ids[name]} }
func (c *cloud) balancer() *hcloud.LoadBalancer    { return &hcloud.LoadBalancer{ID: c.ids["front"]} }

// createServer creates a server, which starts it too. Nil is a size that nobody
// gets to know.
func (c *cloud) createServer(ctx context.Context, name string, size event.Size) ([]event.Event, error) {
	typ, known := "cx23", unknown(event.Server)
	if size != nil {
		typ, known = size[event.ServerType].String(), sized(size)
	}
	r, _, err := c.api.Server.Create(ctx, hcloud.ServerCreateOpts{Name: name, ServerType: &hcloud.ServerType{Name: typ},
		Image: &hcloud.Image{Name: "debian-13"}, Location: &hcloud.Location{Name: location}})
	if err != nil {
		return nil, err
	}
	c.ids[name] = r.Server.ID
	events := []event.Event{made(event.ServerCreate, r.Server.ID, event.ChangeCreate, known)}
	for _, a := range r.NextActions {
		if a.Command == "start_server" {
			events = append(events, made(event.ServerPowerOn, r.Server.ID, action(a)))
		}
	}
	return events, nil
}

func (c *cloud) createVolume(ctx context.Context, name string, size int) ([]event.Event, error) {
	r, _, err := c.api.Volume.Create(ctx, hcloud.VolumeCreateOpts{Name: name, Size: size, Location: &hcloud.Location{Name: location}})
	if err != nil {
		return nil, err
	}
	c.ids[name] = r.Volume.ID
	return []event.Event{made(event.VolumeCreate, r.Volume.ID, event.ChangeCreate, sized(gigabytes(size)))}, nil
}

func (c *cloud) resizeVolume(ctx context.Context, name string, from, to int) ([]event.Event, error) {
	a, _, err := c.api.Volume.Resize(ctx, c.volume(name), to)
	if err != nil {
		return nil, err
	}
	return []event.Event{made(event.VolumeResize, c.ids[name], action(a), sized(gigabytes(to)), was(gigabytes(from)))}, nil
}

func (c *cloud) deleteVolume(ctx context.Context, name string, size int) ([]event.Event, error) {
	_, err := c.api.Volume.Delete(ctx, c.volume(name))
	return []event.Event{made(event.VolumeDelete, c.ids[name], event.ChangeDelete, sized(gigabytes(size)), concluded)}, err
}

// ipv4 is the size of a floating IP.
var ipv4 = event.Size{event.IPVersion: event.Text("4"), event.Kind: event.Text("ipv4")}

func (c *cloud) createFloatingIP(ctx context.Context, name string) ([]event.Event, error) {
	r, _, err := c.api.FloatingIP.Create(ctx, hcloud.FloatingIPCreateOpts{Type: hcloud.FloatingIPTypeIPv4, Name: &name,
		HomeLocation: &hcloud.Location{Name: location}})
	if err != nil {
		return nil, err
	}
	c.ids[name] = r.FloatingIP.ID
	return []event.Event{made(event.FloatingIPCreate, r.FloatingIP.ID, event.ChangeCreate, sized(ipv4))}, nil
}

func (c *cloud) deleteFloatingIP(ctx context.Context, name string) ([]event.Event, error) {
	_, err := c.api.FloatingIP.Delete(ctx, &hcloud.FloatingIP{ID: c.ids[name]})
	return []event.Event{made(event.FloatingIPDelete, c.ids[name], event.ChangeDelete, sized(ipv4), concluded)}, err
}

func (c *cloud) createBalancer(ctx context.Context, name string) ([]event.Event, error) {
	r, _, err := c.api.LoadBalancer.Create(ctx, hcloud.LoadBalancerCreateOpts{Name: name,
		LoadBalancerType: &hcloud.LoadBalancerType{Name: "lb11"}, Location: &hcloud.Location{Name: location}})
	if err != nil {
		return nil, err
	}
	c.ids[name] = r.LoadBalancer.ID
	return []event.Event{made(event.LoadBalancerCreate, r.LoadBalancer.ID, event.ChangeCreate, sized(targets(0)))}, nil
}

func (c *cloud) addTarget(ctx context.Context, server string, now int) ([]event.Event, error) {
	a, _, err := c.api.LoadBalancer.AddServerTarget(ctx, c.balancer(), hcloud.LoadBalancerAddServerTargetOpts{Server: c.server(server)})
	if err != nil {
		return nil, err
	}
	return []event.Event{made(event.LoadBalancerAddTarget, c.balancer().ID, action(a), sized(targets(now)), was(targets(now-1)))}, nil
}

func (c *cloud) removeTarget(ctx context.Context, server string, now int) ([]event.Event, error) {
	a, _, err := c.api.LoadBalancer.RemoveServerTarget(ctx, c.balancer(), c.server(server))
	if err != nil {
		return nil, err
	}
	return []event.Event{made(event.LoadBalancerRemoveTarget, c.balancer().ID, action(a), sized(targets(now)), was(targets(now+1)))}, nil
}

func (c *cloud) deleteBalancer(ctx context.Context) ([]event.Event, error) {
	_, _, err := c.api.LoadBalancer.DeleteWithResult(ctx, c.balancer())
	return []event.Event{made(event.LoadBalancerDelete, c.balancer().ID, event.ChangeDelete, sized(targets(0)))}, err
}
