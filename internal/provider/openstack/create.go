package openstack

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/keypairs"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	"github.com/tollgate-dev/tollgate/internal/openstack/cloud"
	"github.com/tollgate-dev/tollgate/internal/provider"
)

// MaxUserData is the most cloud-init in bytes: the compute service takes 65,535
// characters of base64.
// Source: nova/api/openstack/compute/schemas/servers.py, user_data (read 2026-11).
const MaxUserData = 65_535 / 4 * 3

// Create implements provider.Provider.
func (p *Provider) Create(ctx context.Context, req provider.CreateRequest) (provider.InstanceID, error) {
	id, err := p.create(ctx, req)
	if err != nil {
		return "", p.classify(ctx, provider.OpCreate, req.Name, err, secretsOf(req)...)
	}
	p.log.DebugContext(ctx, "created", slog.String("instance", string(id)), slog.Int("cloud_init_bytes", req.CloudInit.Len()))
	return id, nil
}

// secretsOf are those that a request holds.
func secretsOf(req provider.CreateRequest) []provider.Sensitive {
	out := []provider.Sensitive{req.CloudInit}
	if req.Auth != nil {
		out = append(out, req.Auth.Password)
	}
	return out
}

func (p *Provider) create(ctx context.Context, req provider.CreateRequest) (provider.InstanceID, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if err := p.checkRequest(req); err != nil {
		return "", err
	}
	unlock, err := p.names.lock(ctx, req.Name)
	if err != nil {
		return "", err
	}
	defer unlock()
	at, err := p.placed(ctx, req)
	if err != nil {
		return "", err
	}
	// The default may have been another region when an earlier attempt was made. One
	// that the spec names was always the same, and no other's trouble holds it up.
	regions := []*region{at}
	if req.Placement.Region == "" {
		if regions, err = p.everywhere(ctx); err != nil {
			return "", err
		}
	}
	for _, r := range regions {
		if s, err := p.adopt(ctx, r, req); err != nil || s != nil {
			return p.idOf(r, s), err
		}
	}
	o := order{req: req, parts: p.opt.parts()}
	if o.place, err = p.resolve(ctx, at, req.Placement); err != nil {
		return "", err
	}
	s, err := p.make(ctx, at, o)
	if badReference(err) {
		// What is remembered of a name may have been made anew since, as images are.
		at.catalog.forget(ctx)
		now, rerr := p.resolve(ctx, at, req.Placement)
		if rerr != nil {
			return "", rerr
		}
		if !reflect.DeepEqual(now, o.place) {
			o.place = now
			s, err = p.make(ctx, at, o)
		}
	}
	return p.idOf(at, s), err
}

func (p *Provider) idOf(r *region, s *server) provider.InstanceID {
	if s == nil {
		return ""
	}
	return instanceKey{r.Name, s.ID, s.instance()}.id()
}

// placed is the region of a request.
func (p *Provider) placed(ctx context.Context, req provider.CreateRequest) (*region, error) {
	s, err := p.cloud.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if name := req.Placement.Region; name != "" && !slices.Contains(s.Order, name) {
		return nil, cloud.BadPlace("placement.region", name, "want one of "+strings.Join(s.Order, ", "))
	}
	return p.at(ctx, req.Placement.Region)
}

// checkRequest checks, before any request, what the cloud would refuse or
// change.
func (p *Provider) checkRequest(req provider.CreateRequest) error {
	switch n := req.CloudInit.Len(); {
	case n > MaxUserData:
		return p.invalidSpec(req.Name, "cloudInit: %d bytes are too many: the cloud takes %d", n, MaxUserData)
	case req.Port < 1 || req.Port > 65535:
		return p.invalidSpec(req.Name, "port: %d: want 1 to 65535", req.Port)
	}
	if err := provider.ValidateName("name", req.Name); err != nil {
		return p.invalidSpec(req.Name, "%v", err)
	}
	if err := (label{req.Name, req.Marks}).check(); err != nil {
		return p.invalidSpec(req.Name, "%v", err)
	}
	return nil
}

// adopt returns the server that has the request's name already, nil when none
// has. If there are several of the request's owner, all but one are deleted. One
// that is not the request's gives Conflict.
func (p *Provider) adopt(ctx context.Context, r *region, req provider.CreateRequest) (*server, error) {
	all, err := p.serversNamed(ctx, r, req.Name)
	if err != nil {
		return nil, err
	}
	ours := slices.DeleteFunc(slices.Clone(all), func(s server) bool { return !marksOf(s.Metadata).SameOwner(req.Marks) })
	if len(ours) == 0 {
		if len(all) == 0 {
			return nil, nil
		}
		return nil, provider.VerifyAdoption(p.name, req, p.instance(ctx, r, all[0]))
	}
	live := slices.DeleteFunc(ours, func(s server) bool { return s.ending() })
	if len(live) == 0 {
		return nil, p.busy(req.Name, "a server of this name is being deleted")
	}
	slices.SortFunc(live, byRule)
	if len(live) > 1 && live[0].Created.Equal(live[1].Created) && fresh(live[0]) {
		return nil, p.busy(req.Name, "the instance is made twice at the same time")
	}
	for _, s := range live[1:] {
		if err := p.drop(ctx, r, s, live[0]); err != nil {
			return nil, err
		}
	}
	return p.take(ctx, r, req, live[0])
}

// settleTime is how long those who have made two equally old servers have to
// agree on one before somebody else decides.
const settleTime = 10 * time.Second

// fresh reports whether a server was made within settleTime, by a clock that may
// be some minutes wrong.
func fresh(s server) bool {
	age := time.Since(s.Created)
	return age < settleTime && age > -5*time.Minute
}

// take adopts a server of the request's owner.
func (p *Provider) take(ctx context.Context, r *region, req provider.CreateRequest, s server) (*server, error) {
	if err := provider.VerifyAdoption(p.name, req, p.instance(ctx, r, s)); err != nil {
		return nil, err
	}
	p.log.DebugContext(ctx, "adopted", slog.String("instance", req.Name))
	return &s, nil
}

// drop removes a server that was made twice.
func (p *Provider) drop(ctx context.Context, r *region, s, stays server) error {
	p.log.WarnContext(ctx, "an instance was made twice, the second is removed", slog.String("instance", s.Name),
		slog.String("server", s.ID), slog.String("stays", stays.ID))
	ctx, cancel := p.limited(ctx)
	defer cancel()
	return p.deleteServer(ctx, r, s)
}

func (p *Provider) busy(name, text string) error {
	return provider.WithRetryAfter(provider.Wrap(provider.Transient, provider.OpCreate, p.name, name, errors.New(text)), p.opt.Poll)
}

// makeTries is how often an order is repeated because something that it names
// was removed meanwhile by a create of the same name.
const makeTries = 4

// make makes the server and what belongs to it.
func (p *Provider) make(ctx context.Context, r *region, o order) (*server, error) {
	m := p.progress.take(o.req.Name)
	var last error
	for range makeTries {
		holder, err := p.ensureParts(ctx, r, o, &m)
		if err == nil && holder != "" {
			return p.adoptHolder(ctx, r, o.req, holder)
		}
		var id string
		if err == nil {
			if id, err = p.order(ctx, r, o, m); err == nil {
				return p.settle(ctx, r, o.req, id)
			}
		}
		if !refused(err) {
			// The server may exist, so what belongs to it stays: the retry finds it,
			// or the sweep does.
			p.progress.note(o.req.Name, m)
			return nil, err
		}
		if mayExist(err) {
			if s, aerr := p.adopt(ctx, r, o.req); aerr != nil || s != nil {
				return s, aerr
			}
		}
		if !namesGone(err, m) {
			p.dropMade(ctx, r, o)
			return nil, err
		}
		last, m = err, made{}
	}
	return nil, provider.Wrap(provider.Transient, provider.OpCreate, p.name, o.req.Name, cloud.Stable(last))
}

// order asks for the server.
func (p *Provider) order(ctx context.Context, r *region, o order, m made) (string, error) {
	labels := o.req.Marks.Labels()
	labels[metaPort] = strconv.Itoa(o.req.Port)
	labels[metaParts], labels[metaInstance] = o.parts.String(), o.req.Name
	opts := servers.CreateOpts{
		Name: o.req.Name, FlavorRef: o.place.flavor, ImageRef: o.place.image, AvailabilityZone: o.place.zone, Metadata: labels,
		Networks: []servers.Network{{Port: m.port}},
	}
	if n := o.req.CloudInit.Len(); n > 0 {
		// Encoded here: the library leaves alone what happens to be base64 already.
		opts.UserData = []byte(base64.StdEncoding.EncodeToString(o.req.CloudInit.Reveal()))
	}
	if r.tags {
		opts.Tags = Tags(o.req.Marks)
	}
	if p.opt.ConfigDrive {
		opts.ConfigDrive = &p.opt.ConfigDrive
	}
	if m.volume != "" {
		disk := servers.BlockDevice{SourceType: servers.SourceVolume, DestinationType: servers.DestinationVolume, UUID: m.volume,
			BootIndex: -1, DeleteOnTermination: true}
		if p.opt.Volume.Boot {
			disk.BootIndex, opts.ImageRef = 0, ""
			opts.BlockDevice = []servers.BlockDevice{disk}
		} else {
			opts.BlockDevice = []servers.BlockDevice{{SourceType: servers.SourceImage, DestinationType: servers.DestinationLocal,
				UUID: o.place.image, BootIndex: 0, DeleteOnTermination: true}, disk}
		}
	}
	var body servers.CreateOptsBuilder = opts
	if p.opt.KeyName != "" {
		body = keypairs.CreateOptsExt{CreateOptsBuilder: opts, KeyName: p.opt.KeyName}
	}
	var s struct {
		ID string `json:"id"`
	}
	if err := servers.Create(ctx, r.Compute, body, nil).ExtractInto(&s); err != nil {
		return "", err
	}
	if !uuidForm.MatchString(s.ID) {
		return "", cloud.ErrAnswer
	}
	return s.ID, nil
}

// settle makes sure that a server which was made is the only one of its name.
// Nothing at the cloud does: two creates at the same time, or one whose
// predecessor was not listed yet, make two. The older one stays. Two that are
// equally old, as far as the cloud's clock tells, were made by two who both look
// now: each waits for a moment of its own, and the first one gives way.
func (p *Provider) settle(ctx context.Context, r *region, req provider.CreateRequest, id string) (*server, error) {
	mine, others, err := p.rivals(ctx, r, req, id)
	if err != nil {
		return nil, err // the retry adopts it
	}
	if len(others) > 0 && others[0].Created.Equal(mine.Created) {
		if err := sleep(ctx, time.Duration(rand.Int64N(int64(p.opt.Poll)))); err != nil {
			return nil, err
		}
		if mine, others, err = p.rivals(ctx, r, req, id); err != nil {
			return nil, err
		}
	}
	if len(others) == 0 {
		return &mine, nil
	}
	if first := others[0]; !first.Created.After(mine.Created) {
		if err := p.drop(ctx, r, mine, first); err != nil {
			return nil, err
		}
		if first.Created.Equal(mine.Created) {
			return nil, p.busy(req.Name, "the instance was made twice at the same time")
		}
		return p.take(ctx, r, req, first)
	}
	for _, s := range others {
		if err := p.drop(ctx, r, s, mine); err != nil {
			return nil, err
		}
	}
	return &mine, nil
}

// rivals looks for the server that was just made, and for others of the same
// request, the oldest first.
func (p *Provider) rivals(ctx context.Context, r *region, req provider.CreateRequest, id string) (mine server, others []server, err error) {
	all, err := p.serversNamed(ctx, r, req.Name)
	mine = server{ID: id, Name: req.Name, Created: time.Now().Add(time.Hour)} // not listed yet: whoever is listed is older
	for _, s := range all {
		switch {
		case s.ID == id:
			mine = s
		case marksOf(s.Metadata).SameOwner(req.Marks) && !s.ending():
			others = append(others, s)
		}
	}
	slices.SortFunc(others, byRule)
	return mine, others, err
}

// adoptHolder adopts the server that uses the instance's port.
func (p *Provider) adoptHolder(ctx context.Context, r *region, req provider.CreateRequest, id string) (*server, error) {
	s, err := p.server(ctx, r, id)
	switch {
	case err != nil:
		return nil, err
	case s == nil:
		return nil, p.busy(req.Name, "the port of this instance is in use by a server that is gone, and not free yet")
	case !marksOf(s.Metadata).SameOwner(req.Marks) || s.instance() != req.Name:
		return nil, provider.Wrap(provider.Conflict, provider.OpCreate, p.name, req.Name,
			fmt.Errorf("the port of this instance is in use by server %s, which is not ours", id))
	case s.ending():
		return nil, p.busy(req.Name, "a server of this name is being deleted")
	}
	return p.take(ctx, r, req, *s)
}

// cleanupTime bounds what a failed create removes behind itself.
const cleanupTime = 30 * time.Second

// dropMade removes what belongs to an instance that the cloud has refused to
// make, whether this attempt has made it or an earlier one. What is in use stays.
// What cannot be removed is listed as a companion without an instance, and swept.
func (p *Provider) dropMade(ctx context.Context, r *region, o order) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
	defer cancel()
	var errs []error
	there, err := p.portsOf(ctx, r, o.req.Name)
	errs = append(errs, err)
	for _, x := range there {
		if x.Device != "" || !x.label().marks.SameOwner(o.req.Marks) {
			continue
		}
		if o.parts.floating {
			errs = append(errs, p.dropFloating(ctx, r, o, x.ID))
		}
		errs = append(errs, p.dropPort(ctx, r, x.ID))
	}
	if o.parts.volume {
		there, err := p.volumesOf(ctx, r, o.req.Name)
		errs = append(errs, err)
		for _, v := range there {
			if v.server() == "" && v.label().marks.SameOwner(o.req.Marks) {
				errs = append(errs, p.deleteVolume(ctx, r, v))
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		p.log.WarnContext(ctx, "a failed create left something behind, it will be swept", slog.String("instance", o.req.Name),
			slog.Any("error", p.classify(ctx, provider.OpCreate, o.req.Name, err, secretsOf(o.req)...)))
	}
}

func (p *Provider) dropFloating(ctx context.Context, r *region, o order, port string) error {
	there, err := p.floatingOf(ctx, r, url.Values{"port_id": {port}}, o.req.Name)
	errs := []error{err}
	for _, f := range there {
		errs = append(errs, p.dropAddress(ctx, r, f.ID))
	}
	return errors.Join(errs...)
}
