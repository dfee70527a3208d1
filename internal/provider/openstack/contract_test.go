package openstack_test

import (
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/openstack/cloud"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacksim"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacktest"
	"github.com/tollgate-dev/tollgate/internal/provider/providertest"
)

// TestContract runs the conformance kit over HTTP with each way of making an
// instance.
func TestContract(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		sim    openstacksim.Options
		config func(*openstack.Options)
	}{
		"plain":       {},
		"floating IP": {config: func(o *openstack.Options) { o.FloatingNetwork = "public" }},
		"volume and floating IP": {
			sim: openstacksim.Options{VolumeTime: 3 * time.Millisecond},
			config: func(o *openstack.Options) {
				o.FloatingNetwork, o.Volume = "public", openstack.Volume{SizeGB: 2}
			},
		},
		"root volume": {config: func(o *openstack.Options) { o.Volume = openstack.Volume{SizeGB: 10, Boot: true} }},
		"slow":        {sim: openstacksim.Options{BuildTime: 20 * time.Millisecond, DeleteTime: 10 * time.Millisecond}},
		"old cloud":   {sim: openstacksim.Options{Microversion: "2.25", NoVolumes: true}},
		"soft delete": {sim: openstacksim.Options{SoftDelete: true}},
		"application credential": {config: func(o *openstack.Options) {
			o.Auth = cloud.Auth{URL: o.Auth.URL, ApplicationCredentialID: "app", ApplicationCredentialSecret: "cloud-secret"}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			providertest.Run(t, openstacktest.Harness(tc.sim, tc.config))
		})
	}
}
