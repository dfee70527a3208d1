package hetznersim

import "slices"

func listFirewalls(c *call) (int, any, error) {
	var views []view
	for _, f := range c.p.Firewalls.seenAt(c.now, c.lag) {
		views = append(views, viewOf(&f.base, c.p.firewallView(f)))
	}
	return c.list(listRules{key: "firewalls", sort: []string{"id", "name", "created"}, name: true, labels: true}, views)
}

func (c *call) firewall() (*firewall, error) {
	f, ok := c.p.Firewalls.get(c.ids[0])
	if !ok {
		return nil, notFound("firewall", c.ids[0])
	}
	return f, nil
}

func getFirewall(c *call) (int, any, error) {
	f, err := c.firewall()
	if err != nil {
		return 0, nil, err
	}
	return 200, obj{"firewall": c.p.firewallView(f)}, nil
}

func updateFirewall(c *call) (int, any, error) {
	f, err := c.firewall()
	if err != nil {
		return 0, nil, err
	}
	var ch change
	if err := c.decode(&ch); err != nil {
		return 0, nil, err
	}
	if err := ch.apply(&f.base, short, c.p.Firewalls.nameTaken); err != nil {
		return 0, nil, err
	}
	return 200, obj{"firewall": c.p.firewallView(f)}, nil
}

// deleteFirewall has no action; one that guards anything is refused.
func deleteFirewall(c *call) (int, any, error) {
	f, err := c.firewall()
	if err != nil {
		return 0, nil, err
	}
	if len(f.Servers) > 0 || len(f.Selectors) > 0 {
		return 0, nil, fail("resource_in_use", "firewall is still applied to a resource")
	}
	c.p.Firewalls.remove(f.ID, c.now)
	return 204, nil, nil
}

func applyFirewall(c *call) (int, any, error) {
	f, err := c.firewall()
	if err != nil {
		return 0, nil, err
	}
	var req struct {
		ApplyTo []applyTo `json:"apply_to"`
	}
	if err := c.decode(&req); err != nil {
		return 0, nil, err
	}
	if len(req.ApplyTo) == 0 {
		return 0, nil, invalid("apply_to", "is required")
	}
	actions, err := c.apply(f, req.ApplyTo)
	if err != nil {
		return 0, nil, err
	}
	return 201, obj{"actions": c.views(actions...)}, nil
}

func removeFirewall(c *call) (int, any, error) {
	f, err := c.firewall()
	if err != nil {
		return 0, nil, err
	}
	var req struct {
		RemoveFrom []applyTo `json:"remove_from"`
	}
	if err := c.decode(&req); err != nil {
		return 0, nil, err
	}
	if len(req.RemoveFrom) == 0 {
		return 0, nil, invalid("remove_from", "is required")
	}
	for _, t := range req.RemoveFrom {
		switch {
		case t.Type == "server" && t.Server != nil:
			if slices.Contains(f.Servers, t.Server.ID) {
				continue
			}
			if c.p.covers(f, t.Server.ID) {
				return 0, nil, fail("firewall_managed_by_label_selector", "firewall is applied to server %d by a label selector", t.Server.ID)
			}
			return 0, nil, fail("firewall_resource_not_found", "firewall is not applied to server %d", t.Server.ID)
		case t.Type == "label_selector" && t.LabelSelector != nil:
			if !slices.Contains(f.Selectors, t.LabelSelector.Selector) {
				return 0, nil, fail("firewall_resource_not_found", "firewall is not applied to %q", t.LabelSelector.Selector)
			}
		default:
			return 0, nil, invalid("remove_from", "%q needs its object", t.Type)
		}
	}
	var actions []*action
	for _, t := range req.RemoveFrom {
		if t.Type == "server" {
			actions = append(actions, c.start("remove_firewall", c.s.timing.Action, actionArgs{Other: t.Server.ID}, f.on(),
				resource{"server", t.Server.ID}))
			continue
		}
		f.Selectors = slices.DeleteFunc(f.Selectors, func(s string) bool { return s == t.LabelSelector.Selector })
		for _, v := range c.p.selected(t.LabelSelector.Selector) {
			actions = append(actions, c.start("remove_firewall", c.s.timing.Action, actionArgs{}, f.on(), v.on()))
		}
	}
	return 201, obj{"actions": c.views(actions...)}, nil
}

func setRules(c *call) (int, any, error) {
	f, err := c.firewall()
	if err != nil {
		return 0, nil, err
	}
	var req struct {
		Rules *[]rule `json:"rules"`
	}
	if err := c.decode(&req); err != nil {
		return 0, nil, err
	}
	var p problems
	required(&p, "rules", req.Rules == nil)
	checkRules(&p, value(req.Rules))
	if err := p.err(); err != nil {
		return 0, nil, err
	}
	f.Rules = *req.Rules
	actions := []*action{c.start("set_firewall_rules", c.s.timing.Action, actionArgs{}, f.on())}
	for _, id := range sortedIDs(f.Servers) {
		actions = append(actions, c.start("apply_firewall", c.s.timing.Action, actionArgs{}, f.on(), resource{"server", id}))
	}
	return 201, obj{"actions": c.views(actions...)}, nil
}
