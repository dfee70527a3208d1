package openstacksim_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacksim"
)

// clock is the time of a simulated cloud.
type clock struct{ t time.Time }

func (c *clock) now() time.Time       { return c.t }
func (c *clock) pass(d time.Duration) { c.t = c.t.Add(d) }
func start() *clock                   { return &clock{time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)} }
func (c *clock) stamp() string        { return c.t.Format(time.RFC3339) }
func text(doc map[string]any, key ...string) string {
	var v any = doc
	for _, k := range key {
		m, _ := v.(map[string]any)
		v = m[k]
	}
	return fmt.Sprint(v)
}

// timed is a cloud with a clock of its own, in which everything takes ten seconds.
func timed(t *testing.T, o openstacksim.Options) (*cloud, *clock) {
	t.Helper()
	k := start()
	o.Now, o.TokenLife = k.now, 1000*time.Hour
	o.BuildTime, o.DeleteTime, o.ActionTime, o.VolumeTime = 10*time.Second, 10*time.Second, 10*time.Second, 10*time.Second
	return newCloud(t, o), k
}

// server makes one and waits until it runs.
func (c *cloud) server(k *clock, more string) string {
	c.t.Helper()
	_, made := c.do("POST", base+"/compute/v2.1/servers", c.order(more))
	k.pass(10 * time.Second)
	id := text(made, "server", "id")
	if got := c.get(id)["status"]; got != "ACTIVE" {
		c.t.Fatalf("status %v", got)
	}
	return id
}

func (c *cloud) get(id string) map[string]any {
	c.t.Helper()
	resp, doc := c.do("GET", base+"/compute/v2.1/servers/"+id, "")
	if resp.StatusCode != http.StatusOK {
		c.t.Fatalf("%d %v", resp.StatusCode, doc)
	}
	return doc["server"].(map[string]any)
}

func (c *cloud) act(id, body string) (*http.Response, map[string]any) {
	c.t.Helper()
	return c.do("POST", base+"/compute/v2.1/servers/"+id+"/action", body)
}

func (c *cloud) acts(id, query string) []map[string]any {
	c.t.Helper()
	_, doc := c.do("GET", base+"/compute/v2.1/servers/"+id+"/os-instance-actions"+query, "")
	return objects(doc, "instanceActions")
}

func objects(doc map[string]any, key string) (out []map[string]any) {
	list, _ := doc[key].([]any)
	for _, x := range list {
		out = append(out, x.(map[string]any))
	}
	return out
}

// Each action is refused where it does not fit, and otherwise takes its time:
// meanwhile the server has a task and a status that goes with it.
func TestActions(t *testing.T) {
	t.Parallel()
	type step struct {
		body                       string
		code                       int
		task, during, after, noted string
	}
	for name, steps := range map[string][]step{
		"power": {
			{`{"os-start":null}`, 409, "", "", "ACTIVE", ""},
			{`{"os-stop":null}`, 202, "powering-off", "ACTIVE", "SHUTOFF", "stop"},
			{`{"os-stop":null}`, 409, "", "", "SHUTOFF", ""},
			{`{"reboot":{"type":"SOFT"}}`, 409, "", "", "SHUTOFF", ""},
			{`{"os-start":null}`, 202, "powering-on", "SHUTOFF", "ACTIVE", "start"},
			{`{"reboot":{"type":"SOFT"}}`, 202, "rebooting", "REBOOT", "ACTIVE", "reboot"},
			{`{"reboot":{"type":"HARD"}}`, 202, "rebooting_hard", "HARD_REBOOT", "ACTIVE", "reboot"},
		},
		"resize": {
			{`{"resize":{"flavorRef":"TINY"}}`, 400, "", "", "ACTIVE", ""},
			{`{"resize":{"flavorRef":"SMALL"}}`, 202, "resize_prep", "RESIZE", "VERIFY_RESIZE", "resize"},
			{`{"os-stop":null}`, 409, "", "", "VERIFY_RESIZE", ""},
			{`{"revertResize":null}`, 202, "resize_reverting", "REVERT_RESIZE", "ACTIVE", "revertResize"},
			{`{"revertResize":null}`, 409, "", "", "ACTIVE", ""},
			{`{"os-stop":null}`, 202, "powering-off", "ACTIVE", "SHUTOFF", "stop"},
			{`{"resize":{"flavorRef":"SMALL"}}`, 202, "resize_prep", "RESIZE", "VERIFY_RESIZE", "resize"},
			{`{"confirmResize":null}`, 204, "", "VERIFY_RESIZE", "SHUTOFF", "confirmResize"},
		},
		"sleep": {
			{`{"suspend":null}`, 202, "suspending", "ACTIVE", "SUSPENDED", "suspend"},
			{`{"resume":null}`, 202, "resuming", "SUSPENDED", "ACTIVE", "resume"},
			{`{"pause":null}`, 202, "pausing", "ACTIVE", "PAUSED", "pause"},
			{`{"resume":null}`, 409, "", "", "PAUSED", ""},
			{`{"unpause":null}`, 202, "unpausing", "PAUSED", "ACTIVE", "unpause"},
			{`{"shelve":null}`, 202, "shelving", "ACTIVE", "SHELVED_OFFLOADED", "shelve"},
			{`{"shelveOffload":null}`, 403, "", "", "SHELVED_OFFLOADED", ""},
			{`{"unshelve":null}`, 202, "unshelving", "SHELVED_OFFLOADED", "ACTIVE", "unshelve"},
		},
		"rebuild": {
			{`{"rebuild":{"imageRef":"nothing"}}`, 400, "", "", "ACTIVE", ""},
			{`{"rebuild":{"imageRef":"DEBIAN"}}`, 202, "rebuilding", "REBUILD", "ACTIVE", "rebuild"},
		},
		"other": {
			{`{"jump":null}`, 400, "", "", "ACTIVE", ""},
			{`{}`, 400, "", "", "ACTIVE", ""},
			{`{"reboot":{"type":"ODD"}}`, 400, "", "", "ACTIVE", ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, k := timed(t, openstacksim.Options{})
			id := c.server(k, "")
			flavors, images := base+"/compute/v2.1/flavors/detail", base+"/image/v2/images"
			ids := strings.NewReplacer("TINY", c.id(flavors, "flavors", "m1.tiny"), "SMALL", c.id(flavors, "flavors", "m1.small"),
				"DEBIAN", c.id(images, "images", "debian-13"))
			for _, s := range steps {
				body := ids.Replace(s.body)
				noted := len(c.acts(id, ""))
				k.pass(time.Second)
				resp, doc := c.act(id, body)
				if resp.StatusCode != s.code {
					t.Fatalf("%s: %d %v", body, resp.StatusCode, doc)
				}
				if s.code >= 400 {
					if got := c.get(id); got["status"] != s.after || got["OS-EXT-STS:task_state"] != nil || len(c.acts(id, "")) != noted {
						t.Errorf("%s, refused: %v, %v", body, got["status"], got["OS-EXT-STS:task_state"])
					}
					continue
				}
				began := k.stamp()
				got := c.get(id)
				var task any
				if s.task != "" {
					task = s.task
				}
				if got["status"] != s.during || got["OS-EXT-STS:task_state"] != task || got["updated"] != began {
					t.Errorf("%s, meanwhile: %v, %v, %v; want %s, %v, %s", body, got["status"], got["OS-EXT-STS:task_state"], got["updated"], s.during, task, began)
				}
				a := c.acts(id, "?limit=1")[0]
				if a["action"] != s.noted || a["message"] != nil || a["request_id"] != resp.Header.Get("X-Openstack-Request-Id") {
					t.Errorf("%s: noted as %v", body, a)
				}
				if resp, _ := c.act(id, `{"pause":null}`); resp.StatusCode != 409 {
					t.Errorf("%s: something else meanwhile: %d", body, resp.StatusCode)
				}
				k.pass(10 * time.Second)
				got = c.get(id)
				if got["status"] != s.after || got["OS-EXT-STS:task_state"] != nil || got["updated"] != k.stamp() {
					t.Errorf("%s, afterwards: %v, %v, %v; want %s at %s", body, got["status"], got["OS-EXT-STS:task_state"], got["updated"], s.after, k.stamp())
				}
			}
		})
	}
}

// An action can be read with what a host did of it: while it lasts, after it
// failed, and as much as the microversion shows.
func TestActionsAreToldOf(t *testing.T) {
	t.Parallel()
	c, k := timed(t, openstacksim.Options{PageSize: 2})
	id := c.server(k, "")
	release := c.HoldActions()
	began := k.t.Format("2006-01-02T15:04:05.000000")
	c.act(id, `{"os-stop":null}`)
	k.pass(time.Hour)
	if x := c.get(id); x["OS-EXT-STS:task_state"] != "powering-off" || x["status"] != "ACTIVE" {
		t.Errorf("held: %v", x)
	}
	path := base + "/compute/v2.1/servers/" + id + "/os-instance-actions/"
	first := c.acts(id, "?limit=1")[0]
	show := func() map[string]any {
		t.Helper()
		resp, doc := c.do("GET", path+text(first, "request_id"), "")
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%d %v", resp.StatusCode, doc)
		}
		return doc["instanceAction"].(map[string]any)
	}
	a := show()
	e := objects(a, "events")[0]
	if a["start_time"] != began || a["updated_at"] != began || e["event"] != "compute_stop_instance" || e["finish_time"] != nil || e["result"] != nil {
		t.Errorf("while it lasts: %v", a)
	}
	release()
	c.get(id)
	a = show()
	e = objects(a, "events")[0]
	if a["message"] != nil || a["updated_at"] == began || e["result"] != "Success" || e["finish_time"] != a["updated_at"] || a["request_id"] != first["request_id"] {
		t.Errorf("afterwards: %v", a)
	}
	restore := c.FailActions()
	c.act(id, `{"os-start":null}`)
	k.pass(10 * time.Second)
	if x := c.get(id); x["status"] != "SHUTOFF" || x["OS-EXT-STS:task_state"] != nil {
		t.Errorf("after a failure: %v", x)
	}
	restore()
	first = c.acts(id, "?limit=1")[0]
	if a := show(); a["message"] != "Error" || objects(a, "events")[0]["result"] != "Error" {
		t.Errorf("failed: %v", a)
	}
	var names []string
	for q := "?"; q != ""; {
		_, doc := c.do("GET", strings.TrimSuffix(path, "/")+q, "")
		for _, a := range objects(doc, "instanceActions") {
			names = append(names, text(a, "action"))
		}
		if q = ""; doc["links"] != nil {
			_, q, _ = strings.Cut(text(objects(doc, "links")[0], "href"), "os-instance-actions")
		}
	}
	if want := []string{"start", "stop", "create"}; !slices.Equal(names, want) {
		t.Errorf("all pages: %v, want %v", names, want)
	}
	if got := c.acts(id, "?changes-since="+k.stamp()); len(got) != 1 || got[0]["action"] != "start" {
		t.Errorf("changed: %v", got)
	}
	if resp, _ := c.do("GET", path+"req-nothing", ""); resp.StatusCode != http.StatusNotFound {
		t.Errorf("an unknown one: %d", resp.StatusCode)
	}
}

func TestOldMicroversions(t *testing.T) {
	t.Parallel()
	c, k := timed(t, openstacksim.Options{})
	id := c.server(k, "")
	path := base + "/compute/v2.1/servers/" + id + "/os-instance-actions"
	request := text(c.acts(id, "")[0], "request_id")
	c.do("DELETE", base+"/compute/v2.1/servers/"+id, "")
	c.speak = "compute 2.50"
	if _, doc := c.do("GET", path+"/"+request, ""); doc["instanceAction"].(map[string]any)["events"] != nil {
		t.Errorf("events before 2.51: %v", doc)
	}
	c.speak = "compute 2.57"
	if a := c.acts(id, "?limit=1"); len(a) != 2 || a[0]["updated_at"] != nil {
		t.Errorf("before 2.58 there are no pages: %v", a)
	}
	k.pass(10 * time.Second)
	if a := c.acts(id, ""); len(a) != 2 {
		t.Errorf("of a deleted one: %v", a)
	}
	c.speak = "compute 2.20"
	if resp, _ := c.do("GET", path, ""); resp.StatusCode != http.StatusNotFound {
		t.Errorf("of a deleted one before 2.21: %d", resp.StatusCode)
	}
	c.speak = "compute 2.65"
	if _, doc := c.do("GET", detail+"?changes-before=2026-12-24T00:00:00Z&colour=blue", ""); len(objects(doc, "servers")) != 0 || doc["servers"] == nil {
		t.Errorf("changes-before is not known before 2.66: %v", doc)
	}
	c.speak = "compute 2.94"
	if resp, _ := c.do("GET", detail, ""); resp.StatusCode != http.StatusNotAcceptable {
		t.Errorf("a version that is not spoken: %d", resp.StatusCode)
	}
}

// The size of a server changes while a resize is under way, and back while it is
// reverted; the time at which it was put on a host changes when each move is done. A
// delete confirms what waits for it.
func TestResize(t *testing.T) {
	t.Parallel()
	c, k := timed(t, openstacksim.Options{})
	id := c.server(k, "")
	small := c.id(base+"/compute/v2.1/flavors/detail", "flavors", "m1.small")
	launched := c.get(id)["OS-SRV-USG:launched_at"]
	c.act(id, `{"resize":{"flavorRef":"`+small+`"}}`)
	k.pass(5 * time.Second)
	if x := c.get(id); x["status"] != "RESIZE" || x["OS-EXT-STS:task_state"] != "resize_finish" || text(x, "flavor", "original_name") != "m1.small" ||
		x["OS-SRV-USG:launched_at"] != launched {
		t.Errorf("halfway: %v", x)
	}
	k.pass(5 * time.Second)
	if x := c.get(id); text(x, "flavor", "original_name") != "m1.small" || x["OS-SRV-USG:launched_at"] == launched {
		t.Errorf("resized: %v", x)
	}
	launched = c.get(id)["OS-SRV-USG:launched_at"]
	c.act(id, `{"revertResize":null}`)
	k.pass(5 * time.Second)
	if x := c.get(id); x["status"] != "REVERT_RESIZE" || text(x, "flavor", "original_name") != "m1.tiny" || x["OS-SRV-USG:launched_at"] != launched {
		t.Errorf("halfway back: %v", x)
	}
	k.pass(5 * time.Second)
	if x := c.get(id); text(x, "flavor", "original_name") != "m1.tiny" || x["status"] != "ACTIVE" || x["OS-SRV-USG:launched_at"] == launched {
		t.Errorf("reverted: %v", x)
	}
	c.act(id, `{"resize":{"flavorRef":"`+small+`"}}`)
	k.pass(5 * time.Second)
	restore := c.FailActions()
	k.pass(5 * time.Second)
	restore()
	if x := c.get(id); text(x, "flavor", "original_name") != "m1.tiny" || x["status"] != "ACTIVE" {
		t.Errorf("failed halfway: %v", x)
	}
	c.act(id, `{"resize":{"flavorRef":"`+small+`"}}`)
	k.pass(10 * time.Second)
	c.act(id, `{"confirmResize":null}`)
	k.pass(10 * time.Second)
	if x := c.get(id); text(x, "flavor", "original_name") != "m1.small" || x["status"] != "ACTIVE" {
		t.Errorf("confirmed: %v", x)
	}
	c.act(id, `{"os-stop":null}`)
	k.pass(10 * time.Second)
	c.act(id, `{"resize":{"flavorRef":"`+c.id(base+"/compute/v2.1/flavors/detail", "flavors", "m1.tiny")+`"}}`)
	k.pass(10 * time.Second)
	if x := c.get(id); x["status"] != "VERIFY_RESIZE" || x["OS-EXT-STS:power_state"] != 4.0 {
		t.Errorf("resized while it was off: %v", x)
	}
	c.do("DELETE", base+"/compute/v2.1/servers/"+id, "")
	a := c.acts(id, "")
	if a[0]["action"] != "delete" || a[1]["action"] != "confirmResize" || a[0]["request_id"] != a[1]["request_id"] {
		t.Errorf("deleted before it was confirmed: %v", a[:2])
	}
}

// A shelved server leaves its host, and has no zone then.
func TestShelve(t *testing.T) {
	t.Parallel()
	for keep, want := range map[bool][3]any{false: {"SHELVED_OFFLOADED", nil, ""}, true: {"SHELVED", nil, "nova"}} {
		c, k := timed(t, openstacksim.Options{KeepShelved: keep})
		id := c.server(k, "")
		c.act(id, `{"shelve":null}`)
		k.pass(5 * time.Second)
		if x := c.get(id); !keep && (x["status"] != "SHELVED" || x["OS-EXT-STS:task_state"] != "shelving_offloading") {
			t.Errorf("halfway: %v", x)
		}
		k.pass(5 * time.Second)
		x := c.get(id)
		if got := [3]any{x["status"], x["OS-EXT-STS:task_state"], x["OS-EXT-AZ:availability_zone"]}; got != want {
			t.Errorf("%v: %v, want %v", keep, got, want)
		}
	}
}

// A locked server does what an admin says only.
func TestLock(t *testing.T) {
	t.Parallel()
	c, k := timed(t, openstacksim.Options{Admins: []string{"root"}})
	id := c.server(k, "")
	c.act(id, `{"lock":null}`)
	resp, doc := c.act(id, `{"os-stop":null}`)
	if resp.StatusCode != http.StatusConflict || text(doc, "conflictingRequest", "message") != "Instance "+id+" is locked" {
		t.Errorf("%d %v", resp.StatusCode, doc)
	}
	if resp, _ := c.do("DELETE", base+"/compute/v2.1/servers/"+id, ""); resp.StatusCode != http.StatusConflict {
		t.Errorf("deleted: %d", resp.StatusCode)
	}
	root := &cloud{Sim: c.Sim, t: t, url: c.url}
	root.logIn("root", "demo")
	if resp, doc := root.act(id, `{"os-stop":null}`); resp.StatusCode != http.StatusAccepted {
		t.Errorf("an admin: %d %v", resp.StatusCode, doc)
	}
}
