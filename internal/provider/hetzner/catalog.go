package hetzner

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"github.com/tollgate-dev/tollgate/internal/gate"
)

// How long the vendor's catalogue is believed, and how soon it is read again
// when it lacks something that was asked for.
const (
	catalogTTL   = 15 * time.Minute
	catalogYoung = time.Minute
)

// catalog is the vendor's list of locations, server types and images, as read
// lately. It is safe for concurrent use; one caller reads, the others wait.
type catalog struct {
	gate      gate.Gate
	readAt    time.Time
	types     []*hcloud.ServerType
	locations []*hcloud.Location
	images    map[imageKey]imageEntry
}

type imageKey struct {
	name string
	arch hcloud.Architecture
}

type imageEntry struct {
	image  *hcloud.Image // nil: there is none
	readAt time.Time
}

// shelf is one reading of the catalogue.
type shelf struct {
	types     []*hcloud.ServerType
	locations []*hcloud.Location
	readAt    time.Time
}

func (s shelf) serverType(name string) *hcloud.ServerType {
	for _, t := range s.types {
		if t.Name == name {
			return t
		}
	}
	return nil
}

func (s shelf) location(name string) *hcloud.Location {
	for _, l := range s.locations {
		if l.Name == name {
			return l
		}
	}
	return nil
}

func (s shelf) locationNames() string {
	var names []string
	for _, l := range s.locations {
		names = append(names, l.Name)
	}
	return strings.Join(names, ", ")
}

// typeNames lists what can be ordered in a location; everywhere when that is
// empty.
func (s shelf) typeNames(location string, now time.Time) string {
	var names []string
	for _, t := range s.types {
		if o := offerOf(t, location); location == "" || o.sold && !o.over(now) {
			names = append(names, t.Name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// offer is what the catalogue says of a type in a location.
type offer struct {
	sold      bool // it is sold there at all
	available bool // by the catalogue's advice; orders decide
	ends      time.Time
}

// over reports whether the type can no longer be ordered there.
func (o offer) over(now time.Time) bool { return !o.ends.IsZero() && now.After(o.ends) }

// offerOf reads a type's entry for a location. A type without any entry, as in
// an answer with parts missing, is taken for sold everywhere: the order decides.
func offerOf(t *hcloud.ServerType, location string) offer {
	if len(t.Locations) == 0 {
		return offer{sold: true, available: true}
	}
	for _, l := range t.Locations {
		if l.Location == nil || l.Location.Name != location {
			continue
		}
		o := offer{sold: true, available: l.Available}
		if l.Deprecation != nil {
			o.ends = l.Deprecation.UnavailableAfter
		}
		return o
	}
	return offer{}
}

// shelf returns the catalogue, read again when it is older than maxAge.
func (p *Provider) shelf(ctx context.Context, maxAge time.Duration) (shelf, error) {
	c := &p.catalog
	if err := c.gate.Lock(ctx); err != nil {
		return shelf{}, err
	}
	defer c.gate.Unlock()
	if c.readAt.IsZero() || time.Since(c.readAt) > maxAge {
		types, err := p.client.ServerType.All(ctx)
		if err != nil {
			return shelf{}, fmt.Errorf("reading server types: %w", err)
		}
		locations, err := p.client.Location.All(ctx)
		if err != nil {
			return shelf{}, fmt.Errorf("reading locations: %w", err)
		}
		c.types, c.locations, c.readAt = types, locations, time.Now()
	}
	return shelf{c.types, c.locations, c.readAt}, nil
}

// findImage resolves an image's name for an architecture, or an id. It is nil
// when there is none, and for an id whose image has another architecture the
// image itself.
func (p *Provider) findImage(ctx context.Context, name string, arch hcloud.Architecture) (*hcloud.Image, error) {
	c := &p.catalog
	if err := c.gate.Lock(ctx); err != nil {
		return nil, err
	}
	defer c.gate.Unlock()
	key := imageKey{name, arch}
	if e, ok := c.images[key]; ok {
		if age := time.Since(e.readAt); age < catalogYoung || e.image != nil && age < catalogTTL {
			return e.image, nil
		}
	}
	var image *hcloud.Image
	var err error
	if id, nerr := strconv.ParseInt(name, 10, 64); nerr == nil {
		image, _, err = p.client.Image.GetByID(ctx, id)
	} else {
		image, _, err = p.client.Image.GetForArchitecture(ctx, name, arch)
		if err == nil && image == nil {
			image, err = p.deprecatedImage(ctx, name, arch)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("reading image %q: %w", name, err)
	}
	if c.images == nil {
		c.images = map[imageKey]imageEntry{}
	}
	c.images[key] = imageEntry{image, time.Now()}
	return image, nil
}

// deprecatedImage finds an image that the vendor no longer shows unasked and
// still delivers.
func (p *Provider) deprecatedImage(ctx context.Context, name string, arch hcloud.Architecture) (*hcloud.Image, error) {
	all, _, err := p.client.Image.List(ctx, hcloud.ImageListOpts{Name: name, Architecture: []hcloud.Architecture{arch}, IncludeDeprecated: true})
	if err != nil || len(all) == 0 {
		return nil, err
	}
	p.warnOnce(ctx, "image "+name, "the image is deprecated and will go", "image", name)
	return all[0], nil
}

// soldOut remembers what could not be had lately.
type soldOut struct {
	mu    sync.Mutex
	until map[Candidate]time.Time
}

// soldOutFor is how long a place that was sold out is tried after all others.
const soldOutFor = 10 * time.Minute

func (s *soldOut) note(c Candidate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.until == nil {
		s.until = map[Candidate]time.Time{}
	}
	s.until[c] = time.Now().Add(soldOutFor)
}

func (s *soldOut) forget(c Candidate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.until, c)
}

func (s *soldOut) has(c Candidate) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Before(s.until[c])
}

// names lists what is remembered, sorted.
func (s *soldOut) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []string{}
	for c, until := range s.until {
		if time.Now().Before(until) {
			out = append(out, c.String())
		}
	}
	slices.Sort(out)
	return out
}
