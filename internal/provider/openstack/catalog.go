package openstack

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

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
		out.groups = append(out.groups, id)
	}
	return out, nil
}

type named struct {
	ID   string `json:"id"`
	Name string `json:"name"`
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
		var doc struct {
			Zones *[]struct {
				Name  string `json:"zoneName"`
				State struct {
					Available bool `json:"available"`
				} `json:"zoneState"`
			} `json:"availabilityZoneInfo"`
		}
		if _, err := r.Compute.Get(ctx, r.Compute.ServiceURL("os-availability-zone"), &doc, nil); err != nil {
			return "", err
		}
		if doc.Zones == nil {
			return "", cloud.ErrAnswer
		}
		var names []string
		for _, z := range *doc.Zones {
			if z.Name == name {
				return name, nil
			}
			names = append(names, z.Name)
		}
		return "", cloud.BadPlace(field, name, "there is no such availability zone: want one of "+some(names))
	})
	return err
}

// network finds something of the network service by its name or id. A name that
// several have is refused: which one is meant cannot be told.
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
