package openstacksim

import (
	"fmt"
	"net/http"
	"strings"
)

// version is the microversion that the request asks a service for, "" if none.
func (c *call) version(service string) string {
	for _, h := range c.r.Header.Values("Openstack-Api-Version") {
		for _, one := range strings.Split(h, ",") {
			if v, ok := strings.CutPrefix(strings.TrimSpace(one), service+" "); ok {
				return v
			}
		}
	}
	return ""
}

// service is the service that is asked, as its microversions name it.
func (c *call) service() (name, newest, oldest string) {
	switch {
	case strings.Contains(c.r.URL.Path, "/compute/"):
		return "compute", c.sim.opt.Microversion, "2.1"
	case strings.Contains(c.r.URL.Path, "/volume/"):
		return "volume", c.sim.opt.VolumeMicroversion, "3.0"
	}
	return "", "", ""
}

// microversion refuses what the service does not speak.
func (c *call) microversion() bool {
	name, newest, oldest := c.service()
	if name == "" {
		return true
	}
	asked := c.version(name)
	if name == "volume" && asked == "" && c.r.Header.Get("Openstack-Api-Version") != "" {
		c.fail(http.StatusBadRequest, "badRequest", "API version None is not supported on this method.") // asked for a version of another service
		return false
	}
	if asked == "latest" || asked == "" || atLeast(newest, asked) && atLeast(asked, oldest) {
		if asked == "" {
			asked = oldest
		}
		c.w.Header().Set("Openstack-Api-Version", name+" "+asked)
		return true
	}
	c.w.Header().Set("Openstack-Api-Version", name+" "+newest)
	c.fail(http.StatusNotAcceptable, "computeFault", "Version %s is not supported by the API. Minimum is %s and maximum is %s.", asked, oldest, newest)
	return false
}

// speaks reports whether the request has at least this microversion of the
// service that is asked.
func (c *call) speaks(v string) bool {
	name, newest, _ := c.service()
	asked := c.version(name)
	if asked == "latest" {
		asked = newest
	}
	return asked != "" && atLeast(asked, v)
}

func atLeast(have, want string) bool {
	var h, w [2]int
	_, err1 := fmt.Sscanf(have, "%d.%d", &h[0], &h[1])
	_, err2 := fmt.Sscanf(want, "%d.%d", &w[0], &w[1])
	return err1 == nil && err2 == nil && (h[0] > w[0] || h[0] == w[0] && h[1] >= w[1])
}
