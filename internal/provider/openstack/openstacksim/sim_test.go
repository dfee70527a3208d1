package openstacksim_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacksim"
)

// cloud is a simulated cloud with a client that has logged in.
type cloud struct {
	*openstacksim.Sim
	t     *testing.T
	url   string
	token string
	speak string // the microversion, if not the usual one
}

func newCloud(t *testing.T, o openstacksim.Options) *cloud {
	t.Helper()
	return cloudOf(t, openstacksim.New(o))
}

func cloudOf(t *testing.T, sim *openstacksim.Sim) *cloud {
	t.Helper()
	c := &cloud{Sim: sim, t: t}
	srv := httptest.NewServer(c.Sim)
	t.Cleanup(srv.Close)
	c.url = srv.URL
	c.logIn("demo", "demo")
	return c
}

func (c *cloud) logIn(user, project string) {
	c.t.Helper()
	resp, _ := c.do("POST", "/identity/v3/auth/tokens", fmt.Sprintf(`{"auth":{"identity":{"methods":["password"],"password":{"user":{"name":%q,
		"domain":{"id":"default"},"password":"pw"}}},"scope":{"project":{"name":%q,"domain":{"id":"default"}}}}}`, user, project))
	c.token = resp.Header.Get("X-Subject-Token")
}

// raw makes a request whose answer need not be JSON.
func (c *cloud) raw(method, path string) (*http.Response, string) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.url+path, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("X-Auth-Token", c.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp, string(b)
}

func (c *cloud) do(method, path, body string) (*http.Response, map[string]any) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.url+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("X-Auth-Token", c.token)
	req.Header.Set("OpenStack-API-Version", "compute 2.93")
	if strings.Contains(path, "/volume/") {
		req.Header.Set("OpenStack-API-Version", "volume 3.60")
	}
	if c.speak != "" {
		req.Header.Set("OpenStack-API-Version", c.speak)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	var doc map[string]any
	if len(raw) > 0 && json.Unmarshal(raw, &doc) != nil {
		c.t.Fatalf("%s %s: %s", method, path, raw)
	}
	return resp, doc
}

func (c *cloud) id(path, kind, name string) string {
	c.t.Helper()
	_, doc := c.do("GET", path, "")
	for _, x := range doc[kind].([]any) {
		if o := x.(map[string]any); o["name"] == name {
			return o["id"].(string)
		}
	}
	c.t.Fatalf("%s has no %s", path, name)
	return ""
}

const base = "/RegionOne"

// order is a body that makes a server.
func (c *cloud) order(more string) string {
	return fmt.Sprintf(`{"server":{"name":"web-1","flavorRef":%q,"imageRef":%q,"networks":[{"uuid":%q}]%s}}`,
		c.id(base+"/compute/v2.1/flavors/detail", "flavors", "m1.tiny"), c.id(base+"/image/v2/images", "images", "cirros"),
		c.id(base+"/network/v2.0/networks", "networks", "private"), more)
}

// captured is the body of an answer of the real services.
func captured(t *testing.T, name string) (status int, body map[string]any) {
	t.Helper()
	raw, err := os.ReadFile("../testdata/captures/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Status int
		Body   map[string]any
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	return doc.Status, doc.Body
}

// alike checks that what the simulator says has the form of what the real service
// said: it names nothing that the real one does not, and each in the same type.
func alike(t *testing.T, path string, sim, want any) {
	t.Helper()
	switch sim := sim.(type) {
	case map[string]any:
		w, ok := want.(map[string]any)
		if !ok {
			t.Errorf("%s is an object, and really %T", path, want)
			return
		}
		for k, v := range sim {
			wv, there := w[k]
			if !there {
				if path != ".server.metadata" {
					t.Errorf("%s.%s is not in the real answer, which has %v", path, k, slices.Sorted(maps.Keys(w)))
				}
				continue
			}
			if v != nil && wv != nil {
				alike(t, path+"."+k, v, wv)
			}
		}
	case []any:
		if w, ok := want.([]any); !ok {
			t.Errorf("%s is a list, and really %T", path, want)
		} else if len(sim) > 0 && len(w) > 0 {
			alike(t, path+"[]", sim[0], w[0])
		}
	default:
		if fmt.Sprintf("%T", sim) != fmt.Sprintf("%T", want) {
			t.Errorf("%s is %T, and really %T", path, sim, want)
		}
	}
}

func TestAnswersHaveTheRealForm(t *testing.T) {
	t.Parallel()
	c := newCloud(t, openstacksim.Options{})
	_, made := c.do("POST", base+"/compute/v2.1/servers", c.order(`,"metadata":{"pool":"blue"},"tags":["probe"]`))
	id := made["server"].(map[string]any)["id"].(string)
	server := base + "/compute/v2.1/servers/" + id
	_, active := c.do("GET", server, "")
	_, want := captured(t, "server-get-active")
	alike(t, "", active, want)
	_, ports := c.do("GET", base+"/network/v2.0/ports?device_id="+id, "")
	_, want = captured(t, "port-list-by-device")
	alike(t, "", ports, want)
	port := ports["ports"].([]any)[0].(map[string]any)["id"].(string)
	float := fmt.Sprintf(`{"floatingip":{"floating_network_id":%q,"port_id":%q}}`, c.id(base+"/network/v2.0/networks", "networks", "public"), port)
	resp, ip := c.do("POST", base+"/network/v2.0/floatingips", float)
	status, want := captured(t, "floatingip-create-201")
	alike(t, "", ip, want)
	if resp.StatusCode != status {
		t.Errorf("status %d, really %d", resp.StatusCode, status)
	}
	if resp, doc := c.do("POST", base+"/network/v2.0/floatingips", float); resp.StatusCode != 409 ||
		doc["NeutronError"].(map[string]any)["type"] != "FloatingIPPortAlreadyAssociated" {
		t.Errorf("a second address of a port: %d %v", resp.StatusCode, doc)
	}
	_, with := c.do("GET", server, "")
	_, want = captured(t, "server-get-with-floatingip")
	alike(t, "", with, want)
	if n := len(with["server"].(map[string]any)["addresses"].(map[string]any)["private"].([]any)); n != 2 {
		t.Errorf("%d addresses, want a fixed and a floating one", n)
	}
	_, volume := c.do("POST", base+"/volume/v3/volumes", `{"volume":{"name":"data-1","size":1,"metadata":{"pool":"blue"}}}`)
	_, want = captured(t, "volume-get-available")
	alike(t, "", volume, want)
	_, listed := c.do("GET", base+"/compute/v2.1/servers/detail?tags=probe", "")
	_, want = captured(t, "server-list-by-tag")
	alike(t, "", listed, want)
}

func TestRefusalsAreTheRealOnes(t *testing.T) {
	t.Parallel()
	c := newCloud(t, openstacksim.Options{})
	replace := func(field, value string) string {
		var doc map[string]map[string]any
		if err := json.Unmarshal([]byte(c.order("")), &doc); err != nil {
			t.Fatal(err)
		}
		var v any
		if err := json.Unmarshal([]byte(value), &v); err != nil {
			t.Fatal(err)
		}
		doc["server"][field] = v
		out, _ := json.Marshal(doc)
		return string(out)
	}
	const zero = `"00000000-0000-4000-8000-000000000000"`
	for name, body := range map[string]string{
		"server-create-400-flavor":  replace("flavorRef", zero),
		"server-create-400-image":   replace("imageRef", zero),
		"server-create-400-network": replace("networks", `[{"uuid":`+zero+`}]`),
		"server-create-400-az":      replace("availability_zone", `"nowhere"`),
	} {
		status, want := captured(t, name)
		if resp, doc := c.do("POST", base+"/compute/v2.1/servers", body); resp.StatusCode != status || fmt.Sprint(doc) != fmt.Sprint(want) {
			t.Errorf("%s: %d %v, really %d %v", name, resp.StatusCode, doc, status, want)
		}
	}
	if status, want := captured(t, "server-get-404"); true {
		resp, doc := c.do("GET", base+"/compute/v2.1/servers/1353f103-9477-4c9b-94c2-0d1a2ded0e96", "")
		text := doc["itemNotFound"].(map[string]any)["message"]
		if resp.StatusCode != status || text != "Instance 1353f103-9477-4c9b-94c2-0d1a2ded0e96 could not be found." {
			t.Errorf("%d %v, really %v", resp.StatusCode, doc, want)
		}
	}
	for path, body := range map[string]string{
		"/compute/v2.1/servers":     replace("user_data", `"not base64"`),
		"/network/v2.0/ports":       `{"port":{"network_id":` + zero + `}}`,
		"/network/v2.0/floatingips": `{"floatingip":{"floating_network_id":` + zero + `}}`,
		"/volume/v3/volumes":        `{"volume":{"size":0}}`,
	} {
		if resp, doc := c.do("POST", base+path, body); resp.StatusCode < 400 || resp.StatusCode > 404 {
			t.Errorf("%s: %d %v", path, resp.StatusCode, doc)
		}
	}
	for path, key := range map[string]string{"/compute/v2.1/servers": "server", "/network/v2.0/ports": "port", "/volume/v3/volumes": "volume"} {
		if resp, _ := c.do("POST", base+path, `{"`+key+`":{"colour":"blue"}}`); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s takes unknown fields: %d", path, resp.StatusCode)
		}
	}
}

// Deleted servers are listed by their changes, and their actions stay readable.
func TestChangesSince(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)
	c := newCloud(t, openstacksim.Options{Now: func() time.Time { return now }, TokenLife: 24 * time.Hour})
	_, made := c.do("POST", base+"/compute/v2.1/servers", c.order(""))
	id := made["server"].(map[string]any)["id"].(string)
	now = now.Add(time.Hour)
	c.do("DELETE", base+"/compute/v2.1/servers/"+id, "")
	if resp, _ := c.do("GET", base+"/compute/v2.1/servers/"+id, ""); resp.StatusCode != http.StatusNotFound {
		t.Errorf("status %d", resp.StatusCode)
	}
	for since, want := range map[string]int{"2026-11-30T10:30:00Z": 1, "2026-11-30T11:30:00Z": 0} {
		_, doc := c.do("GET", base+"/compute/v2.1/servers/detail?changes-since="+since, "")
		all := doc["servers"].([]any)
		if len(all) != want {
			t.Errorf("since %s: %d, want %d", since, len(all), want)
		}
		if want == 1 {
			s := all[0].(map[string]any)
			_, real := captured(t, "server-list-deleted-admin")
			really := real["servers"].([]any)[0].(map[string]any)
			for _, k := range []string{"status", "OS-EXT-STS:vm_state"} {
				if s[k] != really[k] {
					t.Errorf("%s is %v, really %v", k, s[k], really[k])
				}
			}
			if s["OS-SRV-USG:terminated_at"] == nil {
				t.Error("no time of its end")
			}
		}
	}
	_, doc := c.do("GET", base+"/compute/v2.1/servers/"+id+"/os-instance-actions", "")
	var names []string
	for _, a := range doc["instanceActions"].([]any) {
		names = append(names, a.(map[string]any)["action"].(string))
	}
	if !slices.Equal(names, []string{"delete", "create"}) {
		t.Errorf("actions %v", names)
	}
}
