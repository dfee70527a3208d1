package openstacksim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"slices"
)

// savedState is the state file. Tokens are not in it: whoever has one logs in
// again.
type savedState struct {
	Project  savedObject   `json:"project"`
	Projects []savedObject `json:"projects,omitempty"`
	NextAddr uint32        `json:"nextAddress"`
	Regions  []savedRegion `json:"regions"`
}

type savedRegion struct {
	Name      string          `json:"name"`
	Network   savedObject     `json:"network"`
	External  savedObject     `json:"external"`
	Subnet    savedObject     `json:"subnet"`
	Group     savedObject     `json:"group"`
	Flavors   []savedFlavor   `json:"flavors"`
	Images    []savedImage    `json:"images"`
	Servers   []savedServer   `json:"servers"`
	Gone      []savedServer   `json:"gone"`
	Ports     []savedPort     `json:"ports"`
	Floating  []savedFloating `json:"floating"`
	Volumes   []savedVolume   `json:"volumes"`
	NextFloat uint32          `json:"nextFloating"`
}

// load reads the state file and lets run again what ran.
func (s *Sim) load() error {
	b, err := os.ReadFile(s.opt.StateFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var st savedState
	if err == nil {
		err = json.Unmarshal(b, &st)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s.opt.StateFile, err)
	}
	s.project, s.projects, s.nextAddr = st.Project.object(), each(st.Projects, savedObject.object), st.NextAddr
	for _, r := range st.Regions {
		if s.regions[r.Name] == nil {
			return fmt.Errorf("%s: is of a cloud with a region %s, and this one has %v", s.opt.StateFile, r.Name, s.opt.Regions)
		}
		s.regions[r.Name] = s.restore(r)
	}
	return nil
}

func (s *Sim) restore(r savedRegion) *region {
	out := &region{name: r.Name, network: r.Network.object(), external: r.External.object(), subnet: r.Subnet.object(), group: r.Group.object(),
		flavors: each(r.Flavors, savedFlavor.flavor), images: each(r.Images, savedImage.image), servers: each(r.Servers, savedServer.server),
		gone: each(r.Gone, savedServer.server), ports: each(r.Ports, savedPort.port), floating: each(r.Floating, savedFloating.floating),
		volumes: each(r.Volumes, savedVolume.volume), nextFloat: r.NextFloat}
	if s.opt.Backend == nil {
		return out
	}
	for _, p := range out.ports {
		s.opt.Backend.Keep(p.address)
	}
	for _, x := range out.servers {
		if x.runs() {
			s.rest(out, x, x.status)
		}
	}
	return out
}

// Save writes the state file, if there is one and something has changed. Requests
// do that at their end.
func (s *Sim) Save() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.save()
}

func (s *Sim) save() {
	if s.opt.StateFile == "" {
		return
	}
	st := savedState{Project: saveObject(s.project), Projects: each(s.projects, saveObject), NextAddr: s.nextAddr}
	for _, name := range s.opt.Regions {
		r := s.regions[name]
		st.Regions = append(st.Regions, savedRegion{Name: name, Network: saveObject(r.network), External: saveObject(r.external),
			Subnet: saveObject(r.subnet), Group: saveObject(r.group), Flavors: each(r.flavors, saveFlavor), Images: each(r.images, saveImage),
			Servers: each(r.servers, saveServer), Gone: each(r.gone, saveServer), Ports: each(r.ports, savePort),
			Floating: each(r.floating, saveFloating), Volumes: each(r.volumes, saveVolume), NextFloat: r.nextFloat})
	}
	b, err := json.MarshalIndent(st, "", "  ")
	if err == nil && bytes.Equal(b, s.saved) {
		return
	}
	if err == nil {
		tmp := s.opt.StateFile + ".new"
		if err = os.WriteFile(tmp, append(slices.Clone(b), '\n'), 0o600); err == nil {
			err = os.Rename(tmp, s.opt.StateFile)
		}
	}
	if err != nil {
		s.opt.Logger.Error("the state is not kept", "error", err)
		return
	}
	s.saved = b
}

// each applies f to all of a list.
func each[A, B any](list []A, f func(A) B) []B {
	var out []B
	for _, x := range list {
		out = append(out, f(x))
	}
	return out
}

// parseAddr is a saved address.
func parseAddr(text string) netip.Addr {
	a, _ := netip.ParseAddr(text) // it was one
	return a
}
