package event_test

import (
	"strings"
	"testing"

	"github.com/tollgate-dev/tollgate/internal/reporting/event"
)

// The vectors are for ever: receivers tell events apart by these ids. They are
// not to be changed, only added to.
func TestIDGoldenVectors(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 300)
	for _, c := range []struct {
		platform       event.Platform
		account        string
		resource       event.Resource
		change, id     string
		source, target string
	}{
		{event.Hetzner, "acme", event.Resource{Type: event.Server, ID: "42"}, event.ChangeCreate,
			"hetzner/acme/server/42/create", "tollgate/hetzner/acme", "server/42"},
		{event.Hetzner, "acme", event.Resource{Type: event.Server, ID: "42", Name: "not part of it"}, event.Change("action", "1001"),
			"hetzner/acme/server/42/action:1001", "tollgate/hetzner/acme", "server/42"},
		{event.Harbor, "team alpha", event.Resource{Type: event.Repository, ID: "team/app"}, event.Change("push", "sha256:ab"),
			"harbor/team%20alpha/repository/team%2Fapp/push:sha256:ab", "tollgate/harbor/team%20alpha", "repository/team%2Fapp"},
		{event.Hetzner, "100%~é", event.Resource{Type: event.Volume, ID: "7"}, event.ChangeDelete,
			"hetzner/100%25%7E%C3%A9/volume/7/delete", "tollgate/hetzner/100%25%7E%C3%A9", "volume/7"},
		{event.Hetzner, long, event.Resource{Type: event.Volume, ID: "7"}, event.ChangeDelete,
			"hetzner/" + long[:159] + "~896a3a2543ed6d2182a8a078a01d91e2", "tollgate/hetzner/" + long, "volume/7"},
	} {
		if got := event.ID(c.platform, c.account, c.resource, c.change); got != c.id {
			t.Errorf("id is %q, want %q", got, c.id)
		}
		if got := event.Source(c.platform, c.account); got != c.source {
			t.Errorf("source is %q, want %q", got, c.source)
		}
		if got := event.Subject(c.resource); got != c.target {
			t.Errorf("subject is %q, want %q", got, c.target)
		}
	}
}

func FuzzIDIsInjectiveAndBounded(f *testing.F) {
	f.Add("a", "b", "c", "a", "b/c", "")
	f.Add("a/", "b", "c", "a", "/b", "c")
	f.Add("a%2F", "b", "c", "a/", "b", "c")
	f.Add(strings.Repeat("x", 300), "b", "c", strings.Repeat("x", 300), "b", "d")
	f.Fuzz(func(t *testing.T, account, id, change, account2, id2, change2 string) {
		one := event.ID(event.Hetzner, account, event.Resource{Type: event.Server, ID: id}, change)
		two := event.ID(event.Hetzner, account2, event.Resource{Type: event.Server, ID: id2}, change2)
		same := account == account2 && id == id2 && change == change2
		if (one == two) != same {
			t.Errorf("ids %q and %q of (%q, %q, %q) and (%q, %q, %q)", one, two, account, id, change, account2, id2, change2)
		}
		if len(one) > 200 {
			t.Errorf("id has %d bytes", len(one))
		}
		for _, c := range []byte(one) {
			if c <= ' ' || c > '~' {
				t.Errorf("id %q has the byte %d", one, c)
			}
		}
	})
}
