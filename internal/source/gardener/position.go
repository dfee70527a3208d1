package gardener

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/tollgate-dev/tollgate/internal/gardener"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
)

const positionVersion = 1

// maxOpen is the most unfinished creations that a cursor holds. Of more, those
// that vanish are not said.
const maxOpen = 50

// position is what a cursor holds.
type position struct {
	V int `json:"v"`
	// Version is the resourceVersion up to which everything was read; empty means
	// that everything is to be listed.
	Version string `json:"r,omitempty"`
	// Since, when set, is where a Seek went: what a listing shows of before is left
	// out.
	Since time.Time `json:"n,omitzero"`
	// AsOf is when, by our clock, everything had been read.
	AsOf time.Time `json:"a,omitzero"`
	// Open are shoots whose creation had not ended: uid, namespace and name.
	Open []string `json:"o,omitempty"`
}

func (s *Source) decode(op provider.Op, c source.Cursor) (position, error) {
	p := position{V: positionVersion}
	if c == "" {
		return p, nil
	}
	p = position{}
	if err := source.DecodeCursor(op, s.name, c, &p); err != nil {
		return p, err
	}
	switch {
	case p.V != positionVersion:
		return p, source.BadCursor(op, s.name, errors.New("it is of another version"))
	case p.Version != "" && !comparable(p.Version), p.Version != "" && p.AsOf.IsZero():
		return p, source.BadCursor(op, s.name, errors.New("its resourceVersion is none"))
	}
	return p, nil
}

func comparable(version string) bool {
	_, err := resourceversion.CompareResourceVersion(version, version)
	return err == nil
}

// older compares resourceVersions. What is not one is as old as anything.
func older(a, b string) bool {
	n, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || n < 0
}

// openKey names an unfinished creation in a cursor.
func openKey(st state) string { return st.uid + " " + st.namespace + "/" + st.name }

// reference says where a change is found again.
type reference struct {
	verb, id string
	at       time.Time
	// project is set where the shoot may be gone with its project.
	project, namespace, name, uid string
}

func (r reference) encode() source.Ref {
	return source.Ref(strings.Join([]string{r.verb, r.id, strconv.FormatInt(r.at.Unix(), 10), r.project, r.namespace, r.name, r.uid}, "|"))
}

func (s *Source) dereference(ref source.Ref) (reference, error) {
	bad := func(why string) (reference, error) {
		return reference{}, source.BadCursor(source.OpDerive, s.name, fmt.Errorf("reference %.256q: %s", string(ref), why))
	}
	f := strings.Split(string(ref), "|")
	if len(f) != 7 || f[1] == "" || slices.Contains(f[4:], "") {
		return bad("has another form")
	}
	at, err := strconv.ParseInt(f[2], 10, 64)
	if err != nil {
		return bad("has no time")
	}
	if !kind().Has(f[0]) {
		return bad("is about nothing that happens to shoots")
	}
	return reference{f[0], f[1], time.Unix(at, 0).UTC(), f[3], f[4], f[5], f[6]}, nil
}

// item makes the event of a change.
func (s *Source) item(st state, project string, c change) source.Item {
	account := st.account
	if account == "" {
		account = gardener.Account(s.account, project)
	}
	d := event.Data{
		Platform: event.Gardener, Account: account, Resource: event.Resource{Type: event.Shoot, ID: st.uid, Name: st.name},
		Change: c.id, Size: c.size, PreviousSize: c.previous, UnknownSize: c.unknown, Region: st.region, Sequence: st.sequence(),
	}
	if c.concluded {
		d.Derived = event.FromInventory
		if !c.notBefore.IsZero() {
			t := c.notBefore.UTC()
			d.NotBefore = &t
		}
	}
	if len(d.PreviousSize) == 0 {
		d.PreviousSize = nil
	}
	return source.Item{
		Event: event.New(kind().EventType(c.verb), c.at, d),
		Ref:   reference{c.verb, c.id, c.at, project, st.namespace, st.name, st.uid}.encode(),
	}
}
