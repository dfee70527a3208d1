package hetzner

import (
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
)

// infoStatus is where a listing has the vendor's word for the state.
const infoStatus = "status"

// exports are the series of a project. The vendor's GB are 2^30 bytes to a guest.
func exports() []source.Export {
	return []source.Export{
		{
			Type: event.Server,
			Families: []source.Family{
				source.InfoFamily("account", "name", "region", event.ServerType, infoImage, infoArch),
				source.WordFamily("state", "1 for the state that the server is in: active or off.", "state"),
				source.WordFamily("status", "1 for the vendor's word for the state of the server.", infoStatus),
				source.SizeFamily(event.VCPUs, "vcpus", "Virtual processors of the server.", 1),
				source.SizeFamily(event.RAMGB, "memory_bytes", "Memory of the server.", source.GiB),
				source.SizeFamily(event.DiskGB, "disk_bytes", "Local disk of the server.", source.GiB),
				included("server"), outgoing("server"),
				source.CreatedFamily(),
				source.PriceFamily(),
			},
		},
		{
			Type: event.Volume,
			Families: []source.Family{
				source.InfoFamily("account", "name", "region", infoServer),
				source.WordFamily("status", "1 for the vendor's word for the state of the volume.", infoStatus),
				source.SizeFamily(event.SizeGB, "size_bytes", "Size of the volume.", source.GiB),
				source.CreatedFamily(),
				source.PriceFamily(),
			},
		},
		{
			Type: event.FloatingIP,
			Families: []source.Family{
				source.InfoFamily("account", "name", "region", event.IPVersion, event.Kind, infoServer),
				source.CreatedFamily(),
				source.PriceFamily(),
			},
		},
		{
			Type: event.LoadBalancer,
			Families: []source.Family{
				source.InfoFamily("account", "name", "region", event.Kind),
				source.SizeFamily(event.Targets, "targets", "Targets of the load balancer.", 1),
				included("load balancer"), outgoing("load balancer"),
				source.CreatedFamily(),
				source.PriceFamily(),
			},
		},
	}
}

func included(what string) source.Family {
	return source.ValueFamily("traffic_included_bytes", "Traffic of a month that the price of the "+what+" includes.")
}

func outgoing(what string) source.Family {
	return source.ValueFamily("traffic_outgoing_bytes", "Traffic out of the "+what+" in the current month.")
}
