package openstack

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"

	"github.com/tollgate-dev/tollgate/internal/openstack/cloud"
	"github.com/tollgate-dev/tollgate/internal/provider"
)

// capture is an answer of the real services.
type capture struct {
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
	Body    json.RawMessage   `json:"body"`
}

func read(t *testing.T, name string) capture {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "captures", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var c capture
	if err := json.Unmarshal(raw, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// refusal is the library's error for an answer.
func refusal(status int, headers map[string]string, body string) error {
	h := http.Header{}
	for k, v := range headers {
		h.Set(k, v)
	}
	return gophercloud.ErrUnexpectedResponseCode{Method: "POST", URL: "http://127.0.0.1/", Actual: status, Body: []byte(body), ResponseHeader: h}
}

func newProvider(t *testing.T) *Provider {
	t.Helper()
	p, err := New(provider.Config{Name: "cloud", Installation: "acme",
		Secret: func(context.Context, string) (provider.Sensitive, error) {
			return provider.NewSensitive([]byte("hunter2-hunter2")), nil
		},
		Decode: func(into any) error {
			*into.(*Options) = Options{Network: "n", Access: cloud.Access{Auth: cloud.Auth{URL: "http://127.0.0.1:1/v3", Username: "u", Project: "p", Password: "pw"}}}
			return nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// What the real services said, and what the documents of others say.
func TestClassify(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	type want struct {
		class  provider.Class
		reason string
		wait   time.Duration
	}
	check := func(t *testing.T, op provider.Op, err error, w want) {
		t.Helper()
		got := p.classify(t.Context(), op, "proxy-a", err)
		if c := provider.ClassOf(got); c != w.class || provider.ReasonOf(got) != w.reason || provider.RetryAfterOf(got) != w.wait {
			t.Errorf("%s: class %s, reason %q, wait %v; want %+v: %v", op, c, provider.ReasonOf(got), provider.RetryAfterOf(got), w, got)
		}
		if strings.Contains(got.Error(), "req-") {
			t.Errorf("the text has a request id: %v", got)
		}
	}
	for name, tc := range map[string]struct {
		op   provider.Op
		want want
		text string
	}{
		"auth-401-password":                {provider.OpList, want{provider.Permanent, provider.ReasonUnauthorized, 0}, "requires authentication"},
		"token-expired-401":                {provider.OpGet, want{provider.Permanent, provider.ReasonUnauthorized, 0}, ""},
		"token-revoked-401":                {provider.OpGet, want{provider.Permanent, provider.ReasonUnauthorized, 0}, ""},
		"conflict-409-locked":              {provider.OpDelete, want{provider.Permanent, "", 0}, "is locked"},
		"conflict-409-start-active":        {provider.OpDelete, want{provider.Transient, "", 0}, ""},
		"microversion-406":                 {provider.OpCreate, want{provider.Permanent, "", 0}, "2.999"},
		"quota-exceeded-403-cores":         {provider.OpCreate, want{provider.QuotaExceeded, "", 0}, "Quota exceeded for cores"},
		"quota-exceeded-403-instances":     {provider.OpCreate, want{provider.QuotaExceeded, "", 0}, "already used 0 of 0 instances"},
		"quota-exceeded-409-floatingip":    {provider.OpCreate, want{provider.QuotaExceeded, "", 0}, "floatingip"},
		"volume-quota-413":                 {provider.OpCreate, want{provider.QuotaExceeded, "", 0}, "gigabytes quota"},
		"server-create-400-az":             {provider.OpCreate, want{provider.Permanent, provider.ReasonInvalidSpec, 0}, "availability zone"},
		"server-create-400-flavor":         {provider.OpCreate, want{provider.Permanent, provider.ReasonInvalidSpec, 0}, "Flavor"},
		"server-create-400-image":          {provider.OpCreate, want{provider.Permanent, provider.ReasonInvalidSpec, 0}, "image"},
		"server-create-400-network":        {provider.OpCreate, want{provider.Permanent, provider.ReasonInvalidSpec, 0}, "Network"},
		"server-create-400-secgroup":       {provider.OpCreate, want{provider.Permanent, provider.ReasonInvalidSpec, 0}, "security_group"},
		"server-create-400-tags-need-2.52": {provider.OpCreate, want{provider.Permanent, provider.ReasonInvalidSpec, 0}, "tags"},
		"server-get-404":                   {provider.OpCreate, want{provider.Permanent, provider.ReasonInvalidSpec, 0}, ""},
		"volume-delete-in-use-400":         {provider.OpDelete, want{provider.Transient, "", 0}, "Volume status"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := read(t, name)
			err := refusal(c.Status, c.Headers, string(c.Body))
			check(t, tc.op, err, tc.want)
			if got := p.classify(t.Context(), tc.op, "x", err).Error(); !strings.Contains(got, tc.text) {
				t.Errorf("%q lacks %q", got, tc.text)
			}
		})
	}
	nova := func(status int, kind, text string) error {
		return refusal(status, nil, `{"`+kind+`":{"code":1,"message":"`+text+`"}}`)
	}
	neutron := func(status int, typ, text string) error {
		return refusal(status, nil, `{"NeutronError":{"type":"`+typ+`","message":"`+text+`","detail":""}}`)
	}
	transient := want{provider.Transient, "", 0}
	for name, tc := range map[string]struct {
		op   provider.Op
		err  error
		want want
	}{
		"a policy":                       {provider.OpCreate, nova(403, "forbidden", "Policy doesn't allow os_compute_api:servers:create to be performed."), want{provider.Permanent, provider.ReasonForbidden, 0}},
		"ports of an instance":           {provider.OpCreate, nova(403, "forbidden", "Maximum number of ports exceeded"), want{provider.QuotaExceeded, "", 0}},
		"volumes, by name":               {provider.OpCreate, refusal(413, map[string]string{"Retry-After": "0"}, `{"overLimit":{"code":413,"message":"VolumeLimitExceeded: Maximum number of volumes allowed (10) exceeded for quota 'volumes'.","retryAfter":"0"}}`), want{provider.QuotaExceeded, "", 0}},
		"413 with a wait":                {provider.OpCreate, refusal(413, map[string]string{"Retry-After": "7"}, `{"overLimit":{"code":413,"message":"This request was rate-limited.","retryAfter":"7"}}`), want{provider.RateLimited, "", 7 * time.Second}},
		"413 with a wait in the body":    {provider.OpCreate, refusal(413, nil, `{"overLimit":{"code":413,"message":"Only 10 POST request(s) can be made to * every minute.","retryAfter":"19"}}`), want{provider.RateLimited, "", 19 * time.Second}},
		"413 of a body that is too long": {provider.OpCreate, nova(413, "badRequest", "Request is too large."), want{provider.Permanent, provider.ReasonInvalidSpec, 0}},
		"429":                            {provider.OpList, refusal(429, map[string]string{"Retry-After": "30"}, "slow down"), want{provider.RateLimited, "", 30 * time.Second}},
		"429 until a time":               {provider.OpList, refusal(429, map[string]string{"Date": "Mon, 30 Nov 2026 10:00:00 GMT", "Retry-After": "Mon, 30 Nov 2026 10:02:00 GMT"}, ""), want{provider.RateLimited, "", 2 * time.Minute}},
		"429 without a wait":             {provider.OpList, refusal(429, nil, ""), want{provider.RateLimited, "", 0}},
		"no address left":                {provider.OpCreate, neutron(409, "IpAddressGenerationFailure", "No more IP addresses available on network x."), want{provider.CapacityUnavailable, "", 0}},
		"no floating IP left":            {provider.OpCreate, neutron(409, "ExternalIpAddressExhausted", "x"), want{provider.CapacityUnavailable, "", 0}},
		"no router":                      {provider.OpCreate, neutron(404, "ExternalGatewayForFloatingIPNotFound", "External network x is not reachable from subnet y."), want{provider.Permanent, provider.ReasonInvalidSpec, 0}},
		"a port in use":                  {provider.OpCreate, nova(409, "conflictingRequest", "Port x is still in use."), transient},
		"no host, in the answer":         {provider.OpCreate, nova(500, "computeFault", "No valid host was found. There are not enough hosts available."), want{provider.CapacityUnavailable, "", 0}},
		"500":                            {provider.OpCreate, nova(500, "computeFault", "Unexpected API Error."), transient},
		"503 with a wait":                {provider.OpGet, refusal(503, map[string]string{"Retry-After": "5"}, "x"), want{provider.Transient, "", 5 * time.Second}},
		"502 of a gateway":               {provider.OpGet, refusal(502, nil, "<html>Bad Gateway</html>"), transient},
		"404 of a gateway":               {provider.OpGet, refusal(404, nil, "<html>no such route</html>"), transient},
		"404 of a gateway with a text":   {provider.OpGet, refusal(404, nil, `{"message":"no Route matched with those values"}`), transient},
		"404 of a gateway with an error": {provider.OpGet, refusal(404, nil, `{"error":{"code":404,"message":"Not Found"}}`), transient},
		"404 of a gateway on a create, with a text": {provider.OpCreate, refusal(404, nil, `{"error":"Not Found"}`), transient},
		"404 of a gateway on a create":              {provider.OpCreate, refusal(404, nil, "404 page not found"), transient},
		"a redirect":                                {provider.OpGet, refusal(302, nil, ""), transient},
		"nothing at all":                            {provider.OpGet, io.ErrUnexpectedEOF, transient},
		"a token that is not renewed": {provider.OpGet, &gophercloud.ErrUnableToReauthenticate{ErrOriginal: nova(401, "error", "x"),
			ErrReauth: &cloud.LoginError{Text: errors.New("x"), Err: nova(503, "error", "down")}}, transient},
		"a token that may not be renewed": {provider.OpGet, &gophercloud.ErrUnableToReauthenticate{ErrOriginal: nova(401, "error", "x"),
			ErrReauth: &cloud.LoginError{Text: errors.New("x"), Err: nova(401, "error", "no")}}, want{provider.Permanent, provider.ReasonUnauthorized, 0}},
		"after a new login": {provider.OpCreate, &gophercloud.ErrErrorAfterReauthentication{ErrOriginal: nova(403, "forbidden", "Quota exceeded for ram: x")}, want{provider.QuotaExceeded, "", 0}},
		"no credentials":    {provider.OpGet, &cloud.CredentialsError{Err: errors.New("no such file")}, want{provider.Transient, provider.ReasonUnauthorized, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, tc.op, tc.err, tc.want)
		})
	}
}

// Neither the configured secret nor what the cloud repeats of it is in a text.
func TestClassifyHidesSecrets(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	err := p.classify(t.Context(), provider.OpCreate, "x", refusal(400, nil,
		`{"badRequest":{"code":400,"message":"Invalid user_data I2Nsb3VkLWNvbmZpZw== with hunter2-hunter2"}}`), provider.NewSensitive([]byte("#cloud-config")))
	if text := err.Error(); strings.Contains(text, "hunter2") || strings.Contains(text, "I2Nsb3Vk") || !strings.Contains(text, "Invalid user_data") {
		t.Error(text)
	}
	// The same in what has its class already.
	err = p.classify(t.Context(), provider.OpCreate, "x", provider.WithRetryAfter(provider.Wrap(provider.Transient, provider.OpCreate, "cloud", "x",
		errors.New("Invalid user_data I2Nsb3VkLWNvbmZpZw== with hunter2-hunter2")), time.Second), provider.NewSensitive([]byte("#cloud-config")))
	if text := err.Error(); strings.Contains(text, "hunter2") || strings.Contains(text, "I2Nsb3Vk") || !strings.Contains(text, "Invalid user_data") {
		t.Error(text)
	}
	if provider.ClassOf(err) != provider.Transient || provider.RetryAfterOf(err) != time.Second {
		t.Errorf("%s, %v", provider.ClassOf(err), provider.RetryAfterOf(err))
	}
}

// A gateway in front of a service says nothing about a server.
func TestNotThere(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]bool{
		string(read(t, "server-get-404").Body):                                                        true,
		string(read(t, "volume-get-404").Body):                                                        true,
		`{"NeutronError":{"type":"PortNotFound","message":"Port x could not be found.","detail":""}}`: true,
		`{"NeutronError":"Port x could not be found."}`:                                               true,
		`{"message":"no Route matched with those values"}`:                                            false,
		`{"error":"Not Found"}`:                                                                       false,
		`{"error":{"code":404,"message":"Not Found"}}`:                                                false,
		`{"errors":[{"status":404,"title":"Not Found"}]}`:                                             false,
		`{"message":"x","code":"404 Not Found","title":"x"}`:                                          false,
		`<html>404</html>`: false,
		``:                 false,
	} {
		if got := cloud.NotThere(refusal(404, nil, body)); got != want {
			t.Errorf("%s: %v, want %v", body, got, want)
		}
	}
}

// States of servers as the real services show them.
func TestInstance(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	r := &region{Region: &cloud.Region{Name: "RegionOne"}}
	for name, want := range map[string]provider.Instance{
		"server-get-active":          {State: provider.StateRunning, RawState: "ACTIVE"},
		"server-get-build":           {State: provider.StateProvisioning, RawState: "BUILD"},
		"server-get-error":           {State: provider.StateStopped, RawState: "ERROR: No valid host was found."},
		"server-get-deleting":        {State: provider.StateTerminated, RawState: "ACTIVE (deleting)"},
		"server-get-shutoff":         {State: provider.StateStopped, RawState: "SHUTOFF"},
		"server-get-with-floatingip": {State: provider.StateRunning, RawState: "ACTIVE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var doc struct{ Server server }
			if err := json.Unmarshal(read(t, name).Body, &doc); err != nil {
				t.Fatal(err)
			}
			in := p.instance(t.Context(), r, doc.Server)
			if in.State != want.State || in.RawState != want.RawState || in.CreatedAt.IsZero() || in.Placement.MachineType == "" {
				t.Errorf("%+v, want %s (%s), a creation time and a flavor", in, want.State, want.RawState)
			}
			if want.State == provider.StateRunning && !in.IP.IsValid() {
				t.Errorf("no address: %+v", in)
			}
		})
	}
}

func TestAddressOf(t *testing.T) {
	t.Parallel()
	both := map[string][]address{"net": {{"10.0.0.5", 4, "fixed"}, {"2001:db8::5", 6, "fixed"}, {"203.0.113.9", 4, "floating"}}}
	for name, tc := range map[string]struct {
		parts     string
		version   int
		addresses map[string][]address
		want      string
	}{
		"floating of its own":             {"pf", 4, both, "203.0.113.9"},
		"floating of its own, not yet":    {"pf", 4, map[string][]address{"net": both["net"][:2]}, "invalid IP"},
		"fixed, and a floating by others": {"p", 4, both, "10.0.0.5"},
		"fixed of the other version":      {"p", 6, both, "2001:db8::5"},
		"only the other version":          {"p", 4, map[string][]address{"net": both["net"][1:2]}, "2001:db8::5"},
		"placed by hand":                  {"", 4, both, "203.0.113.9"},
		"none":                            {"p", 4, nil, "invalid IP"},
		"nonsense":                        {"p", 4, map[string][]address{"net": {{"no address", 4, "fixed"}, {"fe80::1", 6, "fixed"}}}, "invalid IP"},
	} {
		q := newProvider(t)
		q.opt.IPVersion = tc.version
		s := server{Addresses: tc.addresses, Metadata: map[string]string{metaParts: tc.parts}}
		if got := q.addressOf(s).String(); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

func TestLabel(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 63)
	l := label{"proxy-aaaaaaaaaaaaaaaa", provider.Marks{UID: "0198b0f2-0000-7000-8000-000000000000", Installation: long, Namespace: long, Proxy: long}}
	if n := len(l.String()); n != maxLabel || l.check() != nil {
		t.Errorf("the longest names give %d characters, %v", n, l.check())
	}
	if got, ok := parseLabel(l.String()); !ok || got != l {
		t.Errorf("read back %+v, %v", got, ok)
	}
	l.marks.Proxy += "x"
	if l.check() == nil {
		t.Error("one more is not refused")
	}
	l.marks.Proxy = "a/b"
	if l.check() == nil {
		t.Error("a slash is not refused")
	}
	for _, text := range []string{"", "tg1", "tg2/a/b/c/d/e", "tg1//b/c/d/e", "somebody's port", "tg1/a/b/c/d/e/f"} {
		if _, ok := parseLabel(text); ok {
			t.Errorf("%q is taken for ours", text)
		}
	}
}

func TestInstanceID(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	for _, k := range []instanceKey{{"RegionOne", "1353f103-9477-4c9b-94c2-0d1a2ded0e96", "proxy-a"}, {"a/b", "1353f103-9477-4c9b-94c2-0d1a2ded0e96", "web server #1/ä"}} {
		if got, err := p.parseID(provider.OpGet, k.id()); err != nil || got != k {
			t.Errorf("%s: %+v, %v", k.id(), got, err)
		}
	}
	for _, id := range []provider.InstanceID{"", "openstack", "hetzner/1/a/none", "openstack/RegionOne/7/a", "openstack/RegionOne/1353f103-9477-4c9b-94c2-0d1a2ded0e96/",
		"openstack//1353f103-9477-4c9b-94c2-0d1a2ded0e96/a", "openstack/%zz/1353f103-9477-4c9b-94c2-0d1a2ded0e96/a", "openstack/R/1353f103-9477-4c9b-94c2-0d1a2ded0e96/a/b"} {
		if _, err := p.parseID(provider.OpGet, id); provider.ReasonOf(err) != provider.ReasonMalformedID {
			t.Errorf("%q: %v", id, err)
		}
	}
}

func TestParts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]parts{"none": {}, "p": {port: true}, "pfv": allParts, "fv": {floating: true, volume: true}} {
		got, ok := parseParts(text)
		if diff := cmp.Diff(got, want, cmp.AllowUnexported(parts{})); diff != "" || !ok || want.String() != text {
			t.Errorf("%s: %v %s", text, ok, diff)
		}
	}
	for _, text := range []string{"", "fp", "x", "pp", "nonep"} {
		if _, ok := parseParts(text); ok {
			t.Errorf("%q is taken", text)
		}
	}
}
