package config

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/tollgate-dev/tollgate/internal/registration"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// gardenerType is the type of the sources whose shoots can be registered.
const gardenerType = "gardener"

// typeReporting is the type of the sinks that keep projects and relations.
const typeReporting = "reporting"

// Registration says how the shoots of a source are registered.
type Registration struct {
	// Reporting names the sink of type reporting that projects and relations are
	// written to.
	Reporting string
	Settings  registration.Settings
	// CAFiles are the paths of the certificates of Settings.OpenStack.Keystones, in
	// their order; empty means the system's.
	CAFiles []string
}

type rawRegistration struct {
	Enabled   *bool  `yaml:"enabled"`
	Reporting string `yaml:"reporting"`
	CreatedBy string `yaml:"createdBy"`
	Tenants   []struct {
		Project        string `yaml:"project"`
		Shoot          string `yaml:"shoot"`
		Infrastructure string `yaml:"infrastructure"`
		Credentials    string `yaml:"credentials"`
		Secret         string `yaml:"secret"`
		Platform       string `yaml:"platform"`
		Tenant         string `yaml:"tenant"`
		Name           string `yaml:"name"`
	} `yaml:"tenants"`
	OpenStack struct {
		Tenant    string `yaml:"tenant"`
		Keystones []struct {
			URL    string `yaml:"url"`
			CAFile string `yaml:"caFile"`
		} `yaml:"keystones"`
	} `yaml:"openstack"`
}

// Words of registration.openstack.tenant.
const (
	tenantByID   = "id"
	tenantByName = "name"
)

// registration reads how the shoots of a source are registered; nil means that
// they are not.
func (v *validator) registration(c *Config, at string, s Source, r *rawRegistration) *Registration {
	if r == nil {
		return nil
	}
	if s.Type != gardenerType {
		v.bad(at, "is for sources of type %s: %q has no shoots", gardenerType, s.Type)
		return nil
	}
	out := &Registration{Reporting: r.Reporting, Settings: registration.Settings{CreatedBy: r.CreatedBy}}
	if out.Reporting == "" {
		out.Reporting = s.Sink
	}
	if sink, ok := c.Sink(out.Reporting); !ok || sink.Type != typeReporting {
		var good []string
		for _, k := range c.Sinks {
			if k.Type == typeReporting {
				good = append(good, k.Name)
			}
		}
		v.bad(at+".reporting", "%q is no sink of type %s, which keeps projects and relations: sinks defines %s", out.Reporting, typeReporting, list(good))
	}
	if out.Settings.CreatedBy == "" {
		out.Settings.CreatedBy = registration.DefaultCreatedBy
	} else if len(out.Settings.CreatedBy) > 100 {
		v.bad(at+".createdBy", "has %d bytes: use at most 100", len(out.Settings.CreatedBy))
	}
	for i, t := range r.Tenants {
		field := fmt.Sprintf("%s.tenants[%d]", at, i)
		m := registration.Mapping{Project: t.Project, Shoot: t.Shoot, Infrastructure: t.Infrastructure, Credentials: t.Credentials, Secret: t.Secret,
			Tenant: api.Tenant{Platform: t.Platform, ExternalID: t.Tenant, Name: t.Name}}
		if t.Tenant == "" {
			v.bad(field+".tenant", "is required: the account that the platform's events have")
		}
		if t.Platform != "" && t.Tenant != "" {
			if err := m.Tenant.Validate("tenant"); err != nil {
				v.bad(field, "%v", err)
			}
		}
		if t.Shoot != "" && t.Project == "" {
			v.bad(field+".project", "is required with shoot: names of shoots are unique in a project")
		}
		if t.Secret != "" && strings.Count(t.Secret, "/") != 1 {
			v.bad(field+".secret", "%q names no Secret: use NAMESPACE/NAME", t.Secret)
		}
		out.Settings.Tenants = append(out.Settings.Tenants, m)
	}
	v.openstackTenants(at+".openstack", r, out)
	if r.Enabled != nil && !*r.Enabled {
		return nil
	}
	return out
}

func (v *validator) openstackTenants(at string, r *rawRegistration, out *Registration) {
	switch o := r.OpenStack; o.Tenant {
	case "", tenantByID:
	case tenantByName:
		out.Settings.OpenStack.ByName = true
		if len(o.Keystones) > 0 {
			v.bad(at+".keystones", "has no effect with tenant: %s, which asks none", tenantByName)
		}
	default:
		v.bad(at+".tenant", "%q is unknown: use %s, which asks Keystone for the project's id, or %s, which takes domain and name as the Secret has them", o.Tenant, tenantByID, tenantByName)
	}
	var seen []string
	for i, k := range r.OpenStack.Keystones {
		field := fmt.Sprintf("%s.keystones[%d]", at, i)
		u, err := url.Parse(k.URL)
		switch {
		case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
			v.bad(field+".url", "is no address of a Keystone: use an http or https URL without credentials, such as https://keystone.example.com:5000/v3")
		case slices.Contains(seen, k.URL):
			v.bad(field+".url", "%q is given twice", k.URL)
		}
		seen = append(seen, k.URL)
		out.Settings.OpenStack.Keystones = append(out.Settings.OpenStack.Keystones, registration.Keystone{URL: k.URL})
		out.CAFiles = append(out.CAFiles, relativeTo(v.doc.File(), k.CAFile))
	}
}
