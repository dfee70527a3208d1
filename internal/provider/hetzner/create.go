package hetzner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// MaxUserData is the vendor's limit of cloud-init in bytes.
// Source: https://docs.hetzner.cloud/reference/cloud#tag/servers/create_server (read 2026-11).
const MaxUserData = 32 << 10

// Create implements provider.Provider.
func (p *Provider) Create(ctx context.Context, req provider.CreateRequest) (provider.InstanceID, error) {
	id, at, err := p.create(ctx, req)
	if err != nil {
		secrets := []provider.Sensitive{req.CloudInit}
		if req.Auth != nil {
			secrets = append(secrets, req.Auth.Password)
		}
		return "", p.classify(ctx, provider.OpCreate, req.Name, err, secrets...)
	}
	p.log.DebugContext(ctx, "created", slog.String("instance", string(id)), slog.String("candidate", at),
		slog.Int("cloud_init_bytes", req.CloudInit.Len()))
	return id, nil
}

func (p *Provider) create(ctx context.Context, req provider.CreateRequest) (id provider.InstanceID, at string, err error) {
	if err := ctx.Err(); err != nil {
		return "", "", err
	}
	labels, err := p.checkRequest(req)
	if err != nil {
		return "", "", err
	}
	places, err := p.places(ctx, req)
	if err != nil {
		return "", "", err
	}
	keys, err := p.ensureKeys(ctx)
	if err != nil {
		return "", "", err
	}
	var soldOut []string
	var elsewhere error
	for _, pl := range places {
		networks, err := p.ensureNetworks(ctx, pl.location)
		if errors.Is(err, errZone) {
			elsewhere = err
			continue
		}
		if err != nil {
			return "", "", err
		}
		id, err = p.createAt(ctx, order{req: req, place: pl, labels: labels, parts: p.opt.partsFor(req.Port), keys: keys, networks: networks})
		if err == nil {
			p.soldOut.forget(pl.Candidate)
			return id, pl.String(), nil
		}
		if v, _ := p.judge(ctx, provider.OpCreate, err); v.class != provider.CapacityUnavailable {
			return "", "", err
		}
		p.soldOut.note(pl.Candidate)
		soldOut = append(soldOut, fmt.Sprintf("%s: %v", pl, stable(err)))
	}
	if len(soldOut) == 0 {
		return "", "", elsewhere
	}
	return "", "", provider.Wrap(provider.CapacityUnavailable, provider.OpCreate, p.name, req.Name,
		fmt.Errorf("sold out everywhere: %s", strings.Join(soldOut, "; ")))
}

// checkRequest checks, before any request, what the vendor would refuse or
// change, and returns the labels.
func (p *Provider) checkRequest(req provider.CreateRequest) (map[string]string, error) {
	switch n := req.CloudInit.Len(); {
	case n > MaxUserData:
		return nil, p.invalidSpec(req.Name, "cloudInit: %d bytes are too many: the vendor takes %d", n, MaxUserData)
	case !utf8.Valid(req.CloudInit.Reveal()):
		return nil, p.invalidSpec(req.Name, "cloudInit: is not UTF-8: the vendor takes it as a JSON text, which cannot hold other bytes")
	case req.Port < 1 || req.Port > 65535:
		return nil, p.invalidSpec(req.Name, "port: %d: want 1 to 65535", req.Port)
	}
	if err := provider.ValidateName("name", req.Name); err != nil {
		return nil, p.invalidSpec(req.Name, "%v", err)
	}
	labels := req.Marks.Labels()
	labels[labelPort] = strconv.Itoa(req.Port)
	labels[labelParts] = p.opt.partsFor(req.Port).String()
	check := map[string]any{}
	for k, v := range labels {
		check[k] = v
	}
	if ok, err := hcloud.ValidateResourceLabels(check); !ok {
		return nil, p.invalidSpec(req.Name, "marks: %v", err)
	}
	return labels, nil
}

// order is one attempt to create a server at one place.
type order struct {
	req      provider.CreateRequest
	place    place
	labels   map[string]string
	parts    parts
	keys     []*hcloud.SSHKey
	networks []*hcloud.Network
}

// orderTries is how often an order is repeated because something that instances
// share, or that a concurrent create of the same name uses, has gone meanwhile.
const orderTries = 6

// createAt makes the server and what belongs to it at one place.
func (p *Provider) createAt(ctx context.Context, o order) (provider.InstanceID, error) {
	var err error
	for range orderTries {
		var id provider.InstanceID
		var again bool
		if id, again, err = p.placeOrder(ctx, o); !again {
			return id, err
		}
		p.firewall.forget(o.parts.fw)
	}
	return "", provider.Wrap(provider.Transient, provider.OpCreate, p.name, o.req.Name, stable(err))
}

// placeOrder makes one attempt. again says that it failed because something it
// names has gone.
func (p *Provider) placeOrder(ctx context.Context, o order) (id provider.InstanceID, again bool, err error) {
	made, err := p.makeParts(ctx, o)
	if err == nil {
		var res hcloud.ServerCreateResult
		res, _, err = p.client.Server.Create(ctx, p.serverOpts(o, made))
		if err == nil && (res.Server == nil || res.Server.ID == 0) {
			err = errAnswer
		}
		if err == nil {
			return p.created(ctx, o, res.Server)
		}
	}
	if !refused(err) {
		// The server may exist, so what belongs to it stays: the retry finds it,
		// or the sweep does.
		p.progress.noteMade(o.req.Name, made)
		return "", false, err
	}
	if o.mayExist(err) {
		switch s, aerr := p.adopt(ctx, o.req); {
		case aerr != nil:
			err = aerr
		case s != nil:
			return p.created(ctx, o, s)
		case isCode(err, hcloud.ErrorCodeUniquenessError):
			err = provider.Wrap(provider.Transient, provider.OpCreate, p.name, o.req.Name,
				errors.New("the name is taken, and no server has it"))
		}
	}
	p.dropMade(ctx, o, made)
	return "", o.namesGone(err), err
}

// mayExist reports whether a refusal can be due to a server that exists with
// the order's name already.
func (o order) mayExist(err error) bool {
	switch {
	case isCode(err, hcloud.ErrorCodeUniquenessError, hcloud.ErrorCodePrimaryIPAssigned, hcloud.ErrorCodeVolumeAlreadyAttached):
		return true
	case isCode(err, hcloud.ErrorCodeLocked):
		return o.parts.volume || o.parts.v4 || o.parts.v6 // in use by a server that is being built
	case isCode(err, hcloud.ErrorCodeInvalidInput):
		return o.parts.volume && slices.Contains(fieldsOf(err), "volumes")
	}
	return false
}

// namesGone reports whether a refusal is about something of ours that the order
// names and that somebody has deleted meanwhile.
func (o order) namesGone(err error) bool {
	if isCode(err, hcloud.ErrorCodeFirewallResourceNotFound) {
		return true
	}
	if !isCode(err, hcloud.ErrorCodeInvalidInput) {
		return false
	}
	return slices.ContainsFunc(fieldsOf(err), func(f string) bool {
		switch {
		case strings.HasPrefix(f, "firewalls"):
			return o.parts.fw != 0
		case strings.HasPrefix(f, "public_net"):
			return o.parts.v4 || o.parts.v6
		case strings.HasPrefix(f, "volumes"):
			return o.parts.volume
		}
		return false
	})
}

func (p *Provider) serverOpts(o order, m made) hcloud.ServerCreateOpts {
	opts := hcloud.ServerCreateOpts{
		Name: o.req.Name, ServerType: &hcloud.ServerType{Name: o.place.typ.Name}, Image: &hcloud.Image{ID: o.place.image.ID},
		Location: &hcloud.Location{Name: o.place.Location},
		UserData: string(o.req.CloudInit.Reveal()), Labels: o.labels, SSHKeys: o.keys, Networks: o.networks,
		// Both are sent whatever they are: the vendor's default is to enable.
		PublicNet: &hcloud.ServerCreatePublicNet{EnableIPv4: p.opt.IPv4 != fromNone, EnableIPv6: p.opt.IPv6 != fromNone,
			IPv4: m.v4, IPv6: m.v6},
	}
	if m.volume != nil {
		opts.Volumes, opts.Automount = []*hcloud.Volume{m.volume}, hcloud.Ptr(p.opt.Volume.Format != "")
	}
	for _, id := range m.firewalls {
		opts.Firewalls = append(opts.Firewalls, &hcloud.ServerCreateFirewall{Firewall: hcloud.Firewall{ID: id}})
	}
	return opts
}

// created is the end of a create: the server exists and is ours.
func (p *Provider) created(ctx context.Context, o order, s *hcloud.Server) (provider.InstanceID, bool, error) {
	if err := p.ensureCascade(ctx, o.req.Marks, s); err != nil {
		return "", false, err
	}
	return p.instance(ctx, s).ID, false, nil
}

// adopt returns the server that has the request's name already, nil when none
// has. One that is not the request's gives Conflict. It is one look-up: asking
// again and again for a name that is taken looks like abuse to the vendor.
func (p *Provider) adopt(ctx context.Context, req provider.CreateRequest) (*hcloud.Server, error) {
	s, err := p.serverNamed(ctx, req.Name)
	if err != nil || s == nil {
		return nil, err
	}
	if err := provider.VerifyAdoption(p.name, req, p.instance(ctx, s)); err != nil {
		return nil, err
	}
	p.log.DebugContext(ctx, "adopted", slog.String("instance", req.Name))
	return s, nil
}

// ensureCascade makes sure that the addresses which came with a server go with
// it. The vendor's reference does not say so, so the first one of a process is
// looked at; if it would stay, it is told otherwise, and marked.
func (p *Provider) ensureCascade(ctx context.Context, marks provider.Marks, s *hcloud.Server) error {
	if p.cascades.Load() {
		return nil
	}
	for _, leg := range []struct {
		from string
		id   int64
		name func(string) string
	}{{p.opt.IPv4, s.PublicNet.IPv4.ID, nameV4}, {p.opt.IPv6, s.PublicNet.IPv6.ID, nameV6}} {
		if leg.from != fromServer || leg.id == 0 {
			continue
		}
		ip, _, err := p.client.PrimaryIP.GetByID(ctx, leg.id)
		if err != nil {
			return err
		}
		switch {
		case ip == nil:
			continue
		case ip.AutoDelete && p.ours(ip.Labels):
			continue // told so by an earlier attempt, which proves nothing
		case ip.AutoDelete:
			p.cascades.Store(true)
			return nil
		}
		p.warnOnce(ctx, "cascade", "addresses do not go with their servers by themselves", "instance", s.Name)
		labels := marks.Labels()
		labels[labelParts] = s.Labels[labelParts]
		if _, _, err := p.client.PrimaryIP.Update(ctx, ip, hcloud.PrimaryIPUpdateOpts{
			AutoDelete: hcloud.Ptr(true), Labels: &labels, Name: leg.name(s.Name)}); err != nil {
			return err
		}
	}
	return nil
}

// cleanupTime bounds what a failed create removes behind itself.
const cleanupTime = 20 * time.Second

// dropMade removes what a refused order has made, and only that. What cannot be
// removed is listed as a companion without an instance, and swept.
func (p *Provider) dropMade(ctx context.Context, o order, m made) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
	defer cancel()
	var errs []error
	for _, id := range m.freshIPs {
		_, err := p.client.PrimaryIP.Delete(ctx, &hcloud.PrimaryIP{ID: id})
		errs = append(errs, unlessCode(err, hcloud.ErrorCodeNotFound, codeMustBeUnassigned))
	}
	if m.freshVolume && m.volume != nil {
		_, err := p.client.Volume.Delete(ctx, m.volume)
		errs = append(errs, unlessCode(err, hcloud.ErrorCodeNotFound, hcloud.ErrorCodeResourceInUse))
	}
	if m.freshFirewall {
		errs = append(errs, p.dropFirewall(ctx, o.parts.fw))
	}
	if err := errors.Join(errs...); err != nil {
		p.log.WarnContext(ctx, "a failed create left something behind, it will be swept", slog.String("instance", o.req.Name),
			slog.Any("error", p.classify(ctx, provider.OpCreate, o.req.Name, err, o.req.CloudInit)))
	}
}

// unlessCode is the error, or nil for one of these codes.
func unlessCode(err error, codes ...hcloud.ErrorCode) error {
	if isCode(err, codes...) {
		return nil
	}
	return err
}
