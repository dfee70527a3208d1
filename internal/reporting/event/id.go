package event

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// maxID is the longest id; many receivers store no more.
const maxID = 200

// Changes that happen once in the life of a resource. A source and an inventory
// that both see one give it the same id by using these.
const (
	ChangeCreate = "create"
	ChangeDelete = "delete"
)

// Change names a change by the provider's own number of it, such as
// Change("action", "1001").
func Change(kind, id string) string { return kind + ":" + id }

// ID is the id of an event: a pure function of what it is about, the same for
// ever. It reads hetzner/acme/server/42/action:1001. Different arguments give
// different ids: characters other than letters, digits and -._: are escaped as
// %XX, and an id that would be longer than 200 bytes keeps its beginning and gets
// a ~ and 128 bits of the SHA-256 of the whole.
func ID(p Platform, account string, r Resource, change string) string {
	id := join(string(p), account, string(r.Type), r.ID, change)
	if len(id) <= maxID {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	tail := "~" + hex.EncodeToString(sum[:16])
	return id[:maxID-len(tail)] + tail
}

// Source is the CloudEvents source of the events of an account:
// tollgate/hetzner/acme.
func Source(p Platform, account string) string { return "tollgate/" + join(string(p), account) }

// Subject is the CloudEvents subject of the events of a resource: server/42.
func Subject(r Resource) string { return join(string(r.Type), r.ID) }

func join(parts ...string) string {
	var b strings.Builder
	for i, p := range parts {
		if i > 0 {
			b.WriteByte('/')
		}
		for j := 0; j < len(p); j++ {
			if c := p[j]; plain(c) {
				b.WriteByte(c)
			} else {
				b.WriteByte('%')
				b.WriteByte("0123456789ABCDEF"[c>>4])
				b.WriteByte("0123456789ABCDEF"[c&15])
			}
		}
	}
	return b.String()
}

func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
		c == '-' || c == '.' || c == '_' || c == ':'
}
