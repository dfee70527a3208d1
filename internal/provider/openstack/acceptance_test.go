package openstack_test

import (
	"net/http"
	"testing"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacksim"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacktest"
)

// An address that cannot be attached, or whose attaching was not heard of, is
// never asked for again and again: there is one of it at most.
func TestOneFloatingIP(t *testing.T) {
	t.Parallel()
	noGateway := openstacksim.Fault{Kind: openstacksim.FaultAnswer, Method: http.MethodPost, Path: "/floatingips", Status: 404,
		Name: "ExternalGatewayForFloatingIPNotFound", Message: "External network x is not reachable from subnet y."}
	lost := openstacksim.Fault{Kind: openstacksim.FaultLoseAnswer, Method: http.MethodPost, Path: "/floatingips", Times: 1}
	unseen := openstacksim.Fault{Kind: openstacksim.FaultEmpty, Method: http.MethodGet, Path: "/floatingips", Query: "description"}
	for name, tc := range map[string]struct {
		faults []openstacksim.Fault
		class  provider.Class
		reason string
	}{
		"no route":                        {[]openstacksim.Fault{noGateway}, provider.Permanent, provider.ReasonInvalidSpec},
		"the answer was lost":             {[]openstacksim.Fault{lost}, "", ""},
		"lost, and not in a listing then": {[]openstacksim.Fault{lost, unseen}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := openstacktest.NewBackend(t, quick())
			var heal []func()
			for _, f := range tc.faults {
				heal = append(heal, b.Add(f))
			}
			req := request("proxy-a")
			for range 10 {
				_, err := open(t, b, everything).Create(t.Context(), req)
				if tc.class == "" {
					if err == nil {
						break
					}
					wantClass(t, err, provider.Transient, "")
					continue
				}
				wantClass(t, err, tc.class, tc.reason)
				if got := count(b); got != "" {
					t.Fatalf("%s is left", got)
				}
			}
			for _, h := range heal {
				h()
			}
			id := create(t, open(t, b, everything), req)
			if got := count(b); got != complete {
				t.Errorf("there is %s", got)
			}
			if in := waitRunning(t, open(t, b, everything), id); !in.IP.Is4() || in.IP.String()[:10] != "203.0.113." {
				t.Errorf("clients connect to %s", in.IP)
			}
		})
	}
}

// Quota is told from a rate limit whatever the status says, and nothing sleeps.
func TestOverLimit(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fault openstacksim.Fault
		class provider.Class
		wait  int // seconds
	}{
		"413 for a quota": {openstacksim.Fault{Path: "/volumes", Status: 413, Message: "VolumeLimitExceeded: Maximum number of volumes allowed (10) exceeded for quota 'volumes'."},
			provider.QuotaExceeded, 0},
		"413 for a rate":  {openstacksim.Fault{Path: "/volumes", Status: 413, Message: "This request was rate-limited.", RetryAfter: 17e9}, provider.RateLimited, 17},
		"429":             {openstacksim.Fault{Path: "/servers", Status: 429, Message: "Too Many Requests", RetryAfter: 30e9}, provider.RateLimited, 30},
		"403 for a quota": {openstacksim.Fault{Path: "/servers", Status: 403, Message: "Quota exceeded for ram: Requested 512, but already used 51200 of 51200 ram"}, provider.QuotaExceeded, 0},
		"409 for a quota": {openstacksim.Fault{Path: "/ports", Status: 409, Name: "OverQuota", Message: "Quota exceeded for resources: ['port']."}, provider.QuotaExceeded, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := openstacktest.NewBackend(t, quick())
			tc.fault.Kind, tc.fault.Method = openstacksim.FaultAnswer, http.MethodPost
			heal := b.Add(tc.fault)
			req := request("proxy-a")
			_, err := open(t, b, everything).Create(t.Context(), req)
			if provider.ClassOf(err) != tc.class || int(provider.RetryAfterOf(err).Seconds()) != tc.wait {
				t.Errorf("class %s, wait %v: %v", provider.ClassOf(err), provider.RetryAfterOf(err), err)
			}
			heal()
			create(t, open(t, b, everything), req)
			if got := count(b); got != complete {
				t.Errorf("there is %s", got)
			}
		})
	}
}
