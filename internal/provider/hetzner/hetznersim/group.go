package hetznersim

import (
	"maps"
	"slices"
)

// maxServersPerGroup is the vendor's limit of a spread group.
const maxServersPerGroup = 10

// group is a placement group.
type group struct {
	base
	Type string `json:"type"`
}

func (p *project) serversOfGroup(id int64) []int64 {
	var ids []int64
	for _, v := range p.Servers.Live {
		if v.Group == id {
			ids = append(ids, v.ID)
		}
	}
	return sortedIDs(ids)
}

func (p *project) groupView(g *group) obj {
	return obj{"id": g.ID, "name": g.Name, "labels": labelsOf(g.Labels), "type": g.Type, "created": stamp(g.Created),
		"servers": p.serversOfGroup(g.ID)}
}

func listGroups(c *call) (int, any, error) {
	types := c.r.URL.Query()["type"]
	var views []view
	for _, g := range c.p.Groups.seenAt(c.now, c.lag) {
		if len(types) == 0 || slices.Contains(types, g.Type) {
			views = append(views, viewOf(&g.base, c.p.groupView(g)))
		}
	}
	return c.list(listRules{key: "placement_groups", sort: []string{"id", "name", "created"}, name: true, labels: true,
		extra: []string{"type"}}, views)
}

func (c *call) group() (*group, error) {
	g, ok := c.p.Groups.get(c.ids[0])
	if !ok {
		return nil, notFound("placement group", c.ids[0])
	}
	return g, nil
}

func getGroup(c *call) (int, any, error) {
	g, err := c.group()
	if err != nil {
		return 0, nil, err
	}
	return 200, obj{"placement_group": c.p.groupView(g)}, nil
}

func createGroup(c *call) (int, any, error) {
	var req struct {
		Name   string            `json:"name"`
		Labels map[string]string `json:"labels"`
		Type   string            `json:"type"`
	}
	if err := c.decode(&req); err != nil {
		return 0, nil, err
	}
	var p problems
	short(&p, req.Name)
	checkLabels(&p, req.Labels)
	if req.Type != "spread" {
		p.add("type", "%q is not spread", req.Type)
	}
	if err := p.err(); err != nil {
		return 0, nil, err
	}
	if c.p.Groups.nameTaken(req.Name, 0) {
		return 0, nil, notUnique("name", "placement group name is already used")
	}
	if err := c.p.overLimit("placement_groups", len(c.p.Groups.Live), 1); err != nil {
		return 0, nil, err
	}
	g := &group{base: base{ID: c.s.id(), Name: req.Name, Labels: maps.Clone(req.Labels), Created: c.now}, Type: req.Type}
	c.p.Groups.put(g)
	return 201, obj{"placement_group": c.p.groupView(g), "action": nil}, nil
}

func updateGroup(c *call) (int, any, error) {
	g, err := c.group()
	if err != nil {
		return 0, nil, err
	}
	var ch change
	if err := c.decode(&ch); err != nil {
		return 0, nil, err
	}
	if err := ch.apply(&g.base, short, c.p.Groups.nameTaken); err != nil {
		return 0, nil, err
	}
	return 200, obj{"placement_group": c.p.groupView(g)}, nil
}

// deleteGroup has no action; its servers leave it.
func deleteGroup(c *call) (int, any, error) {
	g, err := c.group()
	if err != nil {
		return 0, nil, err
	}
	for _, v := range c.p.Servers.Live {
		if v.Group == g.ID {
			v.Group = 0
		}
	}
	c.p.Groups.remove(g.ID, c.now)
	return 204, nil, nil
}
