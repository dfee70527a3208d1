package hetzner

import (
	"context"
	"errors"
	"log/slog"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// Delete implements provider.Provider. It returns when the server's delete
// action has ended and nothing is left of what Create made.
func (p *Provider) Delete(ctx context.Context, id provider.InstanceID) error {
	key, err := p.parseID(provider.OpDelete, id)
	if err != nil {
		return err
	}
	ctx, cancel := p.limited(ctx)
	defer cancel()
	if err = p.deleteServer(ctx, key.server); err == nil {
		err = p.deleteParts(ctx, key)
	}
	if err != nil {
		return p.classify(ctx, provider.OpDelete, string(id), err)
	}
	p.log.DebugContext(ctx, "deleted", slog.String("instance", string(id)))
	return nil
}

// deleteServer deletes a server and waits for the action: until it has ended
// the server's addresses are still assigned, and its name is taken.
func (p *Provider) deleteServer(ctx context.Context, id int64) error {
	switch d := p.progress.deletion(id); {
	case d.gone:
		return nil
	case d.action != nil:
		return p.finishDelete(ctx, id, d.action)
	}
	for try := 0; ; try++ {
		res, _, err := p.client.Server.DeleteWithResult(ctx, &hcloud.Server{ID: id})
		switch {
		case err == nil && res != nil && res.Action != nil && res.Action.ID != 0:
			p.progress.noteDeletion(id, deletion{action: res.Action})
			return p.finishDelete(ctx, id, res.Action)
		case err == nil:
			return errAnswer
		case isCode(err, hcloud.ErrorCodeLocked):
			// It is still being built, or somebody works on it.
		case isCode(err, hcloud.ErrorCodeNotFound):
			gone, err := p.waitDeleting(ctx, id)
			if gone {
				p.progress.noteDeletion(id, deletion{gone: true})
			}
			if gone || err != nil {
				return err
			}
		default:
			return err
		}
		if err := p.pauses(ctx, try); err != nil {
			return err
		}
	}
}

// finishDelete waits for a delete's action. If that is cut off, the next attempt
// goes on waiting.
func (p *Provider) finishDelete(ctx context.Context, id int64, a *hcloud.Action) error {
	err := p.waitAction(ctx, a)
	var failed *actionError
	switch {
	case err == nil:
		p.progress.noteDeletion(id, deletion{gone: true})
	case errors.As(err, &failed):
		p.progress.noteDeletion(id, deletion{}) // the server is there, the next attempt begins anew
	}
	return err
}

// waitDeleting waits for a delete that somebody else has begun. It gives false
// when the server is there and not on its way out: that delete failed.
func (p *Provider) waitDeleting(ctx context.Context, id int64) (gone bool, err error) {
	for {
		s, err := p.server(ctx, id)
		if err != nil || s == nil {
			return s == nil && err == nil, err
		}
		if s.Status != hcloud.ServerStatusDeleting {
			return false, nil
		}
		if err := p.pause(ctx); err != nil {
			return false, err
		}
	}
}

// pauses waits longer with each try, up to five poll intervals.
func (p *Provider) pauses(ctx context.Context, try int) error {
	for range min(try+1, 5) {
		if err := p.pause(ctx); err != nil {
			return err
		}
	}
	return nil
}

// whenFree makes a request that is refused while something is locked, until it
// is not.
func (p *Provider) whenFree(ctx context.Context, do func() error) error {
	for try := 0; ; try++ {
		err := do()
		if !isCode(err, hcloud.ErrorCodeLocked, hcloud.ErrorCodeConflict, codeMustBeUnassigned) {
			return err
		}
		if err := p.pauses(ctx, try); err != nil {
			return err
		}
	}
}

// deleteParts removes what was made beside a server that is gone.
func (p *Provider) deleteParts(ctx context.Context, key instanceKey) error {
	var errs []error
	if key.parts.v4 {
		errs = append(errs, p.deleteIPNamed(ctx, nameV4(key.name), key.server))
	}
	if key.parts.v6 {
		errs = append(errs, p.deleteIPNamed(ctx, nameV6(key.name), key.server))
	}
	if key.parts.volume {
		errs = append(errs, p.deleteVolumeNamed(ctx, nameVolume(key.name), key.server))
	}
	if key.parts.fw != 0 {
		errs = append(errs, p.dropFirewall(ctx, key.parts.fw))
	}
	return errors.Join(errs...)
}

// ours reports whether labels are of this installation.
func (p *Provider) ours(labels map[string]string) bool {
	return marksOf(labels).Installation == p.installation
}

// deleteIPNamed removes an instance's own address. It goes with its server, so
// mostly it is gone; otherwise it is deleted once it is free.
func (p *Provider) deleteIPNamed(ctx context.Context, name string, server int64) error {
	for {
		ip, _, err := p.client.PrimaryIP.GetByName(ctx, name)
		switch {
		case err != nil || ip == nil:
			return err
		case !p.ours(ip.Labels):
			return nil
		case ip.AssigneeID != 0 && ip.AssigneeID != server:
			p.log.WarnContext(ctx, "an address was given to another server and stays", "instance", name, "server", ip.AssigneeID)
			return nil
		case ip.AssigneeID == 0:
			_, err := p.client.PrimaryIP.Delete(ctx, ip)
			if !isCode(err, codeMustBeUnassigned, hcloud.ErrorCodeLocked) {
				return unlessCode(err, hcloud.ErrorCodeNotFound)
			}
		}
		if err := p.pause(ctx); err != nil {
			return err
		}
	}
}

func (p *Provider) deleteVolumeNamed(ctx context.Context, name string, server int64) error {
	for {
		v, _, err := p.client.Volume.GetByName(ctx, name)
		switch {
		case err != nil || v == nil:
			return err
		case !p.ours(v.Labels):
			return nil
		case v.Server != nil && v.Server.ID != server:
			p.log.WarnContext(ctx, "a volume was given to another server and stays", "instance", name, "server", v.Server.ID)
			return nil
		case v.Server == nil:
			_, err := p.client.Volume.Delete(ctx, v)
			if !isCode(err, hcloud.ErrorCodeResourceInUse, hcloud.ErrorCodeLocked) {
				return unlessCode(err, hcloud.ErrorCodeNotFound)
			}
		}
		if err := p.pause(ctx); err != nil {
			return err
		}
	}
}
