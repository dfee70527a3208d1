package openstack

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/tollgate-dev/tollgate/internal/gate"
	"github.com/tollgate-dev/tollgate/internal/openstack/cloud"
	"github.com/tollgate-dev/tollgate/internal/provider"
)

// microTags is the microversion from which on the call that makes a server takes
// tags. The driver speaks it where it can.
const microTags = "2.52"

// catalogTTL is how long ids of names are believed.
const catalogTTL = 15 * time.Minute

// catalog is what was looked up in a region. It is safe for concurrent use.
type catalog struct {
	gate gate.Gate
	ids  map[string]found // by kind and name
}

type found struct {
	id   string
	read time.Time
}

// id returns what is known of a name, or looks it up.
func (c *catalog) id(ctx context.Context, kind, name string, look func() (string, error)) (string, error) {
	if err := c.gate.Lock(ctx); err != nil {
		return "", err
	}
	defer c.gate.Unlock()
	key := kind + " " + name
	if f, ok := c.ids[key]; ok && time.Since(f.read) < catalogTTL {
		return f.id, nil
	}
	id, err := look()
	if err != nil {
		return "", err
	}
	if c.ids == nil {
		c.ids = map[string]found{}
	}
	c.ids[key] = found{id, time.Now()}
	return id, nil
}

// forget drops all ids: the cloud did not know one of them.
func (c *catalog) forget(ctx context.Context) {
	if c.gate.Lock(ctx) == nil {
		c.ids = nil
		c.gate.Unlock()
	}
}

// place is where and on what a server is made, in the cloud's ids.
type place struct {
	flavor, image, zone               string
	network, subnet, floating, volume string
	groups                            []string
}

// resolve turns names into ids and checks them before anything is made.
func (p *Provider) resolve(ctx context.Context, r *region, pl provider.Placement) (place, error) {
	or := func(spec, config, field, configField string) (string, string) {
		if spec != "" {
			return spec, "placement." + field
		}
		return config, configField
	}
	var out place
	var err error
	flavor, field := or(pl.MachineType, p.opt.Flavor, "machineType", "flavor")
	if out.flavor, err = p.flavor(ctx, r, field, flavor); err != nil {
		return place{}, err
	}
	image, field := or(pl.Image, p.opt.Image, "image", "image")
	if out.image, err = p.imageID(ctx, r, field, image); err != nil {
		return place{}, err
	}
	if out.zone, field = or(pl.Zone, p.opt.Zone, "zone", "zone"); out.zone != "" {
		if err := p.checkZone(ctx, r, field, out.zone); err != nil {
			return place{}, err
		}
	}
	if p.opt.Volume.SizeGB > 0 && r.Volume != nil {
		if out.volume, err = p.volumeZone(ctx, r, out.zone); err != nil {
			return place{}, err
		}
	}
	if p.opt.KeyName != "" {
		if err := p.checkKey(ctx, r, p.opt.KeyName); err != nil {
			return place{}, err
		}
	}
	if out.network, err = p.network(ctx, r, "network", "networks", p.opt.Network, nil); err != nil {
		return place{}, err
	}
	if p.opt.Subnet != "" {
		of := url.Values{"network_id": {out.network}}
		if out.subnet, err = p.network(ctx, r, "subnet", "subnets", p.opt.Subnet, of); err != nil {
			return place{}, err
		}
	}
	if p.opt.FloatingNetwork != "" {
		of := url.Values{"router:external": {"true"}}
		if out.floating, err = p.network(ctx, r, "floatingNetwork", "networks", p.opt.FloatingNetwork, of); err != nil {
			return place{}, err
		}
	}
	for i, g := range p.opt.SecurityGroups {
		id, err := p.network(ctx, r, fmt.Sprintf("securityGroups[%d]", i), "security-groups", g, nil)
		if err != nil {
			return place{}, err
		}
		if !slices.Contains(out.groups, id) { // a port has each once
			out.groups = append(out.groups, id)
		}
	}
	return out, nil
}

type named struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Project string `json:"project_id"`
}

func (p *Provider) flavor(ctx context.Context, r *region, field, name string) (string, error) {
	if name == "" {
		return "", cloud.BadPlace("placement.machineType", "", "is required: the provider's configuration names no flavor either")
	}
	return r.catalog.id(ctx, "flavor", name, func() (string, error) {
		all, err := cloud.List[named](ctx, r.Compute, "flavors/detail", "flavors", nil, p.opt.PageSize)
		if err != nil {
			return "", err
		}
		var names []string
		for _, f := range all {
			if f.ID == name || f.Name == name {
				return f.ID, nil
			}
			names = append(names, f.Name)
		}
		slices.Sort(names)
		return "", cloud.BadPlace(field, name, "there is no such flavor: want one of "+some(names))
	})
}

// some are a few of many names.
func some(names []string) string {
	const most = 20
	if len(names) > most {
		return strings.Join(names[:most], ", ") + " ..."
	}
	return strings.Join(names, ", ")
}

// imageID finds an image. Of several with the name, the newest counts: that is
// how clouds renew them.
func (p *Provider) imageID(ctx context.Context, r *region, field, name string) (string, error) {
	if name == "" {
		return "", cloud.BadPlace("placement.image", "", "is required: the provider's configuration names no image either")
	}
	return r.catalog.id(ctx, "image", name, func() (string, error) {
		if uuidForm.MatchString(name) {
			// Listings leave out what is hidden, a community's, or shared and not accepted.
			var i struct{ ID, Status string }
			_, err := r.Image.Get(ctx, r.Image.ServiceURL("images", name), &i, nil)
			switch {
			case err == nil && i.ID == name && i.Status == "active":
				return i.ID, nil
			case err != nil && cloud.StatusOf(err) != http.StatusNotFound:
				return "", err
			}
		}
		q := url.Values{"name": {name}, "status": {"active"}, "sort": {"created_at:desc"}, "limit": {"1"}}
		var page struct {
			Images *[]named `json:"images"`
		}
		if _, err := r.Image.Get(ctx, r.Image.ServiceURL("images")+"?"+q.Encode(), &page, nil); err != nil {
			return "", err
		}
		if page.Images == nil {
			return "", cloud.ErrAnswer
		}
		for _, i := range *page.Images {
			if i.Name == name {
				return i.ID, nil
			}
		}
		return "", cloud.BadPlace(field, name, "there is no such active image")
	})
}

func (p *Provider) checkZone(ctx context.Context, r *region, field, name string) error {
	_, err := r.catalog.id(ctx, "zone", name, func() (string, error) {
		names, err := zones(ctx, r.Compute)
		if err != nil || slices.Contains(names, name) {
			return name, err
		}
		return "", cloud.BadPlace(field, name, "there is no such availability zone: want one of "+some(names))
	})
	return err
}

// zones are the names of a service's availability zones.
func zones(ctx context.Context, service *gophercloud.ServiceClient) ([]string, error) {
	var doc struct {
		Zones *[]struct {
			Name string `json:"zoneName"`
		} `json:"availabilityZoneInfo"`
	}
	if _, err := service.Get(ctx, service.ServiceURL("os-availability-zone"), &doc, nil); err != nil {
		return nil, err
	}
	if doc.Zones == nil {
		return nil, cloud.ErrAnswer
	}
	var names []string
	for _, z := range *doc.Zones {
		names = append(names, z.Name)
	}
	return names, nil
}

// volumeZone is the zone of a volume: the configured one, or the server's if the
// volume service has it too. Clouds may refuse disks from another zone.
func (p *Provider) volumeZone(ctx context.Context, r *region, server string) (string, error) {
	name := cmp.Or(p.opt.Volume.Zone, server)
	if name == "" {
		return "", nil
	}
	return r.catalog.id(ctx, "volume zone", name, func() (string, error) {
		names, err := zones(ctx, r.Volume)
		switch {
		case err == nil && slices.Contains(names, name):
			return name, nil
		case p.opt.Volume.Zone == "" && (err == nil || cloud.StatusOf(err) == http.StatusForbidden || cloud.NotThere(err)):
			return "", nil
		case err != nil:
			return "", err
		}
		return "", cloud.BadPlace("volume.zone", name, "the volume service has no such availability zone: want one of "+some(names))
	})
}

// checkKey looks for a key pair. Who may not look is told later.
func (p *Provider) checkKey(ctx context.Context, r *region, name string) error {
	_, err := r.catalog.id(ctx, "key pair", name, func() (string, error) {
		_, err := r.Compute.Get(ctx, r.Compute.ServiceURL("os-keypairs", url.PathEscape(name)), &struct{}{}, nil)
		switch {
		case cloud.NotThere(err):
			return "", cloud.BadPlace("keyName", name, "this user has no such key pair: they belong to users, not to projects")
		case err != nil && cloud.StatusOf(err) != http.StatusForbidden:
			return "", err
		}
		return name, nil
	})
	return err
}

// network finds something of the network service by its name or id. Of several with
// the name the project's own is meant, if that is one: an admin sees those of others.
// Else the name is refused: which one is meant cannot be told.
func (p *Provider) network(ctx context.Context, r *region, field, path, name string, more url.Values) (string, error) {
	return r.catalog.id(ctx, path+more.Encode(), name, func() (string, error) {
		for _, key := range []string{"name", "id"} {
			if key == "id" && !uuidForm.MatchString(name) {
				continue
			}
			q := url.Values{key: {name}}
			for k, v := range more {
				q[k] = v
			}
			all, err := cloud.List[named](ctx, r.Network, path, strings.ReplaceAll(path, "-", "_"), q, 0)
			if err != nil {
				return "", err
			}
			all = slices.DeleteFunc(all, func(n named) bool { return n.Name != name && n.ID != name })
			if own := slices.DeleteFunc(slices.Clone(all), func(n named) bool { return n.Project != r.project }); len(own) == 1 {
				all = own
			}
			switch {
			case len(all) == 1:
				return all[0].ID, nil
			case len(all) > 1:
				return "", cloud.BadPlace(field, name, fmt.Sprintf("%d have this name: give the id", len(all)))
			}
		}
		return "", cloud.BadPlace(field, name, "there is none of this name or id in "+r.Name)
	})
}
