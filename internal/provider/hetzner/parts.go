package hetzner

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// Labels of our own beside the marks.
const (
	// labelParts says what was made beside a server: see parts.
	labelParts = "tollgate-parts"
	// labelPort is the proxy's port, for people and their selectors.
	labelPort = "tollgate-port"
	// labelProvider is the configured name, on things that instances share.
	labelProvider = "tollgate-provider"
)

// parts says what was made beside a server. It is fixed by the configuration at
// the time of the create and written into the server's labels and the instance's
// id, so that a delete finds everything whatever the configuration says by then.
type parts struct {
	v4, v6, volume bool
	// fw is the port of the shared firewall; 0 means none.
	fw int
}

// String is the form in labels and ids: letters in this order, "-" is spelled
// "none" since a label must begin with a letter or digit.
func (p parts) String() string {
	var b strings.Builder
	for _, f := range []struct {
		on bool
		c  byte
	}{{p.v4, '4'}, {p.v6, '6'}, {p.volume, 'v'}} {
		if f.on {
			b.WriteByte(f.c)
		}
	}
	if p.fw != 0 {
		b.WriteString("f" + strconv.Itoa(p.fw))
	}
	if b.Len() == 0 {
		return "none"
	}
	return b.String()
}

var partsForm = regexp.MustCompile(`^(4?)(6?)(v?)(?:f([1-9][0-9]{0,4}))?$`)

func parseParts(text string) (parts, bool) {
	if text == "none" {
		return parts{}, true
	}
	m := partsForm.FindStringSubmatch(text)
	if m == nil || text == "" {
		return parts{}, false
	}
	p := parts{v4: m[1] != "", v6: m[2] != "", volume: m[3] != ""}
	p.fw, _ = strconv.Atoi(m[4])
	return p, p.fw <= 65535
}

// partsFor is what the configuration makes for an instance with this port.
func (o options) partsFor(port int) parts {
	p := parts{v4: o.IPv4 == fromOwn, v6: o.IPv6 == fromOwn, volume: o.Volume.SizeGB > 0}
	if len(o.Firewall.AllowFrom) > 0 {
		p.fw = port
	}
	return p
}

// Names of what belongs to an instance.
func nameV4(instance string) string     { return instance + "-v4" }
func nameV6(instance string) string     { return instance + "-v6" }
func nameVolume(instance string) string { return instance + "-data" }

// instanceOf is the instance that a companion's name belongs to.
func instanceOf(companion string) string {
	for _, suffix := range []string{"-v4", "-v6", "-data"} {
		if name, ok := strings.CutSuffix(companion, suffix); ok {
			return name
		}
	}
	return companion
}

// instanceKey is an instance id taken apart.
type instanceKey struct {
	server int64
	name   string
	parts  parts
}

// id is the instance's id: hetzner/<server id>/<name>/<parts>.
func (k instanceKey) id() provider.InstanceID {
	return provider.InstanceID(fmt.Sprintf("%s/%d/%s/%s", TypeName, k.server, k.name, k.parts))
}

// hostname is what the vendor takes for a server's name; servers that somebody
// else made and marked may have names that are no DNS label.
var hostname = regexp.MustCompile(`^[a-zA-Z0-9]([-.a-zA-Z0-9]{0,251}[a-zA-Z0-9])?$`)

func (p *Provider) parseID(op provider.Op, id provider.InstanceID) (instanceKey, error) {
	f := strings.Split(string(id), "/")
	if len(f) == 4 && f[0] == TypeName && hostname.MatchString(f[2]) {
		n, err := strconv.ParseInt(f[1], 10, 64)
		parts, ok := parseParts(f[3])
		if err == nil && n > 0 && strconv.FormatInt(n, 10) == f[1] && ok {
			return instanceKey{n, f[2], parts}, nil
		}
	}
	return instanceKey{}, provider.WithReason(provider.Wrap(provider.Permanent, op, p.name, string(id),
		fmt.Errorf("%q is no instance id: want %s/<server id>/<name>/<parts>", id, TypeName)), provider.ReasonMalformedID)
}
