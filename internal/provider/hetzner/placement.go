package hetzner

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// place is a candidate that the catalogue knows, with its image.
type place struct {
	Candidate
	typ      *hcloud.ServerType
	location *hcloud.Location
	image    *hcloud.Image
	// doubtful: the catalogue calls it unavailable, or it was sold out lately.
	doubtful bool
}

// candidates combines what the spec says with the configuration's candidates: a
// field of the spec replaces that field of each candidate.
func (p *Provider) candidates(pl provider.Placement) []Candidate {
	list := p.opt.Candidates
	if len(list) == 0 {
		list = []Candidate{{}}
	}
	var out []Candidate
	for _, c := range list {
		if pl.Region != "" {
			c.Location = pl.Region
		}
		if pl.MachineType != "" {
			c.ServerType = pl.MachineType
		}
		if !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	return out
}

// Placements implements provider.Placer: one for each candidate.
func (p *Provider) Placements(pl provider.Placement) (out []provider.Placement) {
	for _, c := range p.candidates(pl) {
		at := pl
		at.Region, at.MachineType = c.Location, c.ServerType
		out = append(out, at)
	}
	return out
}

// places checks a placement against the catalogue and returns where to try, in
// order: what the catalogue calls available and was not sold out lately first.
// A placement that can never be satisfied is refused with what is allowed.
func (p *Provider) places(ctx context.Context, req provider.CreateRequest) ([]place, error) {
	pl := req.Placement
	if pl.Zone != "" {
		return nil, p.invalidSpec(req.Name, "placement.zone: %q: must be empty, the vendor has no zones: use placement.region for the location", pl.Zone)
	}
	image := pl.Image
	if image == "" {
		image = p.opt.Image
	}
	if image == "" {
		return nil, p.invalidSpec(req.Name, "placement.image: is required, since the provider has no default image")
	}
	out, err := p.placesOf(ctx, req, image, catalogTTL)
	if provider.ReasonOf(err) == provider.ReasonInvalidSpec {
		// What is missing may be new.
		out, err = p.placesOf(ctx, req, image, catalogYoung)
	}
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(out, func(a, b place) int {
		switch {
		case a.doubtful == b.doubtful:
			return 0
		case b.doubtful:
			return -1
		}
		return 1
	})
	return out, nil
}

func (p *Provider) placesOf(ctx context.Context, req provider.CreateRequest, image string, maxAge time.Duration) ([]place, error) {
	s, err := p.shelf(ctx, maxAge)
	if err != nil {
		return nil, err
	}
	var out []place
	var why []string
	for _, c := range p.candidates(req.Placement) {
		at, problem, err := p.placeOf(ctx, s, c, image)
		if err != nil {
			return nil, err
		}
		if problem != "" {
			why = append(why, problem)
			continue
		}
		out = append(out, at)
	}
	if len(out) == 0 {
		return nil, p.invalidSpec(req.Name, "%s", strings.Join(why, "; "))
	}
	for _, w := range why {
		p.warnOnce(ctx, w, "a candidate cannot be used", "message", w)
	}
	return out, nil
}

// placeOf checks one candidate. problem says what is wrong with it for good.
func (p *Provider) placeOf(ctx context.Context, s shelf, c Candidate, image string) (at place, problem string, err error) {
	now := time.Now()
	at = place{Candidate: c, location: s.location(c.Location), typ: s.serverType(c.ServerType)}
	switch {
	case c.Location == "":
		return at, "placement.region: is required, since the provider has no candidate with a location: want one of " + s.locationNames(), nil
	case at.location == nil:
		return at, fmt.Sprintf("placement.region: %q is no location: want one of %s", c.Location, s.locationNames()), nil
	case c.ServerType == "":
		return at, "placement.machineType: is required, since the provider has no candidate with a server type: want one of " +
			s.typeNames(c.Location, now), nil
	case at.typ == nil:
		return at, fmt.Sprintf("placement.machineType: %q is no server type: in %s want one of %s", c.ServerType, c.Location,
			s.typeNames(c.Location, now)), nil
	}
	o := offerOf(at.typ, c.Location)
	switch {
	case !o.sold:
		return at, fmt.Sprintf("placement.machineType: %q is not sold in %s: want one of %s", c.ServerType, c.Location, s.typeNames(c.Location, now)), nil
	case o.over(now):
		return at, fmt.Sprintf("placement.machineType: %q cannot be ordered in %s since %s: want one of %s", c.ServerType, c.Location,
			o.ends.Format(time.DateOnly), s.typeNames(c.Location, now)), nil
	case !o.ends.IsZero():
		p.warnOnce(ctx, "type "+c.String(), "the server type can soon not be ordered any more", "candidate", c.String(), "until", o.ends)
	}
	if at.image, err = p.findImage(ctx, image, at.typ.Architecture); err != nil {
		return at, "", err
	}
	switch {
	case at.image == nil:
		return at, fmt.Sprintf("placement.image: %q is no image for the architecture %s of %s", image, at.typ.Architecture, c.ServerType), nil
	case at.image.Architecture != "" && at.image.Architecture != at.typ.Architecture:
		return at, fmt.Sprintf("placement.image: %q is for the architecture %s, and %s has %s", image, at.image.Architecture, c.ServerType,
			at.typ.Architecture), nil
	case at.image.Status != "" && at.image.Status != hcloud.ImageStatusAvailable:
		return at, "", fmt.Errorf("image %q is %s", image, at.image.Status)
	}
	at.doubtful = !o.available || p.soldOut.has(c)
	return at, "", nil
}
