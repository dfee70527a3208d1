package provider

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Keys of the marks as labels, tags or metadata at a backend. Backends with
// stricter rules map them one to one and say so on their page.
const (
	LabelManaged      = "tollgate-managed"
	LabelManagedYes   = "yes"
	LabelUID          = "tollgate-uid"
	LabelInstallation = "tollgate-installation"
	LabelNamespace    = "tollgate-namespace"
	LabelProxy        = "tollgate-proxy"
	LabelSpecHash     = "tollgate-spec-hash"
)

// Marks say whose an instance is. They are written in the call that creates it.
type Marks struct {
	// UID is the owning proxy's: fixed before its first create, the same over
	// continue-as-new and reset.
	UID string `json:"uid,omitempty"`
	// Installation tells two Tollgates in one account apart.
	Installation string `json:"installation,omitempty"`
	// Namespace and Proxy name the owner, so that its workflow can be looked up.
	Namespace string `json:"namespace,omitempty"`
	Proxy     string `json:"proxy,omitempty"`
	// SpecHash is the hash of the spec that the instance was made for.
	SpecHash string `json:"specHash,omitempty"`
}

// SameOwner reports whether two marks name the same owner: equal uid and
// installation, neither empty.
func (m Marks) SameOwner(o Marks) bool {
	return m.UID != "" && m.Installation != "" && m.UID == o.UID && m.Installation == o.Installation
}

// Labels renders the marks, the managed mark included, as labels. Empty fields
// are left out.
func (m Marks) Labels() map[string]string {
	l := map[string]string{LabelManaged: LabelManagedYes}
	for k, v := range map[string]string{
		LabelUID: m.UID, LabelInstallation: m.Installation, LabelNamespace: m.Namespace,
		LabelProxy: m.Proxy, LabelSpecHash: m.SpecHash,
	} {
		if v != "" {
			l[k] = v
		}
	}
	return l
}

// MarksFromLabels reads marks back. ok is false when the managed mark is
// missing; then the thing is not ours, whatever else it carries.
func MarksFromLabels(l map[string]string) (m Marks, ok bool) {
	return Marks{
		UID: l[LabelUID], Installation: l[LabelInstallation], Namespace: l[LabelNamespace],
		Proxy: l[LabelProxy], SpecHash: l[LabelSpecHash],
	}, l[LabelManaged] == LabelManagedYes
}

var nameEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// InstanceName is the deterministic name of a proxy's n-th instance, n >= 0:
// "proxy-" and 16 characters of lower-case base32, 22 in all, a valid DNS label.
// Each incarnation has a name of its own, so that a replacement can neither
// adopt its dying predecessor nor be refused because of it.
func InstanceName(uid string, incarnation int) string {
	sum := sha256.Sum256([]byte(uid + "/" + strconv.Itoa(incarnation)))
	return "proxy-" + nameEncoding.EncodeToString(sum[:10])
}

var dnsLabel = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// ValidateName checks that value is a lower-case DNS-1123 label of at most 63
// characters, and otherwise says which field it was and what is allowed.
func ValidateName(field, value string) error {
	if !dnsLabel.MatchString(value) {
		return fmt.Errorf("%s: %q is not a name: use 1 to 63 lower-case letters, digits and '-', "+
			"starting and ending with a letter or digit", field, value)
	}
	return nil
}

// VerifyAdoption decides what a create does with an existing instance of its
// name: nil to adopt it, otherwise a Conflict that says why not.
func VerifyAdoption(providerName string, req CreateRequest, existing Instance) error {
	var why []string
	if !existing.Marks.SameOwner(req.Marks) {
		why = append(why, fmt.Sprintf("it belongs to uid %q of installation %q", existing.Marks.UID, existing.Marks.Installation))
	}
	if existing.Marks.SpecHash != req.Marks.SpecHash {
		why = append(why, fmt.Sprintf("it was made for spec %q, not %q", existing.Marks.SpecHash, req.Marks.SpecHash))
	}
	if len(why) == 0 {
		return nil
	}
	return Wrap(Conflict, OpCreate, providerName, req.Name,
		fmt.Errorf("an instance named %q exists and is not adopted: %s", req.Name, strings.Join(why, "; ")))
}
