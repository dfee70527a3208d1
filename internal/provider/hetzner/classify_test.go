package hetzner

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// answering is a provider whose backend gives one answer to everything.
func answering(t *testing.T, h http.HandlerFunc) *Provider {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	p, err := New(provider.Config{Name: "p", Installation: "i",
		Secret: func(context.Context, string) (provider.Sensitive, error) {
			return provider.NewSensitive([]byte("the-token")), nil
		},
		Decode: func(into any) error {
			*into.(*Options) = Options{Token: "t", Endpoint: srv.URL, Firewall: Firewall{AllowFrom: []string{"192.0.2.0/24"}}}
			return nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestEveryCode checks the class of every code that the vendor's client knows
// and a few that it does not, each with a status that says something else.
func TestEveryCode(t *testing.T) {
	t.Parallel()
	type want struct {
		class  provider.Class
		reason string
	}
	invalid := want{provider.Permanent, provider.ReasonInvalidSpec}
	transient, permanent := want{provider.Transient, ""}, want{provider.Permanent, ""}
	table := map[string]want{
		"not_found":                          {provider.NotFound, ""},
		"resource_limit_exceeded":            {provider.QuotaExceeded, ""},
		"rate_limit_exceeded":                {provider.RateLimited, ""},
		"resource_unavailable":               {provider.CapacityUnavailable, ""},
		"placement_error":                    {provider.CapacityUnavailable, ""},
		"no_space_left_in_location":          {provider.CapacityUnavailable, ""},
		"uniqueness_error":                   {provider.Conflict, ""},
		"unauthorized":                       {provider.Permanent, provider.ReasonUnauthorized},
		"forbidden":                          {provider.Permanent, provider.ReasonForbidden},
		"token_readonly":                     {provider.Permanent, provider.ReasonForbidden},
		"conflict":                           transient,
		"locked":                             transient,
		"maintenance":                        transient,
		"server_error":                       transient,
		"bad_gateway":                        transient,
		"unavailable":                        transient,
		"timeout":                            transient,
		"service_error":                      transient,
		"robot_unavailable":                  transient,
		"unknown_error":                      transient,
		"server_not_stopped":                 transient,
		"must_be_unassigned":                 transient,
		"primary_ip_assigned":                transient,
		"primary_ip_already_assigned":        transient,
		"resource_in_use":                    transient,
		"server_already_attached":            transient,
		"volume_already_attached":            transient,
		"server_has_ipv4":                    transient,
		"server_has_ipv6":                    transient,
		"server_already_added":               transient,
		"firewall_already_applied":           transient,
		"firewall_resource_not_found":        transient,
		"ip_not_available":                   transient,
		"server_is_load_balancer_target":     transient,
		"already_in_placement_group":         transient,
		"floating_ip_assigned":               transient,
		"a_code_of_tomorrow":                 transient,
		"invalid_input":                      invalid,
		"invalid_server_type":                invalid,
		"unsupported_error":                  invalid,
		"primary_ip_version_mismatch":        permanent,
		"primary_ip_datacenter_mismatch":     permanent,
		"networks_overlap":                   permanent,
		"no_subnet_available":                permanent,
		"incompatible_network_type":          permanent,
		"private_net_only_server":            permanent,
		"firewall_managed_by_label_selector": permanent,
		"protected":                          permanent,
		"resource_locked":                    permanent,
		"json_error":                         permanent,
		"method_not_allowed":                 permanent,
		"deprecated_api_endpoint":            permanent,
	}
	for code, want := range table {
		if code == "locked" {
			continue // a delete waits for its end; see TestDeleteWaitsForTheLock
		}
		for _, status := range []int{400, 403, 409, 422, 503} {
			p := answering(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("X-Correlation-Id", "correlation-1")
				w.WriteHeader(status)
				_, _ = fmt.Fprintf(w, `{"error":{"code":%q,"message":"some text","details":null}}`, code)
			})
			err := p.Delete(t.Context(), "hetzner/1/a/none")
			if want.class == provider.NotFound {
				continue // that is success for a delete
			}
			if got := provider.ClassOf(err); got != want.class || provider.ReasonOf(err) != want.reason {
				t.Errorf("%d %s: %s %q, want %s %q: %v", status, code, got, provider.ReasonOf(err), want.class, want.reason, err)
			}
			if err != nil && (strings.Contains(err.Error(), "correlation") || !strings.Contains(err.Error(), "some text ("+code+")")) {
				t.Errorf("%d %s: text %q", status, code, err)
			}
		}
	}
	for code := range verdicts {
		if _, ok := table[string(code)]; !ok {
			t.Errorf("code %s is in the driver's table and not in the test's", code)
		}
	}
	// Whatever the vendor's client names and may concern servers is judged.
	for _, code := range clientCodes(t) {
		if _, ok := table[code]; !ok && !elsewhere(code) {
			t.Errorf("the vendor's client knows the code %s, and it is not judged", code)
		}
	}
}

// elsewhere are codes of parts of the API that the driver does not use.
func elsewhere(code string) bool {
	return slices.Contains([]string{
		"ip_not_owned", "source_port_already_used", "cloud_resource_ip_not_allowed", "server_not_attached_to_network",
		"target_already_defined", "invalid_load_balancer_type", "load_balancer_already_attached", "targets_without_use_private_ip",
		"load_balancer_not_attached_to_network", "missing_ipv4", "vswitch_id_already_used", "firewall_already_removed",
		"could_not_verify_domain_delegated_to_zone",
	}, code) || strings.HasPrefix(code, "ca_") || strings.HasPrefix(code, "caa_") || strings.HasPrefix(code, "dns_")
}

// clientCodes reads the codes out of the vendor's client, so that a new version
// with new codes makes the test ask for them.
func clientCodes(t *testing.T) []string {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/hetznercloud/hcloud-go/v2").Output()
	if err != nil {
		t.Fatal(err)
	}
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(strings.TrimSpace(string(dir)), "hcloud", "error.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var codes []string
	ast.Inspect(f, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || len(v.Values) != 1 {
			return true
		}
		if id, ok := v.Type.(*ast.Ident); !ok || id.Name != "ErrorCode" {
			return true
		}
		if lit, ok := v.Values[0].(*ast.BasicLit); ok {
			if s, err := strconv.Unquote(lit.Value); err == nil {
				codes = append(codes, s)
			}
		}
		return true
	})
	if len(codes) < 50 {
		t.Fatalf("found only %d codes in the vendor's client", len(codes))
	}
	return codes
}

func TestOtherFailures(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		class  provider.Class
		reason string
	}{
		"bare 401":    {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }, provider.Permanent, provider.ReasonUnauthorized},
		"bare 403":    {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(403) }, provider.Transient, ""},
		"bare 404":    {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }, provider.Transient, ""},
		"bare 429":    {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(429) }, provider.RateLimited, ""},
		"bare 502":    {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(502) }, provider.Transient, ""},
		"a web page":  {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }, provider.Transient, ""},
		"empty JSON":  {jsonAnswer(200, `{}`), provider.Transient, ""},
		"null object": {jsonAnswer(200, `{"server":null}`), provider.Transient, ""},
		"no body":     {jsonAnswer(200, ``), provider.Transient, ""},
		"cut off":     {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, provider.Transient, ""},
		"no code":     {jsonAnswer(404, `{"error":{"message":"x"}}`), provider.Transient, ""},
	} {
		p := answering(t, tc.answer)
		for op, err := range map[string]error{"get": second(p.Get(t.Context(), "hetzner/1/a/none")),
			"find": second(p.Find(t.Context(), "a", provider.Marks{})), "list": second(p.List(t.Context(), provider.Selector{})),
			"delete": p.Delete(t.Context(), "hetzner/1/a/none")} {
			if got := provider.ClassOf(err); got != tc.class || provider.ReasonOf(err) != tc.reason {
				t.Errorf("%s of %s: %s %q, want %s %q: %v", op, name, got, provider.ReasonOf(err), tc.class, tc.reason, err)
			}
		}
	}
}

func jsonAnswer(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

func second[T any](_ T, err error) error { return err }

// TestWaitAfter429 checks how long a 429 is taken to last.
func TestWaitAfter429(t *testing.T) {
	t.Parallel()
	in := func(d time.Duration) string { return strconv.FormatInt(time.Now().Add(d).Unix(), 10) }
	for name, tc := range map[string]struct {
		header, value string
		min, max      time.Duration
	}{
		"nothing said":             {"X", "y", 0, 0},
		"full in 20 s":             {"RateLimit-Reset", in(20 * time.Second), 15 * time.Second, 20 * time.Second},
		"full in an hour":          {"RateLimit-Reset", in(time.Hour), longestWait, longestWait},
		"full already":             {"RateLimit-Reset", in(-time.Minute), time.Second, time.Second},
		"nonsense":                 {"RateLimit-Reset", "soon", 0, 0},
		"Retry-After is for later": {"Retry-After", "90", 90 * time.Second, 90 * time.Second},
	} {
		p := answering(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(tc.header, tc.value)
			jsonAnswer(429, `{"error":{"code":"rate_limit_exceeded","message":"x"}}`)(w, nil)
		})
		_, err := p.Get(t.Context(), "hetzner/1/a/none")
		if got := provider.RetryAfterOf(err); provider.ClassOf(err) != provider.RateLimited || got < tc.min || got > tc.max {
			t.Errorf("%s: %v after %v, want %v to %v", name, provider.ClassOf(err), got, tc.min, tc.max)
		}
	}
}

func TestNotFoundOfACreateIsAMistake(t *testing.T) {
	t.Parallel()
	p := answering(t, jsonAnswer(404, `{"error":{"code":"not_found","message":"x"}}`))
	err := p.classify(t.Context(), provider.OpCreate, "a", mustFail(t, p), provider.Sensitive{})
	if provider.ClassOf(err) != provider.Permanent || provider.ReasonOf(err) != provider.ReasonInvalidSpec {
		t.Errorf("%v", err)
	}
}

func mustFail(t *testing.T, p *Provider) error {
	t.Helper()
	_, _, err := p.client.Location.List(t.Context(), hcloud.LocationListOpts{})
	if err == nil {
		t.Fatal("the call succeeded")
	}
	return err
}

func TestErrorKeepsWhatTheVendorNames(t *testing.T) {
	t.Parallel()
	p := answering(t, jsonAnswer(422, `{"error":{"code":"invalid_input","message":"invalid input in field 'name'",`+
		`"details":{"fields":[{"name":"name","messages":["is too long","is odd"]}]}}}`))
	err := p.Delete(t.Context(), "hetzner/1/a/none")
	want := "p: delete hetzner/1/a/none: Permanent: invalid input in field 'name'; name: is too long, is odd (invalid_input)"
	if err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
	var pe *provider.Error
	if !errors.As(err, &pe) {
		t.Errorf("%T", err)
	}
}

func TestPartsAndIDs(t *testing.T) {
	t.Parallel()
	for _, p := range []parts{{}, {v4: true}, {v6: true, fw: 1}, {volume: true}, {v4: true, v6: true, volume: true, fw: 65535}, {fw: 3128}} {
		got, ok := parseParts(p.String())
		if diff := cmp.Diff(p, got, cmp.AllowUnexported(parts{})); !ok || diff != "" {
			t.Errorf("%q: %v (-want +got)\n%s", p, ok, diff)
		}
		key := instanceKey{server: 9007199254740991, name: "proxy-abcdefghijklmnop", parts: p}
		back, err := (&Provider{name: "p"}).parseID(provider.OpGet, key.id())
		if err != nil || back != key {
			t.Errorf("%s: %+v, %v", key.id(), back, err)
		}
	}
	for _, bad := range []string{"", "x", "64", "f0", "f65536", "f", "4 6", "none4"} {
		if _, ok := parseParts(bad); ok {
			t.Errorf("parts %q are taken", bad)
		}
	}
	for _, bad := range []provider.InstanceID{"hetzner/0/a/none", "hetzner/01/a/none", "hetzner/1/a", "hetzner/1/a_b/none", "hetzner/1//none",
		"hetzner/1/a/x", "local/1/a/none", "hetzner/9223372036854775808/a/none", "hetzner/1/a/none/"} {
		if _, err := (&Provider{name: "p"}).parseID(provider.OpGet, bad); provider.ReasonOf(err) != provider.ReasonMalformedID {
			t.Errorf("id %q: %v", bad, err)
		}
	}
}
