package openstack

import (
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
)

// exports are the series of a project. The clouds' GB are 2^30 bytes.
func exports() []source.Export {
	return []source.Export{
		{
			Type: event.Server,
			Families: []source.Family{
				source.InfoFamily("account", "name", "region", event.Flavor, infoImage, infoZone),
				source.WordFamily("state", "1 for the state that the server is in: active or off.", "state"),
				source.WordFamily("status", "1 for the cloud's word for the state of the server.", infoStatus),
				source.SizeFamily(event.VCPUs, "vcpus", "Virtual processors of the server.", 1),
				source.SizeFamily(event.RAMGB, "memory_bytes", "Memory of the server.", source.GiB),
				source.SizeFamily(event.DiskGB, "disk_bytes", "Local disk of the server.", source.GiB),
				source.CreatedFamily(),
			},
		},
		{
			Type: event.Volume,
			Families: []source.Family{
				source.InfoFamily("account", "name", "region", event.Kind, infoServer, infoZone),
				source.WordFamily("status", "1 for the cloud's word for the state of the volume.", infoStatus),
				source.SizeFamily(event.SizeGB, "size_bytes", "Size of the volume.", source.GiB),
				source.CreatedFamily(),
			},
		},
		{
			Type: event.FloatingIP,
			Families: []source.Family{
				source.InfoFamily("account", "name", "region", infoAddress, infoServer),
				source.WordFamily("status", "1 for the cloud's word for the state of the floating IP.", infoStatus),
				source.CreatedFamily(),
			},
		},
	}
}
