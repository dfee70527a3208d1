package main

import (
	"testing"

	"github.com/tollgate-dev/tollgate/internal/config"
	"github.com/tollgate-dev/tollgate/internal/devserver/simcloud"
	"github.com/tollgate-dev/tollgate/internal/provider/local"
)

func TestTheExampleIsOfAProviderThatThereIs(t *testing.T) {
	t.Parallel()
	hcloud := config.Provider{Name: simcloud.HetznerProvider, Type: "hetzner"}
	for name, tc := range map[string]struct {
		providers []config.Provider
		simulated bool
		want      string
	}{
		"none":                         {},
		"the new configuration's":      {providers: []config.Provider{{Name: "local", Type: local.TypeName}}, want: "local"},
		"of another name":              {providers: []config.Provider{hcloud, {Name: "here", Type: local.TypeName}}, want: "here"},
		"without processes":            {providers: []config.Provider{{Name: "nova", Type: "openstack"}, hcloud}, want: "nova"},
		"a simulated one":              {providers: []config.Provider{hcloud}, simulated: true},
		"a simulated one and another":  {providers: []config.Provider{hcloud, {Name: "nova", Type: "openstack"}}, simulated: true, want: "nova"},
		"a real one of that same name": {providers: []config.Provider{hcloud}, want: simcloud.HetznerProvider},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &dev{providers: tc.providers}
			if tc.simulated {
				d.hetzner = &simcloud.Hetzner{}
			}
			if got, ok := d.demoProvider(); got != tc.want || ok != (tc.want != "") {
				t.Errorf("the example is of provider %q, %v; want %q", got, ok, tc.want)
			}
		})
	}
}
