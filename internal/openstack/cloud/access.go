// Package cloud reaches OpenStack clouds: it logs in with what people have
// (clouds.yaml, OS_* or the configuration), finds the services of each region in
// the catalogue, reads collections page by page, and says what answers mean. The
// provider and the source of OpenStack rest on it.
//
// The vendor's library neither retries nor backs off here: Temporal retries. It
// logs in again when a token has expired, once per request.
package cloud

import (
	"cmp"
	"crypto/tls"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
)

// Access is the part of a configuration that says how to get into a cloud. It is
// inlined into the blocks of providers and sources.
type Access struct {
	// Cloud names the entry of clouds.yaml. Default: the environment variable
	// OS_CLOUD; without one the credentials are those of auth, then of OS_*.
	Cloud string `yaml:"cloud"`
	// CloudsFile is the clouds.yaml. Default: as the openstack command looks for
	// it.
	CloudsFile string `yaml:"cloudsFile"`
	// Auth are credentials; what it names goes before clouds.yaml and OS_*.
	Auth Auth `yaml:"auth"`
	// Regions are those that are used, the first being the default. Default: the
	// region of clouds.yaml or OS_REGION_NAME, then the only one of the cloud.
	Regions []string `yaml:"regions"`
	// Interface is public, internal or admin. Default: that of clouds.yaml or
	// OS_INTERFACE, then public.
	Interface string `yaml:"interface"`
	// CAFile holds the certificate authorities of the API. Default: cacert of
	// clouds.yaml or OS_CACERT, then the system's.
	CAFile string `yaml:"caFile"`
	// CallTimeout bounds each request. Default 60s.
	CallTimeout time.Duration `yaml:"callTimeout"`
}

// SecretFields are the fields of an Access that name secrets.
func SecretFields() []string {
	return []string{"auth.password", "auth.applicationCredentialSecret"}
}

// Auth are credentials: of a user, or of an application.
type Auth struct {
	// URL is that of the identity service, such as https://cloud.example.com:5000/v3.
	URL string `yaml:"url"`
	// Username and UserDomain, or UserID.
	Username   string `yaml:"username"`
	UserID     string `yaml:"userID"`
	UserDomain string `yaml:"userDomain"`
	// Password names the secret that holds the password.
	Password string `yaml:"password"`
	// Project and ProjectDomain, or ProjectID.
	Project       string `yaml:"project"`
	ProjectID     string `yaml:"projectID"`
	ProjectDomain string `yaml:"projectDomain"`
	// ApplicationCredentialID, or ApplicationCredentialName with the user.
	ApplicationCredentialID   string `yaml:"applicationCredentialID"`
	ApplicationCredentialName string `yaml:"applicationCredentialName"`
	// ApplicationCredentialSecret names the secret that holds the secret.
	ApplicationCredentialSecret string `yaml:"applicationCredentialSecret"`
}

// Target is a checked Access with its defaults.
type Target struct {
	Access
	// Account names the account for its request budget: the cloud's host, the
	// project and the user.
	Account string
	// Insecure says that certificates are not checked.
	Insecure bool

	auth gophercloud.AuthOptions // without the secrets of the configuration
	tls  *tls.Config
}

var interfaces = []string{"public", "internal", "admin"}

// Check checks the configuration and fills in its defaults; bad is called for each
// thing that is wrong. It reads clouds.yaml and certificates, and makes no request.
func (o Access) Check(typeName string, bad func(format string, args ...any)) Target {
	t := Target{Access: o}
	t.checkAuth(typeName, bad)
	for i, r := range o.Regions {
		if r == "" || slices.Contains(o.Regions[:i], r) {
			bad("regions[%d]: %q: want names, each once", i, r)
		}
	}
	if o.Interface != "" && !slices.Contains(interfaces, strings.TrimSuffix(o.Interface, "URL")) {
		bad("interface: %q: want one of %s", o.Interface, strings.Join(interfaces, ", "))
	}
	const def, least, top = time.Minute, time.Second, 5 * time.Minute
	if t.CallTimeout == 0 {
		t.CallTimeout = def
	} else if t.CallTimeout < least || t.CallTimeout > top {
		bad("callTimeout: %v: want %v to %v", t.CallTimeout, least, top)
	}
	return t
}

func (t *Target) checkAuth(typeName string, bad func(format string, args ...any)) {
	a, err := t.read()
	if err != nil {
		bad("%w", err)
		return
	}
	t.tls = a.tls
	t.Insecure = a.tls != nil && a.tls.InsecureSkipVerify
	t.auth = a.auth
	u, err := url.Parse(a.auth.IdentityEndpoint)
	switch {
	case err != nil: // its text would repeat a password in the URL
		bad("auth.url: is no URL: want one such as https://cloud.example.com:5000/v3")
		return
	case (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || u.User != nil || u.RawQuery != "":
		bad("auth.url: %q is no base URL: want one such as https://cloud.example.com:5000/v3", u.Redacted())
	case strings.HasPrefix(path.Base(u.Path), "v2"):
		bad("auth.url: %q: is of version 2, which is gone: want one such as https://cloud.example.com:5000/v3", u.Redacted())
	}
	ao := a.auth
	app := ao.ApplicationCredentialID != "" || ao.ApplicationCredentialName != ""
	switch {
	case app && t.Auth.ApplicationCredentialSecret == "" && ao.ApplicationCredentialSecret == "":
		bad("auth.applicationCredentialSecret: is required with an application credential: the name of a secret")
	case app && t.Auth.Password != "":
		bad("auth.password: goes with a user, and this is an application credential: want auth.applicationCredentialSecret")
	case !app && ao.TokenID == "" && ao.Username == "" && ao.UserID == "":
		bad("auth.username: is required, or auth.userID, or auth.applicationCredentialID")
	case !app && ao.TokenID == "" && t.Auth.Password == "" && ao.Password == "":
		bad("auth.password: is required: the name of a secret")
	case !app && ao.TenantID == "" && ao.TenantName == "" && ao.Scope == nil:
		bad("auth.project: is required, or auth.projectID")
	}
	t.Account = strings.Join([]string{typeName, u.Host, cmp.Or(ao.TenantID, ao.TenantName, ao.ApplicationCredentialID,
		ao.ApplicationCredentialName), cmp.Or(ao.UserID, ao.Username)}, "/")
}
