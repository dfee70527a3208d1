package cloud

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const cloudsText = `clouds:
  prod:
    auth: {auth_url: "https://prod/v3", username: demo, project_name: demo, user_domain_name: Default, project_domain_name: Default}
  trusted:
    auth: {auth_url: "https://trusted/v3", username: demo, password: pw-demo, user_domain_name: Default, trust_id: trust-1}
  both:
    auth_type: v3applicationcredential
    auth: {auth_url: "https://both/v3", username: demo, password: pw-demo, application_credential_id: app-1, application_credential_secret: s-1}
  empty:
    region_name: RegionOne
`

// write makes a file and returns its path.
func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// clean is an environment without anything of OpenStack, and with these.
func clean(t *testing.T, env map[string]string) {
	t.Helper()
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "OS_") {
			t.Setenv(name, "")
		}
	}
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for k, v := range env {
		t.Setenv(k, v)
	}
}

// body is what a login would send.
func body(t *testing.T, a Access) string {
	t.Helper()
	l, err := a.read()
	if err != nil {
		t.Fatal(err)
	}
	scope, err := l.auth.ToTokenV3ScopeMap()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := l.auth.ToTokenV3CreateMap(scope)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal([]any{doc, scope})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The files and variables of the openstack command mean here what they mean there.
func TestWaysIn(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	file := write(t, dir, "clouds.yaml", cloudsText)
	write(t, dir, "secure.yaml", "clouds:\n  prod:\n    auth: {password: pw-beside}\n")
	secure := write(t, other, "hidden.yaml", "clouds:\n  prod:\n    auth: {password: pw-secure}\n")
	openrc := map[string]string{"OS_AUTH_URL": "https://env/v3", "OS_USERNAME": "demo", "OS_PASSWORD": "pw-env", "OS_PROJECT_NAME": "demo"}
	with := func(more map[string]string) map[string]string {
		out := map[string]string{}
		for _, m := range []map[string]string{openrc, more} {
			for k, v := range m {
				out[k] = v
			}
		}
		return out
	}
	app := map[string]string{"OS_APPLICATION_CREDENTIAL_ID": "app-env", "OS_APPLICATION_CREDENTIAL_SECRET": "s-env"}
	for name, tc := range map[string]struct {
		env       map[string]string
		access    Access
		want, not string
	}{
		"secure.yaml beside OS_CLIENT_CONFIG_FILE": {env: map[string]string{"OS_CLOUD": "prod", "OS_CLIENT_CONFIG_FILE": file}, want: "pw-beside"},
		"OS_CLIENT_SECURE_FILE":                    {env: map[string]string{"OS_CLOUD": "prod", "OS_CLIENT_CONFIG_FILE": file, "OS_CLIENT_SECURE_FILE": secure}, want: "pw-secure", not: "pw-beside"},
		"OS_CLIENT_SECURE_FILE and cloudsFile":     {env: map[string]string{"OS_CLIENT_SECURE_FILE": secure}, access: Access{Cloud: "prod", CloudsFile: file}, want: "pw-secure", not: "pw-beside"},
		"a trust of clouds.yaml":                   {access: Access{Cloud: "trusted", CloudsFile: file}, want: `"OS-TRUST:trust":{"id":"trust-1"}`, not: "project"},
		"a trust of the environment": {env: map[string]string{"OS_AUTH_URL": "https://env/v3", "OS_USERNAME": "demo", "OS_PASSWORD": "pw-env", "OS_TRUST_ID": "trust-2"},
			want: `"OS-TRUST:trust":{"id":"trust-2"}`, not: "project"},
		"an application with a user beside it": {access: Access{Cloud: "both", CloudsFile: file}, want: "app-1", not: "pw-demo"},
		"an application after another openrc":  {env: with(app), want: "app-env", not: "pw-env"},
		"an application after another openrc, by type": {env: func() map[string]string { m := with(app); m["OS_AUTH_TYPE"] = "v3applicationcredential"; return m }(),
			want: "app-env", not: "pw-env"},
		"a user after an application": {env: func() map[string]string { m := with(app); m["OS_AUTH_TYPE"] = "password"; return m }(),
			want: "pw-env", not: "app-env"},
	} {
		t.Run(name, func(t *testing.T) {
			clean(t, tc.env)
			got := body(t, tc.access)
			if !strings.Contains(got, tc.want) || tc.not != "" && strings.Contains(got, tc.not) {
				t.Errorf("%s: want %q in it and not %q", got, tc.want, tc.not)
			}
			var wrong []error
			tc.access.Check("openstack", func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) })
			if len(wrong) > 0 {
				t.Error(wrong)
			}
		})
	}
}

// What is wrong is told by name, with what there is, and without what is secret.
func TestWrongWaysIn(t *testing.T) {
	dir := t.TempDir()
	file := write(t, dir, "clouds.yaml", cloudsText)
	broken := write(t, dir, "broken.yaml", "clouds:\n  prod:\n    auth: hunter2\n")
	for want, tc := range map[string]struct {
		env    map[string]string
		access Access
	}{
		`cloud: "prd": want one of both, empty, prod, trusted`:  {access: Access{Cloud: "prd", CloudsFile: file}},
		`cloud: "staging": want one of both, empty, prod`:       {env: map[string]string{"OS_CLOUD": "staging", "OS_CLIENT_CONFIG_FILE": file}},
		`cloud: "empty": has no auth`:                           {access: Access{Cloud: "empty", CloudsFile: file}},
		`cloud: "prod": yaml: unmarshal errors: line 3: cannot`: {access: Access{Cloud: "prod", CloudsFile: broken}},
		`/does/not/exist`: {access: Access{Cloud: "prod", CloudsFile: "/does/not/exist/clouds.yaml"}},
		`auth.url: "https://c:5000/v2.0": is of version 2`: {access: Access{Auth: Auth{URL: "https://c:5000/v2.0", Username: "u", Password: "p", Project: "p"}}},
		`auth.password: goes with a user`:                  {access: Access{Cloud: "both", CloudsFile: file, Auth: Auth{Password: "secret"}}},
		`OS_AUTH_TYPE: "v3oidcpassword": want one of`:      {env: map[string]string{"OS_AUTH_URL": "https://env/v3", "OS_AUTH_TYPE": "v3oidcpassword", "OS_USERNAME": "u", "OS_PASSWORD": "hunter2", "OS_PROJECT_NAME": "p"}},
	} {
		t.Run(want, func(t *testing.T) {
			clean(t, tc.env)
			var text strings.Builder
			tc.access.Check("openstack", func(format string, args ...any) { fmt.Fprintln(&text, fmt.Errorf(format, args...)) })
			if !strings.Contains(text.String(), want) || strings.Contains(text.String(), "hunter2") {
				t.Errorf("want %q: %s", want, text.String())
			}
		})
	}
}
