package openstack

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/reporting/event"
)

func at(minute int) time.Time { return time.Date(2026, 11, 2, 6, minute, 0, 0, time.UTC) }

// acts makes actions: "stop 3", or "resize! 3" for one with an error, which begin
// at that minute and end half a minute later. They are in the order of the service,
// the newest first.
func acts(texts ...string) (out []action) {
	for i, text := range texts {
		var a action
		var minute int
		if _, err := fmt.Sscanf(text, "%s %d", &a.Name, &minute); err != nil {
			panic(err)
		}
		a.Request = fmt.Sprintf("req-%d", i+1)
		if name, failed := strings.CutSuffix(a.Name, "!"); failed {
			a.Name, a.Message = name, "Error"
		}
		a.Start, a.Updated = at(minute).Format("2006-01-02T15:04:05.000000"), at(minute).Add(30*time.Second).Format("2006-01-02T15:04:05.000000")
		out = append([]action{a}, out...)
	}
	return out
}

func flavored(name string, status, task string, change func(*server)) server {
	one := 1
	v := server{ID: "s", Status: status, Task: task, created: at(0), updated: at(59), launched: at(1)}
	v.Image = json.RawMessage(`{"id":"i"}`)
	v.Flavor.Name, v.Flavor.VCPUs, v.Flavor.RAM, v.Flavor.Disk = name, 1, 512, &one
	if change != nil {
		change(&v)
	}
	return v
}

// What the services say of a server, and what happened to it.
func TestHistory(t *testing.T) {
	t.Parallel()
	const gone = "DELETED"
	for name, tt := range map[string]struct {
		v    server
		acts []action
		want []string
	}{
		"made":                         {flavored("a", "ACTIVE", "", nil), acts("create 0"), []string{"create 0.5 a"}},
		"made, and no list of actions": {flavored("a", "ACTIVE", "", nil), nil, []string{"create 1.0 a"}},
		"being made":                   {flavored("a", "BUILD", "spawning", nil), acts("create 0"), nil},
		"never made":                   {flavored("a", "ERROR", "", func(v *server) { v.launched = time.Time{} }), acts("create! 0"), nil},
		"never made, and deleted":      {flavored("a", gone, "", func(v *server) { v.launched = time.Time{} }), acts("create! 0", "delete 3"), nil},
		"made on the second host":      {flavored("a", "ACTIVE", "", nil), acts("create! 0"), []string{"create 0.5 a"}},
		"deleted": {flavored("a", gone, "", func(v *server) { v.terminated = at(9) }), acts("create 0", "delete 8"),
			[]string{"create 0.5 a", "delete 9.0 a"}},
		"deleted, and nobody says when": {flavored("a", gone, "", nil), acts("create 0", "delete 8"), []string{"create 0.5 a", "delete 59.0 a"}},
		"deleted before it was made, by another machine's clock": {flavored("a", gone, "", func(v *server) { v.terminated = at(0) }), acts("create 3", "delete 0"),
			[]string{"create 3.5 a", "delete 3.5 a"}},
		"stopped and started": {flavored("a", "ACTIVE", "", nil), acts("create 0", "stop 3", "start 5"),
			[]string{"create 0.5 a", "power_off 3.5", "power_on 5.5"}},
		"stopped twice, rebooted": {flavored("a", "ACTIVE", "", nil), acts("create 0", "stop 3", "stop 4", "reboot 5", "reboot 6"),
			[]string{"create 0.5 a", "power_off 3.5", "power_on 5.5"}},
		"stopped, and rescued": {flavored("a", "RESCUE", "", nil), acts("create 0", "stop 3", "rescue 5", "unrescue 7"),
			[]string{"create 0.5 a", "power_off 3.5", "power_on 5.5"}},
		"a stop that failed":       {flavored("a", "ACTIVE", "", nil), acts("create 0", "stop! 3"), []string{"create 0.5 a"}},
		"stopping":                 {flavored("a", "ACTIVE", "powering-off", nil), acts("create 0", "stop 3"), []string{"create 0.5 a"}},
		"stopping, after an error": {flavored("a", "ACTIVE", "deleting", nil), acts("create 0", "stop 2", "start! 3"), []string{"create 0.5 a", "power_off 2.5"}},
		"shelved": {flavored("a", "SHELVED_OFFLOADED", "", nil), acts("create 0", "shelve 3", "shelveOffload 4", "unshelve 7"),
			[]string{"create 0.5 a", "power_off 3.5", "power_on 7.5"}},
		"suspended, paused": {flavored("a", "PAUSED", "", nil), acts("create 0", "suspend 3", "resume 4", "pause 5"),
			[]string{"create 0.5 a", "power_off 3.5", "power_on 4.5"}},
		"deleted softly": {flavored("a", "SOFT_DELETED", "", nil), acts("create 0", "delete 3"), []string{"create 0.5 a", "delete 3.5 a"}},
		"deleted softly and reclaimed": {flavored("a", gone, "", func(v *server) { v.terminated = at(9) }), acts("create 0", "delete 3"),
			[]string{"create 0.5 a", "delete 3.5 a"}},
		"deleted softly, being reclaimed": {flavored("a", "SOFT_DELETED", "deleting", nil), acts("create 0", "delete 3"), []string{"create 0.5 a", "delete 3.5 a"}},
		"deleted softly, and by force": {flavored("a", gone, "", func(v *server) { v.terminated = at(9) }), acts("create 0", "delete 3", "delete 8"),
			[]string{"create 0.5 a", "delete 3.5 a"}},
		"deleted softly, being restored": {flavored("a", "SOFT_DELETED", "restoring", nil), acts("create 0", "delete 3", "restore 4"),
			[]string{"create 0.5 a", "delete 3.5 a"}},
		"deleted softly and restored": {flavored("a", "ACTIVE", "", nil), acts("create 0", "stop 2", "delete 3", "restore 4", "stop 6"),
			[]string{"create 0.5 a", "power_off 2.5", "delete 3.5 a", "restore 4.5 a", "power_off 6.5"}},
		"restored in vain": {flavored("a", "SOFT_DELETED", "", nil), acts("create 0", "delete 3", "restore! 4"), []string{"create 0.5 a", "delete 3.5 a"}},
		"restored, and deleted at last": {flavored("a", gone, "", func(v *server) { v.terminated = at(9) }), acts("create 0", "delete 3", "restore 4", "delete 8"),
			[]string{"create 0.5 a", "delete 3.5 a", "restore 4.5 a", "delete 9.0 a"}},
		"restored twice": {flavored("b", "SOFT_DELETED", "", nil), acts("create 0", "delete 3", "restore 4", "resize 5", "confirmResize 6", "delete 7", "restore 8", "delete 9"),
			[]string{"create 0.5 ?", "delete 3.5 ?", "restore 4.5 ?", "resize 5.5 b", "delete 7.5 b", "restore 8.5 b", "delete 9.5 b"}},
		"a delete that failed":         {flavored("a", gone, "", func(v *server) { v.terminated = at(9) }), acts("create 0", "delete! 3", "delete 8"), []string{"create 0.5 a", "delete 9.0 a"}},
		"resized":                      {flavored("b", "ACTIVE", "", nil), acts("create 0", "resize 3", "confirmResize 4"), []string{"create 0.5 ?", "resize 3.5 b"}},
		"resized, to be confirmed":     {flavored("b", "VERIFY_RESIZE", "", nil), acts("create 0", "resize 3"), []string{"create 0.5 ?", "resize 3.5 b"}},
		"resized on the second host":   {flavored("b", "VERIFY_RESIZE", "", nil), acts("create 0", "resize! 3"), []string{"create 0.5 ?", "resize 3.5 b"}},
		"confirmed on the second host": {flavored("b", "ACTIVE", "", nil), acts("create 0", "resize! 3", "confirmResize 4"), []string{"create 0.5 ?", "resize 3.5 b"}},
		"a resize that failed":         {flavored("a", "ACTIVE", "", nil), acts("create 0", "resize! 3"), []string{"create 0.5 a"}},
		"one that failed, one that did not": {flavored("b", "ACTIVE", "", nil), acts("create 0", "resize! 2", "resize 3", "confirmResize 4"),
			[]string{"create 0.5 ?", "resize 3.5 b"}},
		"resized and back": {flavored("a", "ACTIVE", "", nil), acts("create 0", "resize 3", "revertResize 4"),
			[]string{"create 0.5 a", "resize 3.5 ?", "resize 4.5 a"}},
		"resized twice": {flavored("c", "ACTIVE", "", nil), acts("create 0", "resize 3", "confirmResize 4", "resize 5", "confirmResize 6"),
			[]string{"create 0.5 ?", "resize 3.5 ?", "resize 5.5 c"}},
		"resized, and back from another": {flavored("b", "ACTIVE", "", nil), acts("create 0", "resize 3", "confirmResize 4", "resize 5", "revertResize 6"),
			[]string{"create 0.5 ?", "resize 3.5 b", "resize 5.5 ?", "resize 6.5 b"}},
		"deleted before it was confirmed": {flavored("b", gone, "", func(v *server) { v.terminated = at(9) }), acts("create 0", "resize 3", "confirmResize 8", "delete 8"),
			[]string{"create 0.5 ?", "resize 3.5 b", "delete 9.0 b"}},
		"moved and back":                 {flavored("a", "ACTIVE", "", nil), acts("create 0", "migrate 3", "revertResize 4"), []string{"create 0.5 a"}},
		"being resized, and not yet":     {flavored("a", "ACTIVE", "resize_prep", nil), acts("create 0", "resize 3"), []string{"create 0.5 a"}},
		"being resized, nobody knows":    {flavored("b", "RESIZE", "resize_finish", nil), acts("create 0", "resize 3"), []string{"create 0.5 ?"}},
		"resized while off, and deleted": {flavored("b", gone, "", func(v *server) { v.terminated = at(9) }), acts("create 0", "stop 2", "resize 3", "confirmResize 4", "delete 8"), []string{"create 0.5 ?", "power_off 2.5", "resize 3.5 b", "delete 9.0 b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for i, ch := range tt.v.history(tt.acts) {
				text := fmt.Sprintf("%s %.1f", ch.verb, ch.at.Sub(at(0)).Minutes())
				if ch.sized {
					size := "?"
					if ch.size != nil {
						size = ch.size[event.Flavor].String()
					}
					text += " " + size
				}
				if got = append(got, text); ch.by.Before(ch.at) && ch.verb != "delete" {
					t.Errorf("%s was shown by %v", text, ch.by)
				}
				if i > 0 && ch.seq == 0 {
					t.Errorf("%s has no place in the order", text)
				}
			}
			if diff := cmp.Diff(got, tt.want); diff != "" {
				t.Errorf("(-got +want):\n%s", diff)
			}
		})
	}
}

// A server that boots from a volume has no root disk of its own.
func TestSize(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`{"flavor":{"original_name":"m1","vcpus":2,"ram":2560,"disk":20,"ephemeral":5,"swap":0},"image":{"id":"i"}}`: `{"disk_gb":25,"flavor":"m1","ram_gb":2.5,"vcpus":2}`,
		`{"flavor":{"original_name":"m1","vcpus":2,"ram":2048,"disk":20,"ephemeral":5,"swap":0},"image":""}`:         `{"disk_gb":5,"flavor":"m1","ram_gb":2,"vcpus":2}`,
		`{"flavor":{"original_name":"m1","vcpus":2,"ram":2048,"disk":0,"ephemeral":0},"image":""}`:                   `{"disk_gb":0,"flavor":"m1","ram_gb":2,"vcpus":2}`,
		`{"flavor":{"id":"only"}}`: `{}`,
		`{"flavor":null}`:          `{}`,
		`{"flavor":{"original_name":"m1","vcpus":"two","ram":100}}`: `{}`,
	} {
		got, err := json.Marshal(readServer(json.RawMessage(raw)).size())
		if err != nil || string(got) != want {
			t.Errorf("%s: %s, %v; want %s", raw, got, err, want)
		}
	}
}
