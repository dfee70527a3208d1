package hetzner

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/strictyaml"
)

// parse reads a block as the configuration file does.
func parse(t *testing.T, text string) (options, error) {
	t.Helper()
	return decodeOptions(provider.Config{Name: "p", Installation: "i", Decode: func(into any) error {
		return strictyaml.Decode(strings.NewReader(text), "c.yaml", into)
	}})
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	o, err := parse(t, "token: t\nfirewall: {allowFrom: [203.0.113.7, '2001:db8::/32']}\n")
	if err != nil {
		t.Fatal(err)
	}
	if o.IPv4 != "auto" || o.IPv6 != "auto" || o.Poll != 2*time.Second || o.CallTimeout != 30*time.Second || o.WaitLimit != 50*time.Second ||
		o.Endpoint != "https://api.hetzner.cloud/v1" || o.open || o.allow[0].String() != "203.0.113.7/32" {
		t.Errorf("defaults: %+v", o)
	}
	if diff := cmp.Diff([]string{"ipv4", "ipv6", "private"}, o.addresses); diff != "" {
		t.Errorf("addresses (-want +got)\n%s", diff)
	}
}

func TestFullConfiguration(t *testing.T) {
	t.Parallel()
	o, err := parse(t, `
token: hcloud-token
endpoint: http://127.0.0.1:1/v1
image: debian-13
candidates: [{location: nbg1, serverType: cx23}, {location: fsn1, serverType: cax11}]
ipv4: own
ipv6: none
address: private
firewall: {allowFrom: [0.0.0.0/0, '::/0'], sshFrom: [203.0.113.0/24]}
firewalls: [base]
sshKeys: [{name: ops, publicKey: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEB ops}]
networks: [{name: inside, gateway: 10.0.0.2}]
volume: {sizeGB: 20, format: xfs}
poll: 1s
callTimeout: 10s
waitLimit: 30s
`)
	if err != nil {
		t.Fatal(err)
	}
	if !o.open || o.addresses[0] != "private" || o.gateways[0].String() != "10.0.0.2" || len(o.keys) != 1 ||
		!regexp.MustCompile(`^([0-9a-f]{2}:){15}[0-9a-f]{2}$`).MatchString(o.keys[0].fingerprint) {
		t.Errorf("read as %+v", o)
	}
	if got := o.partsFor(3128).String(); got != "4vf3128" {
		t.Errorf("parts %s", got)
	}
}

func TestBadConfiguration(t *testing.T) {
	t.Parallel()
	const good = "token: t\nfirewall: {allowFrom: [192.0.2.0/24]}\n"
	for text, want := range map[string][]string{
		"firewall: {allowFrom: [192.0.2.0/24]}\n":                 {"token: is required", "HCLOUD_TOKEN"},
		"token: No_Name\nfirewall: {allowFrom: [192.0.2.0/24]}\n": {`token: "No_Name"`},
		"token: t\n": {"firewall.allowFrom: is required", "0.0.0.0/0"},
		"token: t\nfirewall: {sshFrom: [192.0.2.1]}\nfirewalls: [x]\n": {"firewall.allowFrom: is required with firewall.sshFrom"},
		"token: t\nfirewall: {allowFrom: [localhost]}\n":               {`firewall.allowFrom[0]: "localhost" is no network`},
		good + "endpoint: ftp://x\n":                                   {`endpoint: "ftp://x" is no URL`},
		good + "endpoint: http://u:p@x/\n":                             {"endpoint: must hold neither credentials"},
		good + "candidates: [{}]\n":                                    {"candidates[0]: location or serverType is required"},
		good + "candidates: [{location: a}, {location: a}]\n":          {"candidates[1]: a/ is there twice"},
		good + "ipv4: sometimes\n":                                     {`ipv4: "sometimes"`, "auto, own, none"},
		good + "ipv4: none\nipv6: none\n":                              {"networks: is required", "firewall: is for public addresses only"},
		good + "address: tunnel\n":                                     {`address: "tunnel"`, "ipv4, ipv6, private"},
		good + "address: private\n":                                    {`address: instances have no address "private"`},
		good + "firewalls: [a, b, c, d, e]\n":                          {"firewalls: 5 are too many"},
		good + "sshKeys: [{publicKey: x}]\n":                           {"sshKeys[0].name: is required"},
		good + "sshKeys: [{name: k, publicKey: 'ssh-rsa ???'}]\n":      {`sshKeys[0].publicKey: of "k" is no public key`},
		good + "sshKeys: [{name: k, publicKey: hello}]\n":              {`sshKeys[0].publicKey: of "k" is no public key`},
		good + "networks: [{gateway: 10.0.0.1}]\n":                     {"networks[0].name: is required"},
		good + "networks: [{name: n, gateway: 8.8.8.8}]\n":             {`networks[0].gateway: "8.8.8.8"`},
		good + "volume: {sizeGB: 5}\n":                                 {"volume.sizeGB: 5: want 10 to 10240"},
		good + "volume: {format: ext4}\n":                              {"volume.sizeGB: is required"},
		good + "volume: {sizeGB: 10, format: ntfs}\n":                  {`volume.format: "ntfs": want ext4 or xfs`},
		good + "poll: 5m\n":                                            {"poll: 5m0s: want 1ms to 1m0s"},
		good + "callTimeout: 1ms\n":                                    {"callTimeout: 1ms"},
		good + "waitLimit: 1h\n":                                       {"waitLimit: 1h0m0s"},
		good + "server: cx23\n":                                        {"server", "unknown field"},
	} {
		_, err := parse(t, text)
		for _, w := range want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%q: %v, want an error with %q", text, err, w)
			}
		}
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv(envToken, "from-the-environment")
	t.Setenv(envEndpoint, "http://127.0.0.1:9/v1")
	o, err := parse(t, "firewall: {allowFrom: [192.0.2.0/24]}\n")
	if err != nil || !o.tokenEnv || o.Endpoint != "http://127.0.0.1:9/v1" {
		t.Fatalf("%+v, %v", o, err)
	}
	got, err := (&Provider{opt: o}).token(t.Context())
	if err != nil || got != "from-the-environment" {
		t.Errorf("token %q, %v", got, err)
	}
	o, err = parse(t, "token: t\nendpoint: http://127.0.0.1:8/v1\nfirewall: {allowFrom: [192.0.2.0/24]}\n")
	if err != nil || o.tokenEnv || o.Endpoint != "http://127.0.0.1:8/v1" {
		t.Errorf("what the file says goes first: %+v, %v", o, err)
	}
}

func TestFirewallNames(t *testing.T) {
	t.Parallel()
	short := &Provider{name: "p", installation: "i"}
	long := &Provider{name: strings.Repeat("p", 63), installation: strings.Repeat("i", 63)}
	other := &Provider{name: strings.Repeat("p", 63), installation: strings.Repeat("j", 63)}
	if got := short.firewallName(3128); got != "tollgate-i-p-3128" {
		t.Errorf("name %s", got)
	}
	if a, b := long.firewallName(3128), other.firewallName(3128); len(a) > longestName || a == b {
		t.Errorf("long names: %s and %s", a, b)
	}
}

// TestPage: every setting is on the type's page.
func TestPage(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../../docs/providers/hetzner.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, setting := range settings("", reflect.TypeFor[Options]()) {
		if !strings.Contains(string(b), "| `"+setting+"` |") {
			t.Errorf("docs/providers/hetzner.md does not describe %s", setting)
		}
	}
}

// settings lists the settings of a configuration struct by their dotted names.
func settings(prefix string, typ reflect.Type) []string {
	var out []string
	for i := range typ.NumField() {
		f := typ.Field(i)
		name, in := prefix+f.Tag.Get("yaml"), f.Type
		if in.Kind() == reflect.Slice {
			in = in.Elem()
			if in.Kind() == reflect.Struct {
				name += "[]"
			}
		}
		if in.Kind() == reflect.Struct {
			out = append(out, settings(name+".", in)...)
		} else {
			out = append(out, name)
		}
	}
	return out
}
