package hetzner

import (
	"errors"
	"slices"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/source"
)

// Bounds of a cursor.
const (
	// maxOpen is the most unfinished actions that a cursor holds; with as many,
	// reading goes no further until some have ended.
	maxOpen = 300
	// maxSeen is how many of the latest actions are remembered one by one, so that
	// one with a lower number that becomes visible later is recognized as new.
	maxSeen = 100
)

const positionVersion = 1

// position is what a cursor holds.
type position struct {
	V    int    `json:"v"`
	Kind string `json:"k"`
	// Tail is set once the end of the list was reached: from then on it is read
	// from its newest entry down.
	Tail bool `json:"t,omitempty"`
	// Pos is, while the list is read from its oldest entry up, how many entries up
	// to the last one that was read there are.
	Pos int `json:"p,omitempty"`
	// Last is the newest action that was read.
	Last mark `json:"l,omitzero"`
	// Floor: everything up to it was read; Seen are those above it that were, as
	// distances from one to the next.
	Floor int64   `json:"f,omitempty"`
	Seen  []int64 `json:"s,omitempty"`
	// Open are the actions that were read and had not ended, the same way.
	Open []int64 `json:"o,omitempty"`
	// Since, when set, is where a Seek went: what ended before it is left out.
	Since time.Time `json:"n,omitzero"`
	// AsOf is when, by our clock, the list was last read to its end.
	AsOf time.Time `json:"a,omitzero"`
	// Made is the newest resource of which a beginning without an action was read.
	Made int64 `json:"m,omitempty"`
	// Clamp is the vendor's page size when it is smaller than what was asked for.
	Clamp int `json:"c,omitempty"`
}

type mark struct {
	ID int64     `json:"i"`
	At time.Time `json:"a"` // its beginning, by the vendor's clock
}

func (s *Source) decode(op provider.Op, c source.Cursor) (position, error) {
	p := position{V: positionVersion, Kind: string(s.kind.Type)}
	if c == "" {
		return p, nil
	}
	p = position{}
	if err := source.DecodeCursor(op, s.name, c, &p); err != nil {
		return p, err
	}
	if p.V != positionVersion || p.Kind != string(s.kind.Type) || p.Pos < 0 || p.Clamp < 0 {
		return p, source.BadCursor(op, s.name, errors.New("it is of another kind or version"))
	}
	p.Seen, p.Open = undelta(p.Seen), undelta(p.Open)
	return p, nil
}

func (p position) encode() source.Cursor {
	slices.Sort(p.Open)
	p.Seen, p.Open = delta(p.Seen), delta(p.Open)
	return source.EncodeCursor(p)
}

func delta(ids []int64) []int64 {
	out := make([]int64, len(ids))
	var before int64
	for i, id := range ids {
		out[i], before = id-before, id
	}
	return out
}

func undelta(in []int64) []int64 {
	out := make([]int64, len(in))
	var sum int64
	for i, d := range in {
		sum += d
		out[i] = sum
	}
	return out
}

// fresh reports whether an action was not read before.
func (p *position) fresh(id int64) bool {
	if id <= p.Floor {
		return false
	}
	_, seen := slices.BinarySearch(p.Seen, id)
	return !seen
}

// see notes that an action was read.
func (p *position) see(a *hcloud.Action) {
	if i, seen := slices.BinarySearch(p.Seen, a.ID); !seen {
		p.Seen = slices.Insert(p.Seen, i, a.ID)
	}
	for len(p.Seen) > maxSeen {
		p.Floor, p.Seen = p.Seen[0], p.Seen[1:]
	}
	if a.ID > p.Last.ID {
		p.Last = mark{a.ID, a.Started.UTC()}
	}
}

// full is the size of pages to ask for.
func (p *position) full() int {
	if p.Clamp > 0 {
		return p.Clamp
	}
	return perPage
}
