package openstack

import (
	"context"
	"encoding/json"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/tollgate-dev/tollgate/internal/openstack/cloud"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
)

// floatingIP is what we read of a floating IP. Everything but the id may be
// missing.
type floatingIP struct {
	ID          string `json:"id"`
	Address     string `json:"floating_ip_address"`
	Status      string `json:"status"`
	Project     string `json:"project_id"`
	Tenant      string `json:"tenant_id"`
	Description string `json:"description"`
	Created     string `json:"created_at"`
	PortDetails struct {
		Device string `json:"device_id"`
	} `json:"port_details"`

	created time.Time
}

func readFloatingIP(raw json.RawMessage) floatingIP {
	v := source.Loose[floatingIP](raw)
	if v.created = parse(v.Created); v.Project == "" {
		v.Project = v.Tenant
	}
	return v
}

func (v floatingIP) size() event.Size {
	size := event.Size{}
	switch a, err := netip.ParseAddr(v.Address); {
	case err != nil:
	case a.Is4():
		size[event.IPVersion] = event.Text("4")
	default:
		size[event.IPVersion] = event.Text("6")
	}
	return size
}

func floatingIPs() spec {
	return spec{
		Kind: source.Kind{Type: event.FloatingIP, Verbs: []string{source.VerbCreate, source.VerbDelete}, Silent: []string{source.VerbDelete}},
		path: "floatingips", key: "floatingips",
		client: func(r *cloud.Region) *gophercloud.ServiceClient { return r.Network },
		all: func(allProjects bool, project string) url.Values {
			q := url.Values{"sort_key": {"id"}, "sort_dir": {"asc"}}
			if !allProjects && project != "" {
				q.Set("project_id", project) // administrators are shown those of all
			}
			return q
		},
		take:   takeFloatingIPs,
		reopen: func(context.Context, *reading, string) (bool, error) { return true, nil }, // none is ever unfinished
		derive: deriveFloatingIP,
		find: func(ctx context.Context, r *reading, id string) (string, bool, error) {
			v, err := r.getFloatingIP(ctx, id)
			if err != nil || v == nil {
				return "", false, err
			}
			return v.Project, true, nil
		},
		existing: existingFloatingIP,
	}
}

func (v floatingIP) born() (subject, change) {
	return subject{v.ID, v.Address, v.Project},
		change{verb: source.VerbCreate, id: event.ChangeCreate, at: v.created, by: v.created, size: v.size(), sized: true}
}

func takeFloatingIPs(_ context.Context, r *reading, entries []entry) error {
	for _, e := range entries {
		v := readFloatingIP(e.raw)
		switch {
		case v.created.IsZero():
			r.reject(v.ID, "the floating IP does not say when it was made")
			continue
		case r.s.o.AllProjects && v.Project == "":
			r.reject(v.ID, "the floating IP does not say which project it is of")
			continue
		}
		if sub, ch := v.born(); r.says(sub, ch, false) {
			r.say(sub, ch, nil)
		}
	}
	return nil
}

// getFloatingIP reads a floating IP, nil when there is none. Who may no longer see it
// is told in the words of HTTPNotFound, as is who asks a service that no longer knows
// the word: neither says that it is gone.
// Source: neutron/pecan_wsgi/hooks/policy_enforcement.py (Zed).
func (r *reading) getFloatingIP(ctx context.Context, id string) (*floatingIP, error) {
	c := r.region.Network
	var doc struct {
		FloatingIP json.RawMessage `json:"floatingip"`
	}
	if _, err := c.Get(ctx, c.ServiceURL("floatingips", id), &doc, &gophercloud.RequestOpts{OkCodes: []int{http.StatusOK}}); err != nil {
		if cloud.NotThere(err) && cloud.TypeOf(err) != cloud.TypeNoResource {
			return nil, nil
		}
		return nil, err
	}
	if v := readFloatingIP(doc.FloatingIP); v.ID == id {
		return &v, nil
	}
	return nil, cloud.ErrAnswer
}

func deriveFloatingIP(ctx context.Context, r *reading, id string) error {
	v, err := r.getFloatingIP(ctx, id)
	if err != nil || v == nil {
		return err
	}
	if v.created.IsZero() {
		return cloud.ErrAnswer
	}
	sub, ch := v.born()
	r.say(sub, ch, nil)
	return nil
}

func existingFloatingIP(raw json.RawMessage) (source.Existing, string) {
	v := readFloatingIP(raw)
	x := source.Existing{
		Resource: event.Resource{Name: v.Address}, CreatedAt: v.created, Size: v.size(),
		Info: map[string]string{infoStatus: strings.ToLower(v.Status), infoAddress: v.Address},
	}
	if v.PortDetails.Device != "" {
		x.Info[infoServer] = v.PortDetails.Device
	}
	if m, managed := openstack.MarksOfDescription(v.Description); managed {
		x.Marks = &m
	}
	return x, v.Project
}
