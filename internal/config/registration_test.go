package config

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/registration"
	"github.com/tollgate-dev/tollgate/internal/source/memory"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

const gardenFile = `installation: acme
providers: [{name: local, type: local}]
sinks:
  - {name: billing, type: reporting, url: "https://reporting.example.com"}
  - {name: bus, type: cloudevents, url: "http://127.0.0.1:9000/in"}
sources:
  - name: garden
    type: gardener
    account: landscape
    sink: billing
    registration:
      createdBy: finops
      tenants:
        - {project: dev, shoot: web, platform: hetzner, tenant: acme-prod}
        - {project: dev, credentials: cloud, infrastructure: hcloud, tenant: acme, name: Acme}
        - {secret: garden-shared/os, tenant: 1a2b}
      openstack:
        keystones: [{url: "https://keystone.example.com:5000/v3", caFile: ca.pem}, {url: "http://127.0.0.1:5000"}]
`

func gardenOptions() Options {
	o := tollOptions()
	garden := memory.Type(&memory.Feed{})
	garden.Name = gardenerType
	o.SourceTypes = append(o.SourceTypes, garden)
	return o
}

func TestRegistration(t *testing.T) {
	t.Parallel()
	c, err := Parse([]byte(gardenFile), filepath.Join("etc", "t.yaml"), gardenOptions())
	if err != nil {
		t.Fatal(err)
	}
	want := &Registration{Reporting: "billing", CAFiles: []string{filepath.Join("etc", "ca.pem"), ""}, Settings: registration.Settings{
		CreatedBy: "finops",
		Tenants: []registration.Mapping{
			{Project: "dev", Shoot: "web", Tenant: api.Tenant{Platform: "hetzner", ExternalID: "acme-prod"}},
			{Project: "dev", Credentials: "cloud", Infrastructure: "hcloud", Tenant: api.Tenant{ExternalID: "acme", Name: "Acme"}},
			{Secret: "garden-shared/os", Tenant: api.Tenant{ExternalID: "1a2b"}},
		},
		OpenStack: registration.OpenStackSettings{Keystones: []registration.Keystone{{URL: "https://keystone.example.com:5000/v3"}, {URL: "http://127.0.0.1:5000"}}},
	}}
	if diff := cmp.Diff(c.Sources[0].Registration, want); diff != "" {
		t.Errorf("registration (-got +want):\n%s", diff)
	}
	off, err := Parse([]byte(strings.Replace(gardenFile, "createdBy: finops", "enabled: false", 1)), "t.yaml", gardenOptions())
	if err != nil || off.Sources[0].Registration != nil {
		t.Errorf("switched off: %+v, %v", off.Sources[0].Registration, err)
	}
	short, err := Parse([]byte(gardenFile[:strings.Index(gardenFile, "      createdBy")]+"      enabled: true\n"), "t.yaml", gardenOptions())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(short.Sources[0].Registration, &Registration{Reporting: "billing", Settings: registration.Settings{CreatedBy: "tollgate"}}); diff != "" {
		t.Errorf("defaults (-got +want):\n%s", diff)
	}
	byName, err := Parse([]byte(gardenFile[:strings.Index(gardenFile, "        keystones")]+"        tenant: name\n"), "t.yaml", gardenOptions())
	if err != nil || !byName.Sources[0].Registration.Settings.OpenStack.ByName {
		t.Errorf("by name: %v", err)
	}
}

func TestRegistrationMistakes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ old, new, want string }{
		{"type: gardener", "type: hetzner", `sources[0].registration: is for sources of type gardener: "hetzner" has no shoots`},
		{"sink: billing", "sink: bus", `sources[0].registration.reporting: "bus" is no sink of type reporting, which keeps projects and relations: sinks defines billing`},
		{"createdBy: finops", "reporting: other", `sources[0].registration.reporting: "other" is no sink of type reporting`},
		{"createdBy: finops", "createdBy: " + strings.Repeat("x", 101), "sources[0].registration.createdBy: has 101 bytes"},
		{", tenant: acme-prod", "", "sources[0].registration.tenants[0].tenant: is required"},
		{"platform: hetzner", "platform: Hetzner", `sources[0].registration.tenants[0]: tenant.platform: "Hetzner" is no platform`},
		{"project: dev, shoot", "shoot", "sources[0].registration.tenants[0].project: is required with shoot"},
		{"garden-shared/os", "os", `sources[0].registration.tenants[2].secret: "os" names no Secret`},
		{"      openstack:", "      openstack:\n        tenant: uuid", `sources[0].registration.openstack.tenant: "uuid" is unknown: use id`},
		{"      openstack:", "      openstack:\n        tenant: name", "sources[0].registration.openstack.keystones: has no effect with tenant: name"},
		{"http://127.0.0.1:5000", "http://user:password@127.0.0.1:5000", "sources[0].registration.openstack.keystones[1].url: is no address of a Keystone"},
		{"http://127.0.0.1:5000", "https://keystone.example.com:5000/v3", "is given twice"},
		{"createdBy: finops", "createdby: finops", "sources[0].registration.createdby"},
	} {
		text := strings.Replace(gardenFile, tc.old, tc.new, 1)
		if text == gardenFile {
			t.Fatalf("%q is not in the example", tc.old)
		}
		_, err := Parse([]byte(text), "t.yaml", gardenOptions())
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %s", tc.new, err, tc.want)
		} else if strings.Contains(err.Error(), "password") {
			t.Errorf("the error tells a password: %v", err)
		}
	}
}
