package openstacksim

import (
	"context"
	"encoding/json"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// r is the context of calls to the backend: they outlive no request.
func (s *Sim) r() context.Context { return context.Background() }

// createRequest is the body of POST /servers, as far as it is simulated.
type createRequest struct {
	Name       string            `json:"name"`
	Flavor     string            `json:"flavorRef"`
	Image      string            `json:"imageRef"`
	Metadata   map[string]string `json:"metadata"`
	Tags       json.RawMessage   `json:"tags"`
	UserData   string            `json:"user_data"`
	Zone       string            `json:"availability_zone"`
	Networks   json.RawMessage   `json:"networks"`
	KeyName    string            `json:"key_name"`
	Drive      bool              `json:"config_drive"`
	Disks      []disk            `json:"block_device_mapping_v2"`
	DiskConfig string            `json:"OS-DCF:diskConfig"`
}

type disk struct {
	Source      string `json:"source_type"`
	Destination string `json:"destination_type"`
	UUID        string `json:"uuid"`
	Boot        int    `json:"boot_index"`
	Delete      bool   `json:"delete_on_termination"`
	Size        int    `json:"volume_size"`
}

// createServer is POST /servers: it answers when the request is taken. Most of
// what can go wrong goes wrong later.
func (c *call) createServer() {
	var req createRequest
	if !c.read("server", &req) {
		return
	}
	bad := func(format string, args ...any) { c.fail(http.StatusBadRequest, "badRequest", format, args...) }
	var tags []string
	if req.Tags != nil {
		if !c.speaks("2.52") {
			bad("Invalid input for field/attribute server. Additional properties are not allowed ('tags' was unexpected)")
			return
		}
		if json.Unmarshal(req.Tags, &tags) != nil || len(tags) > 50 || slices.ContainsFunc(tags, badTag) {
			bad("Invalid input for field/attribute tags.")
			return
		}
	}
	for k, v := range req.Metadata {
		if len(k) > 255 || len(v) > 255 || k == "" {
			bad("Invalid input for field/attribute %s. Value: %s. is too long", k, v)
			return
		}
	}
	data, wrong := decodeUserData(req.UserData)
	if wrong != "" {
		bad("Invalid input for field/attribute user_data. Value: %s. %s", req.UserData, wrong)
		return
	}
	r := c.region
	fl := slices.IndexFunc(r.flavors, func(f flavor) bool { return f.id == req.Flavor })
	if fl < 0 {
		bad("Flavor %s could not be found.", req.Flavor)
		return
	}
	if req.Image != "" && !slices.ContainsFunc(r.images, func(i image) bool { return i.id == req.Image }) {
		bad("Can not find requested image")
		return
	}
	if req.Zone != "" && !slices.Contains(c.sim.opt.Zones, req.Zone) {
		bad("The requested availability zone is not available")
		return
	}
	if req.KeyName != "" && !slices.Contains(c.sim.opt.Keys, req.KeyName) {
		bad("Invalid key_name provided.")
		return
	}
	now := c.sim.now()
	x := &server{id: uuid.NewString(), name: req.Name, project: c.project, user: c.user, status: "BUILD", task: "scheduling", metadata: req.Metadata, tags: tags,
		flavor: r.flavors[fl], image: req.Image, userData: data, keyName: req.KeyName, asked: req.Zone, configDrive: req.Drive, created: now, updated: now,
		placed: now.Add(c.sim.opt.BuildTime / 2), due: now.Add(c.sim.opt.BuildTime)}
	if !c.givePorts(x, req) || !c.giveDisks(x, req) {
		return
	}
	if q := c.sim.quotas.Instances; q > 0 && c.count() >= q {
		c.fail(http.StatusForbidden, "forbidden", "Quota exceeded for instances: Requested 1, but already used %d of %d instances", c.count(), q)
		return
	}
	if c.sim.noHost {
		c.fail(http.StatusInternalServerError, "computeFault", "No valid host was found. There are not enough hosts available.")
		return
	}
	for _, d := range req.Disks {
		if d.Source == "image" && d.Destination == "volume" {
			v := &volume{id: uuid.NewString(), project: c.project, user: c.user, status: "creating", size: max(d.Size, 1), image: d.UUID,
				zone: c.sim.opt.VolumeZones[0], bootable: true, created: now, due: now.Add(c.sim.opt.VolumeTime)}
			r.volumes = append(r.volumes, v)
			x.volumes = append(x.volumes, attached{v.id, d.Delete})
		}
	}
	c.note(x, "create", "compute__do_build_and_run_instance")
	r.servers = append(r.servers, x)
	c.w.Header().Set("Location", "http://"+c.r.Host+c.r.URL.Path+"/"+x.id)
	c.answer(http.StatusAccepted, map[string]any{"server": map[string]any{"id": x.id, "OS-DCF:diskConfig": "MANUAL",
		"security_groups": []any{map[string]any{"name": "default"}}, "adminPass": newID()[:12]}})
}

func badTag(t string) bool { return t == "" || len(t) > 60 || strings.ContainsAny(t, "/,") }

// givePorts checks the networks of a create. A port that is in use is refused
// here only if its server has taken it already.
func (c *call) givePorts(x *server, req createRequest) bool {
	var nets []struct {
		UUID  string `json:"uuid"`
		Port  string `json:"port"`
		Fixed string `json:"fixed_ip"`
	}
	if json.Unmarshal(req.Networks, &nets) != nil {
		c.fail(http.StatusBadRequest, "badRequest", "Invalid input for field/attribute networks.")
		return false
	}
	for _, n := range nets {
		if n.Port == "" {
			if n.UUID != c.region.network.id {
				c.fail(http.StatusBadRequest, "badRequest", "Network %s could not be found.", n.UUID)
				return false
			}
			p := c.sim.newPort(c.region, c.project, "", "")
			x.ports, x.ownPort = append(x.ports, p.id), p.id
			continue
		}
		switch p := c.port(n.Port); {
		case p == nil:
			c.fail(http.StatusBadRequest, "badRequest", "Port id %s could not be found.", n.Port)
			return false
		case p.device != "":
			c.fail(http.StatusConflict, "conflictingRequest", "Port %s is still in use.", n.Port)
			return false
		}
		x.ports = append(x.ports, n.Port)
	}
	return true
}

// giveDisks checks the volumes of a create: they have to be there and free.
func (c *call) giveDisks(x *server, req createRequest) bool {
	boots := req.Image != ""
	for _, d := range req.Disks {
		boots = boots || d.Boot == 0
		if d.Source != "volume" {
			continue
		}
		v := c.volume(d.UUID)
		if v == nil || v.status != "available" {
			c.fail(http.StatusBadRequest, "badRequest", "Block Device Mapping is Invalid: failed to get volume %s.", d.UUID)
			return false
		}
		if c.sim.opt.ZonesApart && req.Zone != "" && v.zone != req.Zone {
			c.fail(http.StatusBadRequest, "badRequest", "The instance and volume are not in the same availability_zone.")
			return false
		}
		x.volumes = append(x.volumes, attached{v.id, d.Delete})
	}
	if !boots {
		c.fail(http.StatusBadRequest, "badRequest", "Block Device Mapping is Invalid: Boot sequence for the instance and image/block device mapping combination is not valid.")
	}
	return boots
}

// addressOf is the first fixed address of a server.
func (r *region) addressOf(x *server) netip.Addr {
	for _, id := range x.ports {
		if p := r.portByID(id); p != nil {
			return p.address
		}
	}
	return netip.Addr{}
}
