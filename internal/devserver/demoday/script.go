package demoday

import (
	"context"
	"fmt"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"github.com/tollgate-dev/tollgate/internal/reporting/event"
)

// step is something that happens at a time and the events that come of it. Events
// without a time have the step's.
type step struct {
	at   time.Time
	what string
	do   func(context.Context, *cloud) ([]event.Event, error)
}

// clock is a time of the day.
func clock(hour, minute int) time.Time {
	return From.Add(time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute)
}

const location = "fsn1"

// Sizes that servers have on the way. A server whose type is changed without its
// disk keeps it.
var (
	cx23 = serverSize(2, 4, 40, "cx23")
	cx33 = serverSize(4, 8, 80, "cx33")
	// cx33small is a cx33 with the disk of a cx23.
	cx33small = serverSize(4, 8, 40, "cx33")
)

func serverSize(vcpus, ram, disk int, typ string) event.Size {
	return event.Size{event.VCPUs: event.Int(vcpus), event.RAMGB: event.Int(ram), event.DiskGB: event.Int(disk), event.ServerType: event.Text(typ)}
}

func gigabytes(n int) event.Size { return event.Size{event.SizeGB: event.Int(n)} }

func targets(n int) event.Size {
	return event.Size{event.Kind: event.Text("lb11"), event.Targets: event.Int(n)}
}

// script is the day. The figures of docs/tutorials/first-toll.md rest on it.
func script() []step {
	return []step{
		{clock(-12, 0), "volume data is created: 10 GB", func(ctx context.Context, c *cloud) ([]event.Event, error) {
			return c.createVolume(ctx, "data", 10)
		}},
		{clock(5, 0), "floating IP entry is created", func(ctx context.Context, c *cloud) ([]event.Event, error) {
			return c.createFloatingIP(ctx, "entry")
		}},
		{clock(6, 0), "server web is created: cx23", func(ctx context.Context, c *cloud) ([]event.Event, error) {
			return c.createServer(ctx, "web", cx23)
		}},
		{clock(7, 0), "volume scratch is created: 100 GB", func(ctx context.Context, c *cloud) ([]event.Event, error) {
			return c.createVolume(ctx, "scratch", 100)
		}},
		{clock(8, 0), "load balancer front is created: lb11, without targets", func(ctx context.Context, c *cloud) ([]event.Event, error) {
			return c.createBalancer(ctx, "front")
		}},
		{clock(9, 0), "web becomes a target of front", func(ctx context.Context, c *cloud) ([]event.Event, error) {
			return c.addTarget(ctx, "web", 1)
		}},
		{clock(10, 0), "web is powered off", power("web", false)},
		{clock(10, 30), "web is upgraded to cx33, with the disk that it had", changeType("web", event.ServerUpgrade, cx23, cx33small)},
		{clock(11, 0), "web is powered on", power("web", true)},
		{clock(12, 0), "data is resized to 50 GB", func(ctx context.Context, c *cloud) ([]event.Event, error) {
			return c.resizeVolume(ctx, "data", 10, 50)
		}},
		{clock(13, 0), "server batch is created: cx33", func(ctx context.Context, c *cloud) ([]event.Event, error) {
			return c.createServer(ctx, "batch", cx33)
		}},
		{clock(14, 0), "batch becomes a target of front", func(ctx context.Context, c *cloud) ([]event.Event, error) {
			return c.addTarget(ctx, "batch", 2)
		}},
		{clock(15, 0), "server flash is created: it lives for 3 seconds, and nobody sees it", flash},
		{clock(16, 0), "batch is no target of front any more", func(ctx context.Context, c *cloud) ([]event.Event, error) {
			return c.removeTarget(ctx, "batch", 1)
		}},
		{clock(17, 0), "entry is deleted: the vendor has no action for that, the inventory finds it", func(ctx context.Context, c *cloud) ([]event.Event, error) {
			return c.deleteFloatingIP(ctx, "entry")
		}},
		{clock(18, 0), "batch is deleted", deleteServer("batch", cx33)},
		{clock(19, 0), "web is powered off", power("web", false)},
		{clock(19, 30), "web is downgraded to cx23", changeType("web", event.ServerDowngrade, cx33small, cx23)},
		{clock(20, 0), "web is powered on", power("web", true)},
		{clock(21, 0), "scratch is deleted: the inventory finds that too", func(ctx context.Context, c *cloud) ([]event.Event, error) {
			return c.deleteVolume(ctx, "scratch", 100)
		}},
		{clock(22, 0), "web is no target of front any more", func(ctx context.Context, c *cloud) ([]event.Event, error) {
			return c.removeTarget(ctx, "web", 0)
		}},
		{clock(22, 30), "front is deleted", func(ctx context.Context, c *cloud) ([]event.Event, error) {
			return c.deleteBalancer(ctx)
		}},
		{clock(23, 0), "web is deleted", deleteServer("web", cx23)},
	}
}

func power(name string, on bool) func(context.Context, *cloud) ([]event.Event, error) {
	return func(ctx context.Context, c *cloud) ([]event.Event, error) {
		call, typ := c.api.Server.Poweroff, event.ServerPowerOff
		if on {
			call, typ = c.api.Server.Poweron, event.ServerPowerOn
		}
		a, _, err := call(ctx, c.server(name))
		if err != nil {
			return nil, err
		}
		return []event.Event{made(typ, c.ids[name], action(a))}, nil
	}
}

func changeType(name string, typ event.Type, from, to event.Size) func(context.Context, *cloud) ([]event.Event, error) {
	return func(ctx context.Context, c *cloud) ([]event.Event, error) {
		a, _, err := c.api.Server.ChangeType(ctx, c.server(name), hcloud.ServerChangeTypeOpts{
			ServerType: &hcloud.ServerType{Name: to[event.ServerType].String()}})
		if err != nil {
			return nil, err
		}
		return []event.Event{made(typ, c.ids[name], action(a), sized(to), was(from))}, nil
	}
}

func deleteServer(name string, size event.Size) func(context.Context, *cloud) ([]event.Event, error) {
	return func(ctx context.Context, c *cloud) ([]event.Event, error) {
		_, _, err := c.api.Server.DeleteWithResult(ctx, c.server(name))
		return []event.Event{made(event.ServerDelete, c.ids[name], event.ChangeDelete, sized(size))}, err
	}
}

// flash is a server that comes and goes between two reads. Reads are held up
// meanwhile: on a real day it is luck that none falls in between.
func flash(ctx context.Context, c *cloud) ([]event.Event, error) {
	release, err := c.holdReads(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	events, err := c.createServer(ctx, "flash", nil)
	if err != nil {
		return nil, err
	}
	end := clock(15, 0).Add(3 * time.Second)
	if err := c.set(ctx, end); err != nil {
		return nil, err
	}
	if _, _, err := c.api.Server.DeleteWithResult(ctx, c.server("flash")); err != nil {
		return nil, err
	}
	for i := range events {
		events[i].Time = clock(15, 0)
	}
	gone := made(event.ServerDelete, c.ids["flash"], event.ChangeDelete, unknown(event.Server))
	gone.Time = end
	return append(events, gone), nil
}

// made is an event that a step leads to.
func made(typ event.Type, id int64, change string, more ...func(*event.Data)) event.Event {
	d := event.Data{Platform: event.Hetzner, Account: Account, Change: change,
		Resource: event.Resource{Type: typ.Resource(), ID: fmt.Sprint(id)}}
	for _, m := range more {
		m(&d)
	}
	return event.New(typ, time.Time{}, d)
}

func sized(s event.Size) func(*event.Data) { return func(d *event.Data) { d.Size = s } }
func was(s event.Size) func(*event.Data)   { return func(d *event.Data) { d.PreviousSize = s } }

// concluded is an end that the inventory has found.
func concluded(d *event.Data) { d.Derived = event.FromInventory }

// unknown says that nobody knows any size.
func unknown(t event.ResourceType) func(*event.Data) {
	return func(d *event.Data) { d.UnknownSize, _ = event.Fields(event.Hetzner, t) }
}
