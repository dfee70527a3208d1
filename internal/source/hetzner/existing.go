package hetzner

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	"github.com/hetznercloud/hcloud-go/v2/hcloud/schema"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
)

// Labels of Existing.Info, the same for all kinds where they fit.
const (
	infoLocation = "location"
	infoType     = "type"
	infoImage    = "image"
	infoServer   = "server"
	infoCPUType  = "cpu_type"
	infoArch     = "architecture"
	infoFormat   = "format"
)

// existing is what all kinds have in common. Whatever the vendor left out is left
// out.
func existing(st state, created time.Time, labels map[string]string, info map[string]string) source.Existing {
	x := source.Existing{
		Resource: event.Resource{Name: st.name}, Size: st.size, Region: st.region, Info: map[string]string{}, Values: map[string]float64{},
	}
	if !created.IsZero() {
		x.CreatedAt = created.UTC()
	}
	if m, managed := provider.MarksFromLabels(labels); managed {
		x.Marks = &m
	}
	for k, v := range info {
		if v != "" {
			x.Info[k] = v
		}
	}
	if st.region != "" {
		x.Info[infoLocation] = st.region
	}
	return x
}

func existingServer(raw json.RawMessage) source.Existing {
	in := source.Loose[schema.Server](raw)
	v := hcloud.ServerFromSchema(in)
	image := ""
	if in.Image != nil {
		if image = in.Image.Description; in.Image.Name != nil && *in.Image.Name != "" {
			image = *in.Image.Name
		}
	}
	x := existing(serverState(v), in.Created, in.Labels, map[string]string{
		infoStatus: in.Status, "server_type": in.ServerType.Name, infoImage: image,
		infoCPUType: in.ServerType.CPUType, infoArch: in.ServerType.Architecture,
	})
	x.State, x.Leaving = serverPower(v.Status), v.Status == hcloud.ServerStatusDeleting
	traffic(x.Values, in.IncludedTraffic, in.OutgoingTraffic, in.IngoingTraffic)
	return x
}

// serverPower is the state that a status stands for: nothing while it changes, or
// when the vendor does not know it.
func serverPower(s hcloud.ServerStatus) event.State {
	switch s {
	case hcloud.ServerStatusRunning:
		return event.Active
	case hcloud.ServerStatusOff:
		return event.Off
	}
	return ""
}

func existingVolume(raw json.RawMessage) source.Existing {
	in := source.Loose[schema.Volume](raw)
	info := map[string]string{infoStatus: in.Status, infoServer: number(in.Server)}
	if in.Format != nil {
		info[infoFormat] = *in.Format
	}
	return existing(volumeState(hcloud.VolumeFromSchema(in)), in.Created, in.Labels, info)
}

func existingFloating(raw json.RawMessage) source.Existing {
	in := source.Loose[schema.FloatingIP](raw)
	return existing(floatingState(&hcloud.FloatingIP{
		Name: in.Name, Type: hcloud.FloatingIPType(in.Type), HomeLocation: &hcloud.Location{Name: in.HomeLocation.Name},
	}), in.Created, in.Labels, map[string]string{infoType: in.Type, infoServer: number(in.Server), "ip": in.IP})
}

func existingBalancer(raw json.RawMessage) source.Existing {
	in := source.Loose[schema.LoadBalancer](raw)
	st := balancerState(&hcloud.LoadBalancer{
		Name: in.Name, Location: &hcloud.Location{Name: in.Location.Name}, Targets: make([]hcloud.LoadBalancerTarget, len(in.Targets)),
		LoadBalancerType: &hcloud.LoadBalancerType{Name: in.LoadBalancerType.Name},
	})
	var has struct {
		Targets *[]json.RawMessage `json:"targets"`
	}
	if json.Unmarshal(raw, &has) != nil || has.Targets == nil {
		delete(st.size, event.Targets) // none is not the same as not said
	} else {
		st.size[event.Targets] = event.Int(len(*has.Targets))
	}
	x := existing(st, in.Created, in.Labels, map[string]string{infoType: in.LoadBalancerType.Name})
	traffic(x.Values, in.IncludedTraffic, in.OutgoingTraffic, in.IngoingTraffic)
	return x
}

func number(id *int64) string {
	if id == nil || *id == 0 {
		return ""
	}
	return strconv.FormatInt(*id, 10)
}

// traffic adds the bytes of the current month, and how many are included.
func traffic(to map[string]float64, included uint64, out, in *uint64) {
	if included > 0 {
		to["traffic_included_bytes"] = float64(included)
	}
	for name, v := range map[string]*uint64{"traffic_outgoing_bytes": out, "traffic_ingoing_bytes": in} {
		if v != nil {
			to[name] = float64(*v)
		}
	}
}
