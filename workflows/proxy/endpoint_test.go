package proxy

import "testing"

// Addresses of IPv6 are in brackets wherever a port follows.
func TestEndpoint(t *testing.T) {
	t.Parallel()
	for ip, want := range map[string]string{"192.0.2.1": "192.0.2.1:3128", "2001:db8::7": "[2001:db8::7]:3128"} {
		if got := endpoint(ip, 3128); got != want {
			t.Errorf("endpoint of %s: %q, want %q", ip, got, want)
		}
	}
}
