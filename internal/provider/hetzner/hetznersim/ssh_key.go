package hetznersim

import (
	"crypto/md5" //nolint:gosec // the vendor's fingerprints are MD5
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
)

type sshKey struct {
	base
	Fingerprint string `json:"fingerprint"`
	PublicKey   string `json:"publicKey"`
}

func (k *sshKey) view() obj {
	return obj{"id": k.ID, "name": k.Name, "fingerprint": k.Fingerprint, "public_key": k.PublicKey,
		"labels": labelsOf(k.Labels), "created": stamp(k.Created)}
}

// keyTypes are the kinds of keys that are taken.
var keyTypes = []string{"ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521"}

// fingerprint reads a public key in authorized_keys form and returns its MD5
// fingerprint in colon notation.
func fingerprint(publicKey string) (string, bool) {
	parts := strings.Fields(publicKey)
	if len(parts) < 2 || !slices.Contains(keyTypes, parts[0]) {
		return "", false
	}
	blob, err := base64.StdEncoding.DecodeString(parts[1])
	if err != nil || len(blob) < 4 {
		return "", false
	}
	n := int(binary.BigEndian.Uint32(blob))
	if n > len(blob)-4 || string(blob[4:4+n]) != parts[0] {
		return "", false
	}
	sum := md5.Sum(blob) //nolint:gosec // see the import
	out := make([]string, len(sum))
	for i, b := range sum {
		out[i] = fmt.Sprintf("%02x", b)
	}
	return strings.Join(out, ":"), true
}

func listSSHKeys(c *call) (int, any, error) {
	want := c.r.URL.Query().Get("fingerprint")
	var views []view
	for _, k := range c.p.Keys.seenAt(c.now, c.lag) {
		if want == "" || k.Fingerprint == want {
			views = append(views, viewOf(&k.base, k.view()))
		}
	}
	return c.list(listRules{key: "ssh_keys", sort: []string{"id", "name"}, name: true, labels: true, extra: []string{"fingerprint"}}, views)
}

func (c *call) sshKey() (*sshKey, error) {
	k, ok := c.p.Keys.get(c.ids[0])
	if !ok {
		return nil, notFound("SSH key", c.ids[0])
	}
	return k, nil
}

func getSSHKey(c *call) (int, any, error) {
	k, err := c.sshKey()
	if err != nil {
		return 0, nil, err
	}
	return 200, obj{"ssh_key": k.view()}, nil
}

func createSSHKey(c *call) (int, any, error) {
	var req struct {
		Name      string            `json:"name"`
		PublicKey string            `json:"public_key"`
		Labels    map[string]string `json:"labels"`
	}
	if err := c.decode(&req); err != nil {
		return 0, nil, err
	}
	var p problems
	short(&p, req.Name)
	checkLabels(&p, req.Labels)
	print, ok := fingerprint(req.PublicKey)
	if !ok {
		p.add("public_key", "is not a valid public key")
	}
	if err := p.err(); err != nil {
		return 0, nil, err
	}
	if c.p.Keys.nameTaken(req.Name, 0) {
		return 0, nil, notUnique("name", "SSH key with the same name already exists")
	}
	for _, k := range c.p.Keys.Live {
		if k.Fingerprint == print {
			return 0, nil, notUnique("public_key", "SSH key with the same fingerprint already exists")
		}
	}
	if err := c.p.overLimit("ssh_keys", len(c.p.Keys.Live), 1); err != nil {
		return 0, nil, err
	}
	k := &sshKey{base: base{ID: c.s.id(), Name: req.Name, Labels: maps.Clone(req.Labels), Created: c.now}, Fingerprint: print, PublicKey: req.PublicKey}
	c.p.Keys.put(k)
	return 201, obj{"ssh_key": k.view()}, nil
}

func updateSSHKey(c *call) (int, any, error) {
	k, err := c.sshKey()
	if err != nil {
		return 0, nil, err
	}
	var ch change
	if err := c.decode(&ch); err != nil {
		return 0, nil, err
	}
	if err := ch.apply(&k.base, short, c.p.Keys.nameTaken); err != nil {
		return 0, nil, err
	}
	return 200, obj{"ssh_key": k.view()}, nil
}

func deleteSSHKey(c *call) (int, any, error) {
	k, err := c.sshKey()
	if err != nil {
		return 0, nil, err
	}
	c.p.Keys.remove(k.ID, c.now)
	return 204, nil, nil
}
