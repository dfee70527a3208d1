package hetznersim

import (
	"fmt"
	"slices"
	"time"
)

// location is where servers run.
type location struct {
	id                int64
	name, description string
	country, city     string
	lat, long         float64
	zone              string
}

func (l location) view() obj {
	return obj{"id": l.id, "name": l.name, "description": l.description, "country": l.country, "city": l.city,
		"latitude": l.lat, "longitude": l.long, "network_zone": l.zone}
}

// locations are the vendor's; ids and names are those of the document's
// examples, so that tests read like the vendor's pages.
var locations = []location{
	{1, "fsn1", "Falkenstein DC Park 1", "DE", "Falkenstein", 50.47612, 12.370071, "eu-central"},
	{2, "nbg1", "Nuremberg DC Park 1", "DE", "Nuremberg", 49.452102, 11.076665, "eu-central"},
	{3, "hel1", "Helsinki DC Park 1", "FI", "Helsinki", 60.169855, 24.938379, "eu-central"},
	{4, "ash", "Ashburn, VA", "US", "Ashburn, VA", 39.045821, -77.487073, "us-east"},
	{5, "hil", "Hillsboro, OR", "US", "Hillsboro, OR", 45.54222, -122.951924, "us-west"},
	{6, "sin", "Singapore", "SG", "Singapore", 1.283333, 103.833333, "ap-southeast"},
}

func findLocation(r ref) (location, bool) {
	i := slices.IndexFunc(locations, func(l location) bool { return r.is(l.id, l.name) })
	if i < 0 {
		return location{}, false
	}
	return locations[i], true
}

func locationNamed(name string) location {
	l, _ := findLocation(ref{Name: name})
	return l
}

// serverType is a kind of server. Prices are in ten-thousandths of a euro per
// hour, net; they are made up, of the vendor's order of magnitude.
type serverType struct {
	id           int64
	name         string
	cores        int
	memory       float64
	disk         int
	cpu, arch    string
	category     string
	locations    []string
	hourly       int // 1/10000 EUR, net, in Europe
	deprecatedIn []string
}

var (
	inEurope   = []string{"fsn1", "nbg1", "hel1"}
	everywhere = []string{"fsn1", "nbg1", "hel1", "ash", "hil", "sin"}
)

var serverTypes = []serverType{
	{104, "cx22", 2, 4, 40, "shared", "x86", "Shared vCPU", inEurope, 60, inEurope},
	{114, "cx23", 2, 4, 40, "shared", "x86", "Shared vCPU", inEurope, 56, nil},
	{115, "cx33", 4, 8, 80, "shared", "x86", "Shared vCPU", inEurope, 88, nil},
	{116, "cx43", 8, 16, 160, "shared", "x86", "Shared vCPU", inEurope, 151, nil},
	{45, "cax11", 2, 4, 40, "shared", "arm", "Shared vCPU", inEurope, 60, nil},
	{93, "cax21", 4, 8, 80, "shared", "arm", "Shared vCPU", inEurope, 104, nil},
	{109, "cpx22", 2, 4, 80, "shared", "x86", "Shared vCPU", everywhere, 105, []string{"hil"}},
	{110, "cpx32", 4, 8, 160, "shared", "x86", "Shared vCPU", everywhere, 180, nil},
	{96, "ccx13", 2, 8, 80, "dedicated", "x86", "Dedicated vCPU", everywhere, 200, nil},
}

func findServerType(r ref) (serverType, bool) {
	i := slices.IndexFunc(serverTypes, func(t serverType) bool { return r.is(t.id, t.name) })
	if i < 0 {
		return serverType{}, false
	}
	return serverTypes[i], true
}

// deprecationAnnounced is when the catalogue's deprecated types were announced
// to go, and deprecationEnd when they can be ordered for the last time.
var (
	deprecationAnnounced = time.Date(2025, 10, 16, 6, 0, 0, 0, time.UTC)
	deprecationEnd       = time.Date(2026, 1, 1, 6, 0, 0, 0, time.UTC)
)

func deprecation() obj {
	return obj{"announced": stamp(deprecationAnnounced), "unavailable_after": stamp(deprecationEnd)}
}

// soldOut says how a type cannot be had in a location: hidden means that the
// catalogue still calls it available.
type soldOut struct{ hidden bool }

// SellOut lets a server type run out in a location, until SellIn: creates
// answer 412 resource_unavailable. With hidden the catalogue still calls it
// available, as the vendor's does for some accounts.
func (s *Sim) SellOut(location, serverType string, hidden bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sold[location+"/"+serverType] = soldOut{hidden}
}

// SellIn makes a server type available in a location again.
func (s *Sim) SellIn(location, serverType string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sold, location+"/"+serverType)
}

// outdated reports whether the type can no longer be ordered in the location.
func (t serverType) outdated(location string, now time.Time) bool {
	return slices.Contains(t.deprecatedIn, location) && !now.Before(deprecationEnd)
}

func (t serverType) view(s *Sim) obj {
	now := s.now()
	places := make([]obj, 0, len(t.locations))
	for _, name := range t.locations {
		l := locationNamed(name)
		out, sold := s.sold[name+"/"+t.name]
		old := slices.Contains(t.deprecatedIn, name)
		p := obj{"id": l.id, "name": l.name, "recommended": !old, "available": !t.outdated(name, now) && (!sold || out.hidden), "deprecation": nil}
		if old {
			p["deprecation"] = deprecation()
		}
		places = append(places, p)
	}
	allOld := len(t.deprecatedIn) == len(t.locations)
	v := obj{"id": t.id, "name": t.name, "description": fmt.Sprintf("%s %d", t.category, t.id), "category": t.category,
		"cores": t.cores, "memory": t.memory, "disk": t.disk, "storage_type": "local", "cpu_type": t.cpu,
		"architecture": t.arch, "deprecated": allOld, "deprecation": nil, "prices": t.prices(), "locations": places}
	if allOld {
		v["deprecation"] = deprecation()
	}
	return v
}

// orderable is the answer when a server of the type cannot be ordered there.
func (s *Sim) orderable(t serverType, location string, now time.Time) error {
	switch {
	case !slices.Contains(t.locations, location):
		return invalid("server_type", "server type %s is not sold in location %s", t.name, location)
	case t.outdated(location, now):
		return invalid("server_type", "server type %s is deprecated in location %s", t.name, location)
	}
	if _, sold := s.sold[location+"/"+t.name]; sold {
		return fail("resource_unavailable", "server type %s is currently unavailable in location %s", t.name, location)
	}
	return nil
}

// pickLocation resolves a location; an empty reference is the first one in
// which the type can be ordered.
func (s *Sim) pickLocation(r ref, t serverType, now time.Time) (location, bool) {
	if !r.empty() {
		return findLocation(r)
	}
	for _, name := range t.locations {
		if s.orderable(t, name, now) == nil {
			return locationNamed(name), true
		}
	}
	return locations[0], true
}

// Endpoints.

func listLocations(c *call) (int, any, error) {
	var views []view
	for _, l := range locations {
		views = append(views, view{id: l.id, name: l.name, body: l.view()})
	}
	return c.list(listRules{key: "locations", sort: []string{"id", "name"}, name: true}, views)
}

func getLocation(c *call) (int, any, error) {
	l, ok := findLocation(ref{ID: c.ids[0]})
	if !ok {
		return 0, nil, notFound("location", c.ids[0])
	}
	return 200, obj{"location": l.view()}, nil
}

func listServerTypes(c *call) (int, any, error) {
	var views []view
	for _, t := range serverTypes {
		views = append(views, view{id: t.id, name: t.name, body: t.view(c.s)})
	}
	return c.list(listRules{key: "server_types", name: true}, views)
}

func getServerType(c *call) (int, any, error) {
	t, ok := findServerType(ref{ID: c.ids[0]})
	if !ok {
		return 0, nil, notFound("server type", c.ids[0])
	}
	return 200, obj{"server_type": t.view(c.s)}, nil
}

// datacentersGone answers for what was removed on 2026-10-01.
func datacentersGone(*call) (int, any, error) {
	return 0, nil, gone("https://docs.hetzner.cloud/changelog#2026-06-02-datacenters-deprecated")
}
