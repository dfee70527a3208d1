package hetzner_test

import (
	"testing"

	"github.com/tollgate-dev/tollgate/internal/provider/hetzner"
	"github.com/tollgate-dev/tollgate/internal/provider/hetzner/hetznersim"
	"github.com/tollgate-dev/tollgate/internal/provider/hetzner/hetznertest"
	"github.com/tollgate-dev/tollgate/internal/provider/providertest"
)

// TestContract runs the conformance kit over HTTP with each way of making an
// instance.
func TestContract(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		sim    func(*hetznersim.Options)
		config func(*hetzner.Options)
	}{
		"plain": {},
		"with parts of its own": {config: func(o *hetzner.Options) {
			o.IPv4, o.IPv6, o.Volume = "own", "own", hetzner.Volume{SizeGB: 10, Format: "ext4"}
		}},
		"IPv6 only":           {config: func(o *hetzner.Options) { o.IPv4 = "none" }},
		"addresses that stay": {sim: func(o *hetznersim.Options) { o.KeepAutoIPs = true }},
		"deleted servers are hidden at once": {
			sim:    func(o *hetznersim.Options) { o.HideDeleted = true },
			config: func(o *hetzner.Options) { o.IPv4 = "own" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			providertest.Run(t, hetznertest.Harness(tc.sim, tc.config))
		})
	}
}
