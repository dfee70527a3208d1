package hetznersim_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"github.com/tollgate-dev/tollgate/internal/provider/hetzner/hetznersim"
)

func TestRateLimit(t *testing.T) {
	t.Parallel()
	b := newBench(t, hetznersim.Options{RateLimit: 36})
	left := func(a answer) int {
		t.Helper()
		n, err := strconv.Atoi(a.header.Get("RateLimit-Remaining"))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	a := b.call("GET", "/locations", "")
	if left(a) != 35 || a.header.Get("RateLimit-Limit") != "36" {
		t.Errorf("first call: %v", a.header)
	}
	if reset := a.header.Get("RateLimit-Reset"); reset != strconv.FormatInt(epoch.Add(100*time.Second).Unix(), 10) {
		t.Errorf("reset at %s, want 100 s after %d", reset, epoch.Unix())
	}
	b.sim.Spend(token, 34)
	if a := b.call("GET", "/locations", ""); a.status != 200 || left(a) != 0 {
		t.Errorf("last call: %d, %v", a.status, a.header)
	}
	_, _, err := b.client.Server.List(t.Context(), hcloud.ServerListOpts{})
	wantCode(t, err, hcloud.ErrorCodeRateLimitExceeded)
	if _, _, err := b.clientFor("token-b").Server.List(t.Context(), hcloud.ServerListOpts{}); err != nil {
		t.Errorf("another project: %v", err)
	}
	b.clock.Advance(99 * time.Second)
	if a := b.call("GET", "/locations", ""); a.status != 429 {
		t.Errorf("before one request is refilled: %d", a.status)
	}
	b.clock.Advance(time.Second)
	if a := b.call("GET", "/locations", ""); a.status != 200 {
		t.Errorf("after one request is refilled: %d", a.status)
	}
	b.clock.Advance(24 * time.Hour)
	if a := b.call("GET", "/locations", ""); left(a) != 35 {
		t.Errorf("after a day %d are left, want 35: the bucket holds no more", left(a))
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	b := newBench(t, hetznersim.Options{RateLimit: 100})
	b.sim.AddReadOnlyToken("reader", token)
	status := func(auth string, method string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, b.url+"/v1/servers", nil)
		if err != nil {
			t.Fatal(err)
		}
		if auth != "" {
			req.Header.Set("Authorization", auth)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	b.create("web")
	for name, tc := range map[string]struct {
		auth, method string
		want         int
	}{
		"none":           {"", "GET", 401},
		"unknown":        {"Bearer nobody", "GET", 401},
		"another scheme": {"Basic " + token, "GET", 401},
		"reader reads":   {"Bearer reader", "GET", 200},
		"reader writes":  {"Bearer reader", "POST", 403},
		"good":           {"Bearer " + token, "GET", 200},
	} {
		if got := status(tc.auth, tc.method); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
	if s, _, err := b.clientFor("reader").Server.GetByName(t.Context(), "web"); err != nil || s == nil {
		t.Errorf("the reader sees another project: %v, %v", s, err)
	}
	// Calls without a good token are limited too.
	for range 200 {
		if status("", "GET") == 429 {
			return
		}
	}
	t.Error("calls without a token are never limited")
}

func TestAnyToken(t *testing.T) {
	t.Parallel()
	b := newBench(t, hetznersim.Options{AnyToken: true})
	c := b.clientFor("somebody")
	if _, _, err := c.Server.Create(t.Context(), hcloud.ServerCreateOpts{Name: "web", ServerType: &hcloud.ServerType{Name: "cx23"}, Image: &hcloud.Image{Name: "debian-12"}}); err != nil {
		t.Fatal(err)
	}
	if len(b.sim.Servers("somebody")) != 1 || len(b.sim.Servers(token)) != 0 {
		t.Error("the server is not in its own project")
	}
}
