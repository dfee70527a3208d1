package openstack

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
)

// The largest cursor that can come about is one that a history takes.
func TestLargestCursor(t *testing.T) {
	t.Parallel()
	for regions := range maxRegions + 1 {
		if regions == 0 {
			continue
		}
		now := time.Date(2026, 11, 2, 6, 0, 0, 123456789, time.UTC)
		p := position{Version: positionVersion, Kind: string(event.FloatingIP), Regions: map[string]*place{}}
		for i := range regions {
			at := &place{Since: now, AsOf: now, Witness: uuid.NewString(), Walk: &walk{From: now, Began: now, Begun: now, Marker: uuid.NewString(), Oldest: now, Forgot: true}}
			r := reading{s: &Source{o: Options{}}, at: at}
			for range regions {
				r.s.o.Regions = append(r.s.o.Regions, "r")
			}
			for j := range 2000 {
				at.Seen.add(fmt.Sprint(j), now.Add(time.Duration(j)*time.Second))
				r.hold(uuid.NewString())
			}
			p.Regions[fmt.Sprintf("region-%d", i)] = at
		}
		c := p.encode(regions)
		if len(c) > source.MaxCursor {
			t.Errorf("%d regions: %d bytes, more than %d", regions, len(c), source.MaxCursor)
		}
		s := &Source{name: "x", kind: floatingIPs()}
		got, err := s.decode(source.OpNext, c)
		if err != nil {
			t.Fatal(err)
		}
		at := got.Regions["region-0"]
		if !at.Seen.has("1999") || at.Seen.has("0") || len(at.Open) != maxOpen/regions || !at.Walk.Began.Equal(now) {
			t.Errorf("%d regions: %d seen, %d open", regions, len(at.Seen), len(at.Open))
		}
	}
}
