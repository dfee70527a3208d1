package openstacksim_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacksim"
)

// What sources read has the form that the real services answered.
func TestFeedsHaveTheRealForm(t *testing.T) {
	t.Parallel()
	c, k := timed(t, openstacksim.Options{})
	id := c.server(k, "")
	vol := c.volume(k, "data")
	server := base + "/compute/v2.1/servers/" + id
	c.do("POST", server+"/os-volume_attachments", `{"volumeAttachment":{"volumeId":"`+vol+`"}}`)
	_, ports := c.do("GET", base+"/network/v2.0/ports?device_id="+id, "")
	c.do("POST", floating, fmt.Sprintf(`{"floatingip":{"floating_network_id":%q,"port_id":%q}}`, c.id(base+"/network/v2.0/networks", "networks", "public"),
		text(objects(ports, "ports")[0], "id")))
	nobody := "00000000-0000-4000-8000-000000000000"
	actions := server + "/os-instance-actions"
	for _, tc := range []struct{ name, path string }{
		{"volume-list-in-use", volumes + "/detail?limit=1"},
		{"volume-marker-404", volumes + "/detail?marker=" + nobody},
		{"floatingip-list-page", floating + "?limit=1&sort_key=id&sort_dir=asc"},
		{"floatingip-filter-400", floating + "?changed_since=2026-11-30T00:00:00Z"},
		{"instance-action-detail", actions + "/" + text(c.acts(id, "")[0], "request_id")},
		{"instance-actions-page", actions + "?limit=1"},
		{"instance-actions-marker-400", actions + "?marker=req-nothing"},
		{"server-list-marker-400", detail + "?marker=" + nobody},
		{"server-list-all-tenants-403", detail + "?all_tenants=1"},
	} {
		status, want := captured(t, tc.name)
		resp, doc := c.do("GET", tc.path, "")
		if resp.StatusCode != status || status >= 400 && fmt.Sprint(doc) != fmt.Sprint(want) {
			t.Errorf("%s: %d %v, really %d %v", tc.name, resp.StatusCode, doc, status, want)
		}
		alike(t, tc.name, doc, want)
		for key := range want {
			if doc[key] == nil {
				t.Errorf("%s: has no %s", tc.name, key)
			}
		}
	}
	c.do("DELETE", server, "")
	k.pass(10 * time.Second)
	_, want := captured(t, "server-list-changes-since")
	_, doc := c.do("GET", detail+"?changes-since=2026-11-30T00:00:00Z&limit=1", "")
	alike(t, "a deleted server", doc, want)
}
