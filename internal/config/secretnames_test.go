package config

import (
	"fmt"
	"strings"
	"testing"

	openstacksource "github.com/tollgate-dev/tollgate/internal/source/openstack"
)

// A secret that a type's block names, under whatever key, has to be there when the
// configuration is read, not at the first call that needs it.
func TestSecretsNamedInBlocks(t *testing.T) {
	t.Parallel()
	o := tollOptions()
	o.SourceTypes = append(o.SourceTypes, openstacksource.Type())
	const file = `installation: acme
probe: {target: "example.com:443"}
secrets: {known: {env: KNOWN}}
sinks: [{name: bus, type: cloudevents, url: "http://127.0.0.1:9000/in"}]
providers:
  - name: one
    type: %s
    %s: {%s}
sources: [{name: s, type: %s, account: a, sink: bus, %s: {%s}}]
`
	const fine = "token: known"
	for _, tc := range []struct {
		provider, block, source, sourceBlock string
		want                                 string // of the error; empty for none
	}{
		{"hetzner", fine, "hetzner", fine, ""},
		{"hetzner", "token: unknown", "hetzner", fine, `t.yaml:8: providers[0].hetzner.token: "unknown" is no secret: secrets defines known`},
		{"kubernetes", "token: unknown", "hetzner", fine, `t.yaml:8: providers[0].kubernetes.token: "unknown" is no secret`},
		{"openstack", "auth: {password: known}", "hetzner", fine, ""},
		{"openstack", "auth: {password: unknown}", "hetzner", fine, `t.yaml:8: providers[0].openstack.auth.password: "unknown" is no secret`},
		{"openstack", "auth: {applicationCredentialSecret: unknown}", "hetzner", fine, `t.yaml:8: providers[0].openstack.auth.applicationCredentialSecret: "unknown" is no secret`},
		{"openstack", "auth: &a {password: unknown}, other: *a", "hetzner", fine, `t.yaml:8: providers[0].openstack.auth.password: "unknown" is no secret`},
		{"openstack", "auth: password", "hetzner", fine, ""}, // the type says what is wrong with it
		{"openstack", "auth: {password: }", "hetzner", fine, ""},
		{"hetzner", fine, "hetzner", "token: unknown", `t.yaml:9: sources[0].hetzner.token: "unknown" is no secret`},
		{"hetzner", fine, "openstack", "auth: {password: unknown}", `t.yaml:9: sources[0].openstack.auth.password: "unknown" is no secret`},
	} {
		text := fmt.Sprintf(file, tc.provider, tc.provider, tc.block, tc.source, tc.source, tc.sourceBlock)
		_, err := Parse([]byte(text), "t.yaml", o)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tc.want)) {
			t.Errorf("%s {%s}, %s {%s}: %v\nwant %s", tc.provider, tc.block, tc.source, tc.sourceBlock, err, tc.want)
		}
	}
}
