package hetznersim

import (
	"encoding/json"
	"net/netip"
	"slices"
)

// service is a load balancer's service. Fields that are absent in a change keep
// what they were.
type service struct {
	Protocol        string       `json:"protocol"`
	ListenPort      int          `json:"listen_port"`
	DestinationPort int          `json:"destination_port"`
	Proxyprotocol   *bool        `json:"proxyprotocol"`
	HTTP            *serviceHTTP `json:"http,omitempty"`
	HealthCheck     *healthCheck `json:"health_check"`
}

type serviceHTTP struct {
	CookieName     *string `json:"cookie_name"`
	CookieLifetime *int    `json:"cookie_lifetime"`
	Certificates   []int64 `json:"certificates"`
	RedirectHTTP   *bool   `json:"redirect_http"`
	StickySessions *bool   `json:"sticky_sessions"`
	TimeoutIdle    *int    `json:"timeout_idle"`
}

type healthCheck struct {
	Protocol string      `json:"protocol"`
	Port     int         `json:"port"`
	Interval int         `json:"interval"`
	Timeout  int         `json:"timeout"`
	Retries  int         `json:"retries"`
	HTTP     *healthHTTP `json:"http,omitempty"`
}

type healthHTTP struct {
	Domain      *string  `json:"domain"`
	Path        string   `json:"path"`
	Response    string   `json:"response"`
	StatusCodes []string `json:"status_codes"`
	TLS         bool     `json:"tls"`
}

func or[T any](p *T, def T) T {
	if p == nil {
		return def
	}
	return *p
}

// withDefaults fills what the vendor fills.
func (s service) withDefaults() service {
	defaultPort := map[string]int{"http": 80, "https": 443}[s.Protocol]
	if s.ListenPort == 0 {
		s.ListenPort = defaultPort
	}
	if s.DestinationPort == 0 {
		s.DestinationPort = map[string]int{"http": 80, "https": 80}[s.Protocol]
	}
	if s.HealthCheck == nil {
		s.HealthCheck = &healthCheck{Protocol: "tcp", Port: s.DestinationPort, Interval: 15, Timeout: 10, Retries: 3}
	}
	if s.Protocol != "tcp" && s.HTTP == nil {
		s.HTTP = &serviceHTTP{}
	}
	return s
}

func (s service) check(p *problems, prefix string) {
	if !slices.Contains([]string{"tcp", "http", "https"}, s.Protocol) {
		p.add(prefix+"protocol", "%q is not tcp, http or https", s.Protocol)
	}
	for _, f := range []struct {
		name string
		n    int
	}{{"listen_port", s.ListenPort}, {"destination_port", s.DestinationPort}, {"health_check.port", s.HealthCheck.Port}} {
		if f.n < 1 || f.n > 65535 {
			p.add(prefix+f.name, "%d is not a port", f.n)
		}
	}
	if h := s.HealthCheck; h.Interval < 3 || h.Interval > 60 || h.Timeout < 1 || h.Timeout > 60 || h.Retries < 1 || h.Retries > 5 {
		p.add(prefix+"health_check", "interval, timeout or retries are out of range")
	}
	if s.Protocol == "tcp" && s.HTTP != nil {
		p.add(prefix+"http", "must not be given for protocol tcp")
	}
}

func (s service) view() obj {
	h := s.HealthCheck
	check := obj{"protocol": h.Protocol, "port": h.Port, "interval": h.Interval, "timeout": h.Timeout, "retries": h.Retries}
	if h.HTTP != nil {
		http := obj{"domain": nil, "path": h.HTTP.Path, "response": h.HTTP.Response, "status_codes": list(h.HTTP.StatusCodes), "tls": h.HTTP.TLS}
		if h.HTTP.Domain != nil {
			http["domain"] = *h.HTTP.Domain
		}
		check["http"] = http
	}
	o := obj{"protocol": s.Protocol, "listen_port": s.ListenPort, "destination_port": s.DestinationPort,
		"proxyprotocol": or(s.Proxyprotocol, false), "health_check": check}
	if s.HTTP == nil {
		return o
	}
	http := obj{"cookie_name": or(s.HTTP.CookieName, "HCLBSTICKY"), "cookie_lifetime": or(s.HTTP.CookieLifetime, 300),
		"sticky_sessions": or(s.HTTP.StickySessions, false), "timeout_idle": or(s.HTTP.TimeoutIdle, 50)}
	if s.Protocol == "https" {
		http["certificates"] = list(s.HTTP.Certificates)
		http["redirect_http"] = or(s.HTTP.RedirectHTTP, false)
	}
	o["http"] = http
	return o
}

func (c *call) addServiceTo(b *loadBalancer, s service, prefix string) error {
	s = s.withDefaults()
	var p problems
	s.check(&p, prefix)
	if err := p.err(); err != nil {
		return err
	}
	if b.findService(s.ListenPort) >= 0 {
		return fail("source_port_already_used", "source port %d is already in use", s.ListenPort)
	}
	if t, _ := findBalancerType(ref{Name: b.Type}); len(b.Services) >= t.services {
		return overLimit("load_balancer_services_limit")
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	b.Services = append(b.Services, raw)
	return nil
}

func (b *loadBalancer) findService(port int) int {
	return slices.IndexFunc(b.Services, func(raw json.RawMessage) bool {
		var s service
		return json.Unmarshal(raw, &s) == nil && s.ListenPort == port
	})
}

// targetRequest is a target in a request.
type targetRequest struct {
	Type   string `json:"type"`
	Server *struct {
		ID int64 `json:"id"`
	} `json:"server"`
	LabelSelector *struct {
		Selector string `json:"selector"`
	} `json:"label_selector"`
	IP *struct {
		IP string `json:"ip"`
	} `json:"ip"`
	UsePrivateIP bool `json:"use_private_ip"`
}

func (r targetRequest) target() (target, error) {
	switch {
	case r.Type == "server" && r.Server != nil:
		return target{Server: r.Server.ID, Private: r.UsePrivateIP}, nil
	case r.Type == "label_selector" && r.LabelSelector != nil:
		_, err := parseSelector(r.LabelSelector.Selector)
		return target{Selector: r.LabelSelector.Selector, Private: r.UsePrivateIP}, err
	case r.Type == "ip" && r.IP != nil:
		if _, err := netip.ParseAddr(r.IP.IP); err != nil {
			return target{}, invalid("ip", "%q is not an address", r.IP.IP)
		}
		return target{IP: r.IP.IP}, nil
	}
	return target{}, invalid("type", "%q needs its object", r.Type)
}

func (b *loadBalancer) findTarget(t target) int {
	return slices.IndexFunc(b.Targets, func(h target) bool { return h.Server == t.Server && h.Selector == t.Selector && h.IP == t.IP })
}

func (c *call) addTargetTo(b *loadBalancer, r targetRequest) error {
	t, err := r.target()
	if err != nil {
		return err
	}
	if b.findTarget(t) >= 0 {
		return fail("target_already_defined", "target is already defined")
	}
	if kind, _ := findBalancerType(ref{Name: b.Type}); len(b.Targets) >= kind.targets {
		return overLimit("load_balancer_targets_limit")
	}
	if t.Private && len(b.Nets) == 0 {
		return fail("load_balancer_not_attached_to_network", "load balancer is not attached to a network")
	}
	if t.Server != 0 {
		v, ok := c.p.Servers.get(t.Server)
		switch {
		case !ok || v.Status == stDeleting:
			return invalid("server.id", "server %d not found", t.Server)
		case t.Private && !slices.ContainsFunc(b.Nets, func(a attachment) bool { return v.attached(a.Network) }):
			return fail("resolve_cloud_private_targets_error", "server is not attached to the same network")
		case !t.Private && v.IPv4 == 0:
			return fail("resolve_cloud_public_targets_error", "server does not have a public IPv4 address")
		}
	}
	b.Targets = append(b.Targets, t)
	return nil
}

// onBalancer wraps an action of a load balancer that must not be locked.
func onBalancer(h func(c *call, b *loadBalancer) (int, any, error)) handler {
	return func(c *call) (int, any, error) {
		b, err := c.balancer()
		if err != nil {
			return 0, nil, err
		}
		if b.Deleting {
			return 0, nil, notFound("load balancer", b.ID)
		}
		if err := c.p.lockedErr("load_balancer", b.ID); err != nil {
			return 0, nil, err
		}
		return h(c, b)
	}
}

func (c *call) done(command string, b *loadBalancer, more ...resource) (int, any, error) {
	return c.answer(c.start(command, c.s.timing.Action, actionArgs{}, append([]resource{b.on()}, more...)...))
}

func addService(c *call, b *loadBalancer) (int, any, error) {
	var req service
	if err := c.decode(&req); err != nil {
		return 0, nil, err
	}
	if err := c.addServiceTo(b, req, ""); err != nil {
		return 0, nil, err
	}
	return c.done("add_service", b)
}

func updateService(c *call, b *loadBalancer) (int, any, error) {
	var port struct {
		ListenPort int `json:"listen_port"`
	}
	if err := json.Unmarshal(c.body, &port); err != nil {
		return 0, nil, fail("json_error", "invalid JSON input")
	}
	i := b.findService(port.ListenPort)
	if i < 0 {
		return 0, nil, invalid("listen_port", "there is no service on port %d", port.ListenPort)
	}
	s := b.service(i)
	if err := c.decode(&s); err != nil {
		return 0, nil, err
	}
	if s.Protocol == "tcp" {
		s.HTTP = nil
	}
	s = s.withDefaults()
	var p problems
	s.check(&p, "")
	if err := p.err(); err != nil {
		return 0, nil, err
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return 0, nil, err
	}
	b.Services[i] = raw
	return c.done("update_service", b)
}

func deleteService(c *call, b *loadBalancer) (int, any, error) {
	var req struct {
		ListenPort int `json:"listen_port"`
	}
	if err := c.decode(&req); err != nil {
		return 0, nil, err
	}
	i := b.findService(req.ListenPort)
	if i < 0 {
		return 0, nil, invalid("listen_port", "there is no service on port %d", req.ListenPort)
	}
	b.Services = slices.Delete(b.Services, i, i+1)
	return c.done("delete_service", b)
}

func addTarget(c *call, b *loadBalancer) (int, any, error) {
	var req targetRequest
	if err := c.decode(&req); err != nil {
		return 0, nil, err
	}
	if err := c.addTargetTo(b, req); err != nil {
		return 0, nil, err
	}
	if t := b.Targets[len(b.Targets)-1]; t.Server != 0 {
		return c.done("add_target", b, resource{"server", t.Server})
	}
	return c.done("add_target", b)
}

func removeTarget(c *call, b *loadBalancer) (int, any, error) {
	var req targetRequest
	if err := c.decode(&req); err != nil {
		return 0, nil, err
	}
	t, err := req.target()
	if err != nil {
		return 0, nil, err
	}
	i := b.findTarget(t)
	if i < 0 {
		return 0, nil, invalid("type", "there is no such target")
	}
	b.Targets = slices.Delete(b.Targets, i, i+1)
	if t.Server != 0 {
		return c.done("remove_target", b, resource{"server", t.Server})
	}
	return c.done("remove_target", b)
}
