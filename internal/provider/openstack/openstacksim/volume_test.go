package openstacksim_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacksim"
)

const volumes = base + "/volume/v3/volumes"

// volume makes one and waits until it is there.
func (c *cloud) volume(k *clock, name string) string {
	c.t.Helper()
	resp, doc := c.do("POST", volumes, fmt.Sprintf(`{"volume":{"name":%q,"size":1}}`, name))
	if resp.StatusCode != http.StatusAccepted {
		c.t.Fatalf("%d %v", resp.StatusCode, doc)
	}
	k.pass(10 * time.Second)
	return text(doc, "volume", "id")
}

func (c *cloud) look(id string) map[string]any {
	c.t.Helper()
	resp, doc := c.do("GET", volumes+"/"+id, "")
	if resp.StatusCode != http.StatusOK {
		c.t.Fatalf("%d %v", resp.StatusCode, doc)
	}
	return doc["volume"].(map[string]any)
}

func TestVolumesAreListed(t *testing.T) {
	t.Parallel()
	c, k := timed(t, openstacksim.Options{PageSize: 2})
	ids := map[string]string{}
	for _, name := range []string{"a", "b", "c"} {
		ids[name] = c.volume(k, name)
		c.look(ids[name])
	}
	second := k.t.Add(-20 * time.Second).Format(time.RFC3339)
	for query, want := range map[string][]string{
		"":                             {"c", "b", "a"},
		"?sort=created_at:asc":         {"a", "b", "c"},
		"?sort_key=name&sort_dir=desc": {"c", "b", "a"},
		"?name=b":                      {"b"},
		"?status=error":                nil,
		"?updated_at=gte:" + second:    {"c", "b", "a"},
		"?updated_at=gt:" + second:     {"c", "b"},
		"?updated_at=eq:" + second:     {"a"},
		"?created_at=gt:2026-11-30T10:00:00Z,lt:2026-11-30T10:00:20Z": {"b"},
		"?all_tenants=1":                         {"c", "b", "a"},
		"?marker=" + ids["b"]:                    {"a"},
		"?marker=" + ids["b"] + "&sort=name:asc": {"c"},
		"?limit=0":                               nil,
	} {
		if got, _ := c.names("volumes", volumes+"/detail"+query); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	for query, want := range map[string]int{
		"marker=nothing": 404, "limit=-1": 400, "sort=colour:asc": 400, "sort=name:up": 400, "sort=name&sort_key=name": 400, "colour=blue": 400,
		"created_at=zz:2026-11-30T10:00:00Z": 400, "created_at=gt:now": 400,
	} {
		if resp, doc := c.do("GET", volumes+"/detail?"+query, ""); resp.StatusCode != want {
			t.Errorf("%s: %d %v, want %d", query, resp.StatusCode, doc, want)
		}
	}
	for speak, want := range map[string]int{"volume 3.59": 3, "volume 3.0": 3, "volume 3.60": 0} {
		c.speak = speak
		if got, _ := c.names("volumes", volumes+"/detail?created_at=gt:2030-01-01T00:00:00Z"); len(got) != want {
			t.Errorf("%s: %v", speak, got)
		}
	}
	for speak, want := range map[string]int{"volume 3.99": 406, "compute 2.93": 400, "volume latest": 200} {
		c.speak = speak
		if resp, _ := c.do("GET", volumes+"/detail", ""); resp.StatusCode != want {
			t.Errorf("%s: %d", speak, resp.StatusCode)
		}
	}
}

// Which filters there are depends on a file of the operator.
func TestVolumesWithoutFilters(t *testing.T) {
	t.Parallel()
	c, k := timed(t, openstacksim.Options{NoVolumeFilters: true})
	c.volume(k, "a")
	resp, doc := c.do("GET", volumes+"/detail?updated_at=gte:2026-11-30T10:00:00Z", "")
	if resp.StatusCode != http.StatusBadRequest || text(doc, "badRequest", "message") != "Invalid filters updated_at are found in query options." {
		t.Errorf("%d %v", resp.StatusCode, doc)
	}
}

func TestVolumeLife(t *testing.T) {
	t.Parallel()
	c, k := timed(t, openstacksim.Options{})
	_, doc := c.do("POST", volumes, `{"volume":{"name":"a","size":1}}`)
	id := text(doc, "volume", "id")
	if doc["volume"].(map[string]any)["updated_at"] != nil || text(doc, "volume", "status") != "creating" {
		t.Errorf("new: %v", doc)
	}
	k.pass(10 * time.Second)
	extend := func(size, want int) {
		t.Helper()
		if resp, doc := c.do("POST", volumes+"/"+id+"/action", fmt.Sprintf(`{"os-extend":{"new_size":%d}}`, size)); resp.StatusCode != want {
			t.Errorf("to %d: %d %v, want %d", size, resp.StatusCode, doc, want)
		}
	}
	state := func(status string, size int) {
		t.Helper()
		v := c.look(id)
		if v["status"] != status || v["size"] != float64(size) {
			t.Errorf("%v with %v, want %s with %d", v["status"], v["size"], status, size)
		}
	}
	extend(1, 400)
	extend(3, 202)
	state("extending", 1)
	extend(4, 400)
	k.pass(10 * time.Second)
	state("available", 3)
	if got := c.look(id)["updated_at"]; got != k.t.Format("2006-01-02T15:04:05.000000") {
		t.Errorf("updated %v", got)
	}
	c.SetQuotas(openstacksim.Quotas{VolumeGB: 4})
	extend(5, 413)
	c.SetQuotas(openstacksim.Quotas{})
	server := c.server(k, "")
	attach := base + "/compute/v2.1/servers/" + server + "/os-volume_attachments"
	if resp, doc := c.do("POST", attach, `{"volumeAttachment":{"volumeId":"`+id+`"}}`); resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %v", resp.StatusCode, doc)
	}
	if on := objects(c.look(id), "attachments"); len(on) != 1 || on[0]["server_id"] != server {
		t.Errorf("attached to %v", on)
	}
	state("in-use", 3)
	c.speak = "volume 3.41"
	extend(4, 400)
	c.speak = ""
	extend(4, 202)
	k.pass(10 * time.Second)
	state("in-use", 4)
	c.do("DELETE", attach+"/"+id, "")
	state("available", 4)
	var names []string
	for _, a := range c.acts(server, "") {
		names = append(names, text(a, "action"))
	}
	if want := []string{"detach_volume", "extend_volume", "attach_volume", "create"}; !slices.Equal(names, want) {
		t.Errorf("actions %v, want %v", names, want)
	}
	restore := c.FailVolumes()
	c.do("DELETE", volumes+"/"+id, "")
	state("deleting", 4)
	k.pass(10 * time.Second)
	state("error_deleting", 4)
	restore()
	if resp, _ := c.do("DELETE", volumes+"/"+id, ""); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("one whose delete has failed is deleted again: %d", resp.StatusCode)
	}
	if err := c.SetVolume(id, "available"); err != nil { // its operator resets it
		t.Fatal(err)
	}
	c.do("DELETE", volumes+"/"+id, "")
	k.pass(10 * time.Second)
	if resp, _ := c.do("GET", volumes+"/"+id, ""); resp.StatusCode != http.StatusNotFound {
		t.Errorf("%d", resp.StatusCode)
	}
	other := c.volume(k, "b")
	if err := c.SetVolume(other, "error"); err != nil || c.look(other)["status"] != "error" {
		t.Errorf("%v, %v", err, c.look(other))
	}
}

// What the services say of themselves is for everybody, and leads on.
func TestDocuments(t *testing.T) {
	t.Parallel()
	c, _ := timed(t, openstacksim.Options{VolumeMicroversion: "3.59"})
	c.token = ""
	for path, want := range map[string]struct {
		status int
		key    string
		self   string
		newest any
	}{
		"/identity/v3":         {200, "version", "/identity/v3/", nil},
		base + "/compute/v2.1": {200, "version", base + "/compute/v2.1/", "2.93"},
		base + "/network":      {200, "versions", base + "/network/v2.0/", nil},
		base + "/image/":       {300, "versions", base + "/image/v2/", nil},
		base + "/volume/":      {300, "versions", base + "/volume/v3/", "3.59"},
		base + "/volume/v3/":   {200, "versions", base + "/volume/v3/", "3.59"},
	} {
		resp, doc := c.do("GET", path, "")
		v, _ := doc[want.key].(map[string]any)
		if all := objects(doc, want.key); len(all) > 0 {
			v = all[0]
		}
		links := objects(v, "links")
		if resp.StatusCode != want.status || len(links) == 0 || links[0]["href"] != c.url+want.self || v["version"] != want.newest {
			t.Errorf("%s: %d %v", path, resp.StatusCode, doc)
		}
	}
}

// A server that boots from a volume has no image, and the volume is in the
// listing with it.
func TestBootFromVolume(t *testing.T) {
	t.Parallel()
	c, k := timed(t, openstacksim.Options{})
	image := c.id(base+"/image/v2/images", "images", "cirros")
	id := c.server(k, `,"imageRef":"","block_device_mapping_v2":[{"boot_index":0,"uuid":"`+image+`","source_type":"image","destination_type":"volume",
		"volume_size":5,"delete_on_termination":true}]`)
	_, doc := c.do("GET", volumes+"/detail", "")
	v := objects(doc, "volumes")
	if len(v) != 1 || v[0]["status"] != "in-use" || v[0]["bootable"] != "true" || v[0]["size"] != 5.0 || objects(v[0], "attachments")[0]["server_id"] != id {
		t.Errorf("%v", doc)
	}
	if x := c.get(id); x["image"] != "" {
		t.Errorf("image %v", x["image"])
	}
	c.do("DELETE", base+"/compute/v2.1/servers/"+id, "")
	for range 2 {
		k.pass(10 * time.Second)
		c.do("GET", detail, "")
	}
	if got, _ := c.names("volumes", volumes+"/detail"); len(got) != 0 {
		t.Errorf("left: %v", got)
	}
}
