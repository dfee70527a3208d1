package openstack

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/source"
)

// A cursor has room for this much. Of what was said the oldest is forgotten first:
// it may be said again then, which receivers recognize. There may be at most
// maxOpen unfinished entries; more wait in the feed.
const (
	maxSeen    = 400
	maxOpen    = 100
	maxRegions = 6
)

// position is where the reading of all regions is: what a cursor holds.
type position struct {
	Version int    `json:"v"`
	Kind    string `json:"k"`
	// Regions are the places in the feeds of the regions, by name. The default
	// region of a configuration that names none is "".
	Regions map[string]*place `json:"r,omitempty"`
	// Since is where a region begins that has no place yet.
	Since time.Time `json:"s,omitzero"`
}

const positionVersion = 1

// place is where the reading of a region is.
type place struct {
	// Since is when the last whole sweep began, by the cloud's clock, and AsOf by
	// ours. Zero means that there was none.
	Since time.Time `json:"s,omitzero"`
	AsOf  time.Time `json:"a,omitzero"`
	// Walk is the sweep that is under way.
	Walk *walk `json:"w,omitempty"`
	// Open are the ids of entries that have not ended.
	Open []string `json:"o,omitempty"`
	// Seen is what was said, as long as sweeps show it again and a while longer.
	Seen seen `json:"d,omitempty"`
	// Witness is an entry that was read, and Proved when it was there last, by our
	// clock. When the cloud has forgotten it in a pause, it may have forgotten others
	// that nobody has read.
	Witness string    `json:"x,omitempty"`
	Proved  time.Time `json:"p,omitzero"`
}

// clone is a copy that shares nothing: a read that fails has changed nothing.
func (at *place) clone() *place {
	c := *at
	c.Open, c.Seen = slices.Clone(at.Open), maps.Clone(at.Seen)
	if at.Walk != nil {
		w := *at.Walk
		c.Walk = &w
	}
	return &c
}

// walk is a sweep that has more pages than one read takes.
type walk struct {
	// From is the time from which on changes are looked for. Began is when the sweep
	// began, by the cloud's clock, and Begun by ours.
	From  time.Time `json:"f,omitzero"`
	Began time.Time `json:"c,omitzero"`
	Begun time.Time `json:"b,omitzero"`
	// Marker is the entry that the next page begins after.
	Marker string `json:"m,omitempty"`
	// Oldest is the earliest change that was found, for a gap.
	Oldest time.Time `json:"e,omitzero"`
	// Forgot says that the witness is gone.
	Forgot bool `json:"g,omitempty"`
}

func (s *Source) decode(op provider.Op, c source.Cursor) (position, error) {
	p := position{Version: positionVersion, Kind: string(s.kind.Type)}
	if err := source.DecodeCursor(op, s.name, c, &p); err != nil {
		return p, err
	}
	if p.Version != positionVersion || p.Kind != string(s.kind.Type) {
		return p, source.BadCursor(op, s.name, errors.New("it is of another kind or version"))
	}
	if p.Regions == nil {
		p.Regions = map[string]*place{}
	}
	for _, at := range p.Regions {
		if at == nil {
			return p, source.BadCursor(op, s.name, errors.New("a region has no place"))
		}
	}
	return p, nil
}

// encode makes the cursor, and cuts what was said to what there is room for.
func (p position) encode(regions int) source.Cursor {
	for _, at := range p.Regions {
		at.Seen.cut(maxSeen / max(1, regions))
	}
	return source.EncodeCursor(p)
}

// seen are things that were said, each by a hash, with the time by our clock at
// which they were shown last.
type seen map[uint64]time.Time

// hashOf is short: what it takes for known by accident is one in 2^40 of what
// happens within the time that a sweep looks at again.
func hashOf(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // it never fails
	return h.Sum64() & hashMask
}

const (
	hashBytes = 6
	hashMask  = 1<<(8*hashBytes) - 1
	stamped   = hashBytes + 4 // with the seconds of the time
)

func (m seen) has(text string) bool { _, ok := m[hashOf(text)]; return ok }

// add notes that something was said.
func (m *seen) add(text string, at time.Time) {
	if *m == nil {
		*m = seen{}
	}
	h := hashOf(text)
	if was, ok := (*m)[h]; !ok || at.After(was) {
		(*m)[h] = at
	}
}

// forget drops what was not shown since a time.
func (m seen) forget(before time.Time) {
	for h, at := range m {
		if at.Before(before.Add(-time.Second)) { // times of whole seconds
			delete(m, h)
		}
	}
}

// cut keeps the latest n.
func (m seen) cut(n int) {
	if len(m) <= n {
		return
	}
	for _, e := range m.sorted()[:len(m)-n] {
		delete(m, e.hash)
	}
}

type said struct {
	hash uint64
	at   time.Time
}

func (m seen) sorted() []said {
	out := make([]said, 0, len(m))
	for h, at := range m {
		out = append(out, said{h, at})
	}
	slices.SortFunc(out, func(a, b said) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.hash, b.hash)) })
	return out
}

// MarshalText implements encoding.TextMarshaler: hash and seconds of each.
func (m seen) MarshalText() ([]byte, error) {
	raw := make([]byte, 0, len(m)*stamped)
	for _, e := range m.sorted() {
		var b [8]byte
		binary.BigEndian.PutUint64(b[:], e.hash)
		raw = append(raw, b[8-hashBytes:]...)
		raw = binary.BigEndian.AppendUint32(raw, uint32(max(0, e.at.Unix()))) //nolint:gosec // until 2106
	}
	return []byte(base64.RawURLEncoding.EncodeToString(raw)), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *seen) UnmarshalText(text []byte) error {
	raw, err := base64.RawURLEncoding.DecodeString(string(text))
	if err != nil || len(raw)%stamped != 0 {
		return errors.New("what was said cannot be read")
	}
	*m = seen{}
	for ; len(raw) > 0; raw = raw[stamped:] {
		var b [8]byte
		copy(b[8-hashBytes:], raw)
		(*m)[binary.BigEndian.Uint64(b[:])] = time.Unix(int64(binary.BigEndian.Uint32(raw[hashBytes:])), 0).UTC()
	}
	return nil
}
