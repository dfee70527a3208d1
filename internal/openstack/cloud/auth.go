package cloud

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// login is how to get into a cloud, without the secrets of the configuration.
type login struct {
	auth     gophercloud.AuthOptions
	region   string
	endpoint string // public, internal or admin
	tls      *tls.Config
}

// read reads clouds.yaml or OS_* and lays the configuration over it. It is
// read again for each login, so that rotated credentials need no restart.
func (o *Access) read() (login, error) {
	var a login
	var err error
	switch cloud := cmp.Or(o.Cloud, os.Getenv("OS_CLOUD")); {
	case o.Auth.URL != "" && o.Cloud == "":
		// All of it is in the configuration.
	case cloud != "":
		a, err = o.fromClouds(cloud)
	case os.Getenv("OS_AUTH_URL") != "":
		if a, err = fromEnv(os.Getenv); err == nil {
			a.tls, err = tlsFor(o.CAFile, os.Getenv("OS_CACERT"))
		}
	default:
		return login{}, errors.New("auth.url: is required unless cloud, OS_CLOUD or OS_AUTH_URL is set")
	}
	if err != nil {
		return login{}, err
	}
	if a.tls == nil {
		if a.tls, err = tlsFor(o.CAFile, os.Getenv("OS_CACERT")); err != nil {
			return login{}, err
		}
	}
	o.Auth.over(&a.auth)
	a.endpoint = strings.TrimSuffix(cmp.Or(o.Interface, a.endpoint, "public"), "URL")
	return a, nil
}

// fromEnv reads the variables that the openstack command reads.
func fromEnv(env func(string) string) (login, error) {
	one := func(names ...string) string {
		for _, n := range names {
			if v := env(n); v != "" {
				return v
			}
		}
		return ""
	}
	ao := gophercloud.AuthOptions{
		IdentityEndpoint: env("OS_AUTH_URL"),
		Username:         env("OS_USERNAME"), UserID: one("OS_USER_ID", "OS_USERID"), Password: env("OS_PASSWORD"),
		DomainID: one("OS_USER_DOMAIN_ID", "OS_DOMAIN_ID"), DomainName: one("OS_USER_DOMAIN_NAME", "OS_DOMAIN_NAME"),
		TenantID: one("OS_PROJECT_ID", "OS_TENANT_ID"), TenantName: one("OS_PROJECT_NAME", "OS_TENANT_NAME"),
		ApplicationCredentialID:     env("OS_APPLICATION_CREDENTIAL_ID"),
		ApplicationCredentialName:   env("OS_APPLICATION_CREDENTIAL_NAME"),
		ApplicationCredentialSecret: env("OS_APPLICATION_CREDENTIAL_SECRET"),
	}
	// An openrc file that was read after another one leaves what that one had.
	switch typ := env("OS_AUTH_TYPE"); typ {
	case "", "v3applicationcredential":
	case "password", "v3password":
		ao.ApplicationCredentialID, ao.ApplicationCredentialName, ao.ApplicationCredentialSecret = "", "", ""
	default:
		return login{}, fmt.Errorf("OS_AUTH_TYPE: %q: want one of password, v3password, v3applicationcredential", typ)
	}
	if ao.DomainID == "" && ao.DomainName == "" {
		ao.DomainID = cmp.Or(env("OS_DEFAULT_DOMAIN"), "default")
	}
	if trust := env("OS_TRUST_ID"); trust != "" {
		ao.Scope = &gophercloud.AuthScope{TrustID: trust}
	} else if ao.TenantID == "" && ao.TenantName != "" {
		ao.Scope = &gophercloud.AuthScope{ProjectName: ao.TenantName,
			DomainID: one("OS_PROJECT_DOMAIN_ID"), DomainName: env("OS_PROJECT_DOMAIN_NAME")}
	}
	return login{auth: ao, region: env("OS_REGION_NAME"), endpoint: one("OS_INTERFACE", "OS_ENDPOINT_TYPE")}, nil
}

// over lays the configuration's credentials over others. Naming a user, a
// project or an application credential replaces all that there was of it.
func (a Auth) over(ao *gophercloud.AuthOptions) {
	ao.IdentityEndpoint = cmp.Or(a.URL, ao.IdentityEndpoint)
	if a.Username != "" || a.UserID != "" {
		ao.Username, ao.UserID, ao.DomainID, ao.DomainName = a.Username, a.UserID, "", cmp.Or(a.UserDomain, ao.DomainName)
		ao.ApplicationCredentialID, ao.ApplicationCredentialName, ao.ApplicationCredentialSecret = "", "", ""
	}
	if a.ApplicationCredentialID != "" || a.ApplicationCredentialName != "" {
		ao.ApplicationCredentialID, ao.ApplicationCredentialName = a.ApplicationCredentialID, a.ApplicationCredentialName
		ao.Password, ao.Scope = "", nil
	}
	if a.Project != "" || a.ProjectID != "" {
		ao.TenantID, ao.TenantName, ao.Scope = a.ProjectID, a.Project, &gophercloud.AuthScope{ProjectID: a.ProjectID}
		if a.ProjectID == "" {
			ao.Scope = &gophercloud.AuthScope{ProjectName: a.Project, DomainName: a.ProjectDomain}
		}
	}
	complete(ao)
}

// complete fills in what people leave out, and drops what the identity service
// would refuse beside something else, or the library would take before it.
func complete(ao *gophercloud.AuthOptions) {
	if ao.ApplicationCredentialID != "" || ao.ApplicationCredentialName != "" {
		ao.Password, ao.TokenID = "", ""
	}
	switch {
	case ao.ApplicationCredentialID != "":
		ao.Username, ao.UserID, ao.DomainID, ao.DomainName, ao.Scope = "", "", "", "", nil
	case ao.UserID != "":
		ao.Username, ao.DomainID, ao.DomainName = "", "", ""
	case ao.DomainID != "":
		ao.DomainName = ""
	case ao.DomainName == "":
		ao.DomainID = "default"
	}
	s := ao.Scope
	if s == nil {
		return
	}
	switch {
	case s.ProjectID != "":
		s.ProjectName, s.DomainID, s.DomainName = "", "", ""
	case s.ProjectName == "":
	case s.DomainID != "":
		s.DomainName = ""
	case s.DomainName == "":
		s.DomainID, s.DomainName = ao.DomainID, ao.DomainName
		if s.DomainID == "" && s.DomainName == "" {
			s.DomainID = "default"
		}
	}
}

// tlsFor is the configuration for a file of certificate authorities, nil for
// none.
func tlsFor(files ...string) (*tls.Config, error) {
	for _, file := range files {
		if file == "" {
			continue
		}
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("caFile: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("caFile: %s holds no certificate in PEM form", file)
		}
		return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
	}
	return nil, nil
}

// credentials are those to log in with, as they are now, and what of them is
// secret.
func (c *Cloud) credentials(ctx context.Context) (login, []provider.Sensitive, error) {
	a, err := c.target.read()
	if err != nil {
		return login{}, nil, &CredentialsError{err}
	}
	for _, s := range []struct {
		name string
		into *string
	}{
		{c.target.Auth.Password, &a.auth.Password},
		{c.target.Auth.ApplicationCredentialSecret, &a.auth.ApplicationCredentialSecret},
	} {
		if s.name == "" {
			continue
		}
		if c.secret == nil {
			return login{}, nil, &CredentialsError{fmt.Errorf("secret %q: there are no secrets", s.name)}
		}
		v, err := c.secret(ctx, s.name)
		if err != nil {
			return login{}, nil, &CredentialsError{err}
		}
		if *s.into = strings.TrimRight(string(v.Reveal()), "\r\n"); *s.into == "" {
			return login{}, nil, &CredentialsError{fmt.Errorf("secret %q: is empty", s.name)}
		}
	}
	var secrets []provider.Sensitive
	for _, s := range []string{a.auth.Password, a.auth.ApplicationCredentialSecret, a.auth.TokenID} {
		if s != "" {
			secrets = append(secrets, provider.NewSensitive([]byte(s)))
		}
	}
	return a, secrets, nil
}

// CredentialsError is for credentials that cannot be had.
type CredentialsError struct{ Err error }

// Error implements error.
func (e *CredentialsError) Error() string { return "credentials: " + e.Err.Error() }

// Unwrap gives the cause.
func (e *CredentialsError) Unwrap() error { return e.Err }
