package workflows

import "hash/fnv"

// Names of the ProviderHealth workflow beside SignalConfigure, which it knows
// too with an api.HealthConfig as its payload.
const (
	SignalCheck = "check" // check now
	UpdateCheck = "Check" // check now -> api.ProviderHealth
)

// AttrOutcome is how sweeps are found by what came of them; see
// api.SweepOutcome. It shares its attribute with the reasons of proxies.
var AttrOutcome = AttrReason

// ShardOf is the shard of a fleet table that the proxy of this uid belongs to:
// 0 to shards-1. Fewer than one shard counts as one.
func ShardOf(uid string, shards int) int {
	if shards < 2 {
		return 0
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(uid)) // never fails
	return int(h.Sum32() % uint32(shards))
}
