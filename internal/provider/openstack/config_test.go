package openstack_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tollgate-dev/tollgate/internal/config"
	"github.com/tollgate-dev/tollgate/internal/openstack/cloud"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacksim"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacktest"
)

func build(o openstack.Options) error {
	_, err := openstack.New(provider.Config{Name: "cloud", Installation: "acme", Decode: func(into any) error {
		*into.(*openstack.Options) = o
		return nil
	}})
	return err
}

// valid is a configuration that change makes wrong.
func valid(change func(*openstack.Options)) openstack.Options {
	o := openstack.Options{Network: "egress", Access: cloud.Access{Auth: cloud.Auth{URL: "https://cloud.example.com:5000/v3", Username: "u", Project: "p", Password: "pw"}}}
	change(&o)
	return o
}

func TestConfigErrors(t *testing.T) {
	t.Setenv("OS_CLOUD", "")
	t.Setenv("OS_AUTH_URL", "")
	if err := build(valid(func(*openstack.Options) {})); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*openstack.Options){
		"network: is required":                          func(o *openstack.Options) { o.Network = "" },
		"auth.url: is required":                         func(o *openstack.Options) { o.Auth.URL = "" },
		`auth.url: "ftp://x" is no base URL`:            func(o *openstack.Options) { o.Auth.URL = "ftp://x" },
		"auth.url: is no URL":                           func(o *openstack.Options) { o.Auth.URL = "https://u:hunter2@[bad" },
		`auth.url: "https://u:xxxxx@cloud.example.com"`: func(o *openstack.Options) { o.Auth.URL = "https://u:hunter2@cloud.example.com" },
		"auth.username: is required":                    func(o *openstack.Options) { o.Auth.Username = "" },
		"auth.password: is required":                    func(o *openstack.Options) { o.Auth.Password = "" },
		"auth.project: is required":                     func(o *openstack.Options) { o.Auth.Project = "" },
		"auth.applicationCredentialSecret: is required": func(o *openstack.Options) { o.Auth.ApplicationCredentialID = "x" },
		"cloud: ":                                func(o *openstack.Options) { o.Cloud, o.CloudsFile = "prod", "/does/not/exist.yaml" },
		"caFile: ":                               func(o *openstack.Options) { o.CAFile = "/does/not/exist.pem" },
		`regions[1]: "a": want names, each once`: func(o *openstack.Options) { o.Regions = []string{"a", "a"} },
		`interface: "private": want one of public`:                     func(o *openstack.Options) { o.Interface = "private" },
		"securityGroups[0]: is empty":                                  func(o *openstack.Options) { o.SecurityGroups = []string{""} },
		"ipVersion: 5: want 4 or 6":                                    func(o *openstack.Options) { o.IPVersion = 5 },
		"ipVersion: 6 with floatingNetwork":                            func(o *openstack.Options) { o.IPVersion, o.FloatingNetwork = 6, "public" },
		"volume.sizeGB: -1: want 1 to 16384":                           func(o *openstack.Options) { o.Volume.SizeGB = -1 },
		"volume.sizeGB: is required with volume.type, volume.zone and": func(o *openstack.Options) { o.Volume.Boot = true },
		"pageSize: 5000: want 1 to 1000":                               func(o *openstack.Options) { o.PageSize = 5000 },
		"poll: 1h0m0s: want 1ms to 1m0s":                               func(o *openstack.Options) { o.Poll = 3600e9 },
		"callTimeout: 1ns: want 1s to 5m0s":                            func(o *openstack.Options) { o.CallTimeout = 1 },
		"waitLimit: 1h0m0s: want 1s to 10m0s":                          func(o *openstack.Options) { o.WaitLimit = 3600e9 },
	} {
		err := build(valid(change))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("a password is in %v", err)
		}
	}
}

// cloudsYAML is a file as the openstack command has it.
const cloudsYAML = `clouds:
  by-password:
    region_name: RegionTwo
    interface: internal
    auth:
      auth_url: URL
      username: demo
      password: from-clouds
      project_name: demo
      user_domain_name: Default
      project_domain_name: Default
  by-application:
    auth_type: v3applicationcredential
    region_name: RegionOne
    auth:
      auth_url: URL
      application_credential_id: app-id
      application_credential_secret: app-secret
  in-two-files:
    auth:
      auth_url: URL
      username: demo
      project_name: demo
      user_domain_id: default
      project_domain_id: default
    region_name: RegionOne
`

const secureYAML = `clouds:
  in-two-files:
    auth:
      password: from-secure
`

// Each way in which people keep credentials logs in, and only with the right ones.
func TestCredentials(t *testing.T) {
	b := openstacktest.NewBackend(t, openstacksim.Options{
		Regions: []string{"RegionOne", "RegionTwo"},
		Users: map[string]string{"demo": "from-clouds", "app-id": "app-secret", "secure": "from-secure", "env": "from-env", "env-app": "env-secret",
			"configured": "from-vault"},
	})
	dir := t.TempDir()
	file := filepath.Join(dir, "clouds.yaml")
	for name, text := range map[string]string{"clouds.yaml": cloudsYAML, "secure.yaml": secureYAML} {
		text = strings.ReplaceAll(text, "URL", b.URL)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		env    map[string]string
		opt    cloud.Access
		user   map[string]string // changes of the cloud's users
		region string
	}{
		"a named cloud":             {opt: cloud.Access{Cloud: "by-password", CloudsFile: file}, region: "RegionTwo"},
		"OS_CLOUD":                  {env: map[string]string{"OS_CLOUD": "by-password", "OS_CLIENT_CONFIG_FILE": file}, region: "RegionTwo"},
		"an application credential": {opt: cloud.Access{Cloud: "by-application", CloudsFile: file}, region: "RegionOne"},
		"secure.yaml":               {opt: cloud.Access{Cloud: "in-two-files", CloudsFile: file}, user: map[string]string{"demo": "from-secure"}, region: "RegionOne"},
		"a secret over the cloud": {opt: cloud.Access{Cloud: "by-password", CloudsFile: file, Regions: []string{"RegionOne"}, Auth: cloud.Auth{Password: "vault"}},
			user: map[string]string{"demo": "from-vault"}, region: "RegionOne"},
		"an openrc file": {env: map[string]string{"OS_AUTH_URL": b.URL, "OS_USERNAME": "env", "OS_PASSWORD": "from-env", "OS_PROJECT_NAME": "demo",
			"OS_USER_DOMAIN_NAME": "Default", "OS_PROJECT_DOMAIN_NAME": "Default", "OS_REGION_NAME": "RegionTwo", "OS_INTERFACE": "admin"}, region: "RegionTwo"},
		"an openrc file with ids": {env: map[string]string{"OS_AUTH_URL": b.URL, "OS_USER_ID": "env", "OS_PASSWORD": "from-env", "OS_PROJECT_ID": "0123",
			"OS_REGION_NAME": "RegionOne"}, region: "RegionOne"},
		"an openrc file of an application": {env: map[string]string{"OS_AUTH_URL": b.URL, "OS_APPLICATION_CREDENTIAL_ID": "env-app",
			"OS_APPLICATION_CREDENTIAL_SECRET": "env-secret", "OS_REGION_NAME": "RegionOne"}, region: "RegionOne"},
		"all in the configuration": {env: map[string]string{"OS_CLOUD": "nonsense"}, opt: cloud.Access{Regions: []string{"RegionTwo", "RegionOne"},
			Auth: cloud.Auth{URL: b.URL, Username: "configured", UserDomain: "Default", Project: "demo", ProjectDomain: "Default", Password: "vault"}}, region: "RegionTwo"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, n := range []string{"OS_CLOUD", "OS_CLIENT_CONFIG_FILE", "OS_AUTH_URL", "OS_USERNAME", "OS_PASSWORD", "OS_PROJECT_NAME", "OS_REGION_NAME", "OS_INTERFACE"} {
				t.Setenv(n, "")
			}
			for k, v := range tc.env {
				t.Setenv(k, v)
			}
			b.SetPassword("demo", "from-clouds")
			for k, v := range tc.user {
				b.SetPassword(k, v)
			}
			secrets := newVault("")
			secrets.set("vault", "from-vault")
			opt := openstack.Options{Access: tc.opt, Flavor: "m1.tiny", Image: "cirros", Network: "private"}
			p, err := openstack.New(provider.Config{Name: "cloud", Installation: "acme", Secret: secrets.read, Decode: func(into any) error {
				*into.(*openstack.Options) = opt
				return nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			id := create(t, p, request("proxy-"+string(tc.region[6]+'a'-'A')))
			if want := "openstack/" + tc.region + "/"; !strings.HasPrefix(string(id), want) {
				t.Errorf("%s, want it in %s", id, tc.region)
			}
			if err := p.Delete(t.Context(), id); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestPageExample: people copy the page's configuration.
func TestPageExample(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/providers/openstack.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?s)```yaml\n(secrets:.*?)```").FindSubmatch(page)
	if m == nil {
		t.Fatal("the page has no configuration")
	}
	text := "installation: acme\nprobe: {target: 'example.com:443'}\n" + string(m[1])
	c, err := config.Parse([]byte(text), "openstack.md", config.Options{Types: []provider.Type{openstack.Type()}})
	if err != nil {
		t.Fatal(err)
	}
	p, ok := c.Provider("cloud")
	if !ok {
		t.Fatal("no provider is named cloud")
	}
	if _, err := openstack.New(provider.Config{Name: p.Name, Installation: c.Installation, Decode: p.Decode}); err != nil {
		t.Error(err)
	}
}
