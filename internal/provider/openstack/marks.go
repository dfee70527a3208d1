package openstack

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// Keys of our own in a server's metadata beside the marks.
const (
	// metaParts says what was made beside a server: see parts.
	metaParts = "tollgate-parts"
	// metaPort is the proxy's port, for people.
	metaPort = "tollgate-port"
	// metaInstance is the name of the instance that a server or volume belongs to.
	metaInstance = "tollgate-instance"
)

// tagManaged is the tag of all our servers. Listings filter by tags, since the
// compute service ignores filters by metadata; what counts is the metadata.
const tagManaged = "tollgate"

var tagEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// tagInstallation is the tag of an installation's servers. A tag has 60
// characters, fewer than an installation's id may have.
func tagInstallation(installation string) string {
	sum := sha256.Sum256([]byte(installation))
	return "tollgate-i-" + tagEncoding.EncodeToString(sum[:10])
}

// parts says what is made beside a server. It is fixed by the configuration at
// the time of the create and written into the server's metadata, so that a
// delete finds everything whatever the configuration says by then.
type parts struct{ port, floating, volume bool }

// String is the form in the metadata.
func (p parts) String() string {
	s := ""
	for _, f := range []struct {
		on bool
		c  string
	}{{p.port, "p"}, {p.floating, "f"}, {p.volume, "v"}} {
		if f.on {
			s += f.c
		}
	}
	if s == "" {
		return "none"
	}
	return s
}

var (
	partsForm = regexp.MustCompile(`^(p?)(f?)(v?)$`)
	allParts  = parts{true, true, true}
)

// parseParts reads them back; ok is false for what is missing or not ours.
func parseParts(text string) (parts, bool) {
	if text == "none" {
		return parts{}, true
	}
	m := partsForm.FindStringSubmatch(text)
	if m == nil || text == "" {
		return parts{}, false
	}
	return parts{m[1] != "", m[2] != "", m[3] != ""}, true
}

// Names of what belongs to an instance.
func namePort(instance string) string   { return instance + "-port" }
func nameVolume(instance string) string { return instance + "-disk" }

// label is the description of ports and floating IPs: the mark, the instance and
// its owner. It has to be one text of 255 characters, and can be filtered by.
type label struct {
	instance string
	marks    provider.Marks
}

const (
	labelPrefix = "tg1"
	maxLabel    = 255
)

// String is the form in descriptions: tg1/instance/uid/installation/namespace/proxy.
func (l label) String() string {
	return strings.Join([]string{labelPrefix, l.instance, l.marks.UID, l.marks.Installation, l.marks.Namespace, l.marks.Proxy}, "/")
}

// parseLabel reads a description; ok is false when it is none of ours.
func parseLabel(text string) (l label, ok bool) {
	f := strings.Split(text, "/")
	if len(f) != 6 || f[0] != labelPrefix || f[1] == "" {
		return label{}, false
	}
	return label{f[1], provider.Marks{UID: f[2], Installation: f[3], Namespace: f[4], Proxy: f[5]}}, true
}

// check says what cannot be written down.
func (l label) check() error {
	for _, f := range []string{l.instance, l.marks.UID, l.marks.Installation, l.marks.Namespace, l.marks.Proxy} {
		if strings.ContainsAny(f, "/\n") {
			return fmt.Errorf("marks: %q holds a character that the cloud's descriptions cannot keep apart", f)
		}
	}
	if n := len(l.String()); n > maxLabel {
		return fmt.Errorf("marks: instance, uid, installation, namespace and proxy have %d characters together: the cloud takes %d", n, maxLabel)
	}
	return nil
}

// marksOf reads the marks of metadata; all empty when the managed mark is
// missing.
func marksOf(metadata map[string]string) provider.Marks {
	m, managed := provider.MarksFromLabels(metadata)
	if !managed {
		return provider.Marks{}
	}
	return m
}

// instanceKey is an instance id taken apart.
type instanceKey struct{ region, server, name string }

// id is the instance's id: openstack/<region>/<server id>/<name>.
func (k instanceKey) id() provider.InstanceID {
	return provider.InstanceID(strings.Join([]string{TypeName, url.PathEscape(k.region), k.server, url.PathEscape(k.name)}, "/"))
}

var uuidForm = regexp.MustCompile(`^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$`)

func (p *Provider) parseID(op provider.Op, id provider.InstanceID) (instanceKey, error) {
	f := strings.Split(string(id), "/")
	if len(f) == 4 && f[0] == TypeName && uuidForm.MatchString(f[2]) {
		region, err1 := url.PathUnescape(f[1])
		name, err2 := url.PathUnescape(f[3])
		if k := (instanceKey{region, f[2], name}); err1 == nil && err2 == nil && region != "" && name != "" && k.id() == id {
			return k, nil
		}
	}
	return instanceKey{}, provider.WithReason(provider.Wrap(provider.Permanent, op, p.name, string(id),
		fmt.Errorf("%q is no instance id: want %s/<region>/<server id>/<name>", id, TypeName)), provider.ReasonMalformedID)
}

// Tags are the tags of a server with these marks.
func Tags(m provider.Marks) []string { return []string{tagManaged, tagInstallation(m.Installation)} }

// MarksOfDescription reads the marks of the description of a port or floating IP;
// ok is false when it is none of ours.
func MarksOfDescription(text string) (m provider.Marks, ok bool) {
	l, ok := parseLabel(text)
	return l.marks, ok
}
