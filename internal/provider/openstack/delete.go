package openstack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/volumeattach"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/tollgate-dev/tollgate/internal/openstack/cloud"
	"github.com/tollgate-dev/tollgate/internal/provider"
)

// errSlow is a wait that takes longer than an operation may.
var errSlow = errors.New("the cloud takes longer than waitLimit")

// slow is the error, with what was waited for if it is errSlow.
func slow(err error, kind, id, status string) error {
	if !errors.Is(err, errSlow) {
		return err
	}
	return fmt.Errorf("%w: %s %s is still %s", errSlow, kind, id, status)
}

// limited bounds the waits of an operation.
func (p *Provider) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, p.opt.WaitLimit, errSlow)
}

// pause waits for one poll interval.
func (p *Provider) pause(ctx context.Context) error { return sleep(ctx, p.opt.Poll) }

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// pauses waits for a part of the poll interval at first: most deletes take a
// second.
func (p *Provider) pauses(ctx context.Context, try int) error {
	if try > 3 {
		return p.pause(ctx)
	}
	return sleep(ctx, min(p.opt.Poll, 250*time.Millisecond<<try))
}

// Delete implements provider.Provider. It returns when the server is gone and
// nothing is left of what Create made.
func (p *Provider) Delete(ctx context.Context, id provider.InstanceID) error {
	key, err := p.parseID(provider.OpDelete, id)
	if err != nil {
		return err
	}
	if err := p.deleteAll(ctx, key); err != nil {
		return p.classify(ctx, provider.OpDelete, string(id), err)
	}
	p.log.DebugContext(ctx, "deleted", slog.String("instance", string(id)))
	return nil
}

func (p *Provider) deleteAll(ctx context.Context, key instanceKey) error {
	r, err := p.at(ctx, key.region)
	if err != nil {
		return err
	}
	ctx, cancel := p.limited(ctx)
	defer cancel()
	s, err := p.server(ctx, r, key.server)
	if err != nil {
		return err
	}
	what := allParts // an earlier attempt, or somebody else, has removed the server
	if s != nil {
		if pt, ok := parseParts(s.Metadata[metaParts]); ok {
			what = pt
		}
		if err := p.deleteServer(ctx, r, *s); err != nil {
			return err
		}
	}
	return p.deleteParts(ctx, r, key, what)
}

// askAgain is after how many looks at a server that does not go its delete is
// asked for again, and mostAsks how often.
const (
	askAgain = 8
	mostAsks = 3
)

// deleteServer deletes a server and waits until it is gone. One that the cloud
// keeps for a while (soft delete) is deleted for good. One that is deleted while
// it is built can be seen running, or in error, for a moment before it goes.
func (p *Provider) deleteServer(ctx context.Context, r *region, s server) error {
	asks, forced := 0, false
	for try := 0; ; try++ {
		var err error
		switch again := try > 0 && try%askAgain == 0; {
		case s.Status == "SOFT_DELETED" && s.Task == "" && !forced:
			err, forced = servers.ForceDelete(ctx, r.Compute, s.ID).ExtractErr(), true
		case s.Task == "deleting" && again && asks < mostAsks:
			// The host that was told may be down: told again, the service does it without.
			err, asks = servers.Delete(ctx, r.Compute, s.ID).ExtractErr(), asks+1
			if cloud.StatusOf(err) == http.StatusConflict {
				err = nil
			}
		case s.ending() || asks > 0 && !again:
		case asks == mostAsks:
			return fmt.Errorf("server %s does not go, it is %s: %s", s.ID, s.Status, cmp.Or(s.Fault.Message, "no fault is known"))
		default:
			err, asks = servers.Delete(ctx, r.Compute, s.ID).ExtractErr(), asks+1
		}
		if cloud.NotThere(err) {
			return nil
		}
		if err != nil {
			return slow(err, "server", s.ID, s.state())
		}
		var next *server
		if err = p.pauses(ctx, try); err == nil {
			next, err = p.server(ctx, r, s.ID)
		}
		if err != nil || next == nil {
			return slow(err, "server", s.ID, s.state())
		}
		s = *next
	}
}

// deleteParts removes what was made beside a server that is gone: first the
// address, which is found by its port, then the port.
func (p *Provider) deleteParts(ctx context.Context, r *region, key instanceKey, what parts) error {
	var errs []error
	if what.floating {
		errs = append(errs, p.deleteFloating(ctx, r, key.name))
	}
	if what.port {
		errs = append(errs, p.deletePorts(ctx, r, key))
	}
	if what.volume && r.Volume != nil {
		errs = append(errs, p.deleteVolumes(ctx, r, key))
	}
	return errors.Join(errs...)
}

// ours reports whether marks are of this installation.
func (p *Provider) ours(l label) bool { return l.marks.Installation == p.installation }

func (p *Provider) deleteFloating(ctx context.Context, r *region, instance string) error {
	there, err := p.floatingOf(ctx, r, nil, instance)
	errs := []error{err}
	for _, f := range there {
		if p.ours(f.label()) {
			errs = append(errs, gone(floatingips.Delete(ctx, r.Network, f.ID).ExtractErr()))
		}
	}
	return errors.Join(errs...)
}

func (p *Provider) deletePorts(ctx context.Context, r *region, key instanceKey) error {
	there, err := p.portsOf(ctx, r, key.name)
	errs := []error{err}
	for _, x := range there {
		switch {
		case !p.ours(x.label()):
		case x.Device != "" && x.Device != key.server:
			p.log.WarnContext(ctx, "a port was given to another server and stays", "instance", key.name, "server", x.Device)
		default:
			errs = append(errs, gone(ports.Delete(ctx, r.Network, x.ID).ExtractErr()))
		}
	}
	return errors.Join(errs...)
}

func (p *Provider) deleteVolumes(ctx context.Context, r *region, key instanceKey) error {
	there, err := p.volumesOf(ctx, r, key.name)
	errs := []error{err}
	for _, v := range there {
		switch {
		case !p.ours(v.label()):
		case v.server() != "" && v.server() != key.server:
			p.log.WarnContext(ctx, "a volume was given to another server and stays", "instance", key.name, "server", v.server())
		default:
			errs = append(errs, p.deleteVolume(ctx, r, v))
		}
	}
	return errors.Join(errs...)
}

// volume reads a volume by its id, nil when there is none.
func (p *Provider) volume(ctx context.Context, r *region, id string) (*volume, error) {
	var doc struct {
		Volume *volume `json:"volume"`
	}
	if _, err := r.Volume.Get(ctx, r.Volume.ServiceURL("volumes", id), &doc, &gophercloud.RequestOpts{OkCodes: []int{http.StatusOK}}); err != nil {
		return nil, gone(err)
	}
	if doc.Volume == nil || doc.Volume.ID != id {
		return nil, cloud.ErrAnswer
	}
	return doc.Volume, nil
}

// deleteVolume detaches a volume, deletes it as soon as it is free, and waits
// until it is gone.
func (p *Provider) deleteVolume(ctx context.Context, r *region, v volume) error {
	ctx, cancel := p.limited(ctx)
	defer cancel()
	detached, deleted := false, false
	for {
		var err error
		switch {
		case v.Status == "deleting":
		case v.server() != "" && !detached:
			err, detached = volumeattach.Delete(ctx, r.Compute, v.server(), v.ID).ExtractErr(), true
			if cloud.NotThere(err) || cloud.StatusOf(err) == http.StatusConflict {
				err = nil // the server is going, and lets go of it
			}
		case deletable(v.Status) && !deleted:
			if err = volumes.Delete(ctx, r.Volume, v.ID, nil).ExtractErr(); cloud.StatusOf(err) == http.StatusBadRequest {
				err = nil // it is in use again, or not quite free: look again
			} else {
				deleted = true
			}
		case v.Status == "error_deleting":
			return fmt.Errorf("volume %s: its delete ended in error: it is error_deleting until the cloud's operator resets it", v.ID)
		}
		if cloud.NotThere(err) {
			return nil
		}
		if err != nil {
			return err
		}
		var next *volume
		if err = p.pause(ctx); err == nil {
			next, err = p.volume(ctx, r, v.ID)
		}
		if err != nil || next == nil {
			return slow(err, "volume", v.ID, v.Status)
		}
		v = *next
	}
}

// deletable reports whether the volume service deletes what has this status.
func deletable(status string) bool {
	return slices.Contains([]string{"available", "error", "error_extending", "error_managing", "error_restoring"}, status)
}

// gone is the error, or nil when it says that there is nothing.
func gone(err error) error {
	if cloud.NotThere(err) {
		return nil
	}
	return err
}
