package simcloud

import (
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"

	"github.com/tollgate-dev/tollgate/internal/devserver/demoday"
	"github.com/tollgate-dev/tollgate/internal/provider/hetzner/hetznersim"
)

// Names of the sources that read the simulators.
const (
	HetznerSource = "hetzner"
	DaySource     = "hetzner-day"
)

const (
	// dayPath is where the simulator of the scripted day is, beside the other one.
	dayPath      = "/day"
	dayStateFile = "day.json"
)

// newDay makes the simulator of the scripted day: a project of its own whose clock
// stands until the script moves it, and in which nothing takes time.
func newDay(dir, token string, log *slog.Logger) *hetznersim.Sim {
	sim := hetznersim.New(hetznersim.Options{Clock: hetznersim.NewClock(demoday.Begin), FirstID: demoday.FirstID, RateLimit: -1,
		Timing: hetznersim.Uniform(0), StateFile: filepath.Join(dir, dayStateFile), Logger: log})
	sim.AddProject(demoday.Account, token)
	return sim
}

// handler serves both simulators.
func (h *Hetzner) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", h.sim)
	mux.Handle(dayPath+"/", http.StripPrefix(dayPath, h.day))
	return mux
}

// Token is the API token of both simulators.
func (h *Hetzner) Token() string { return h.token }

// DayEndpoint is the base URL of the API of the scripted day, DayAdminURL that of
// what sets its clock.
func (h *Hetzner) DayEndpoint() string { return "http://" + h.addr + dayPath + hetznersim.BasePath }

// DayAdminURL is the base URL of the paths by which the simulator of the scripted
// day itself is told what to do.
func (h *Hetzner) DayAdminURL() string { return "http://" + h.addr + dayPath + "/_sim" }

// Sources is an overlay with the sources that read the simulators and deliver to a
// sink. It needs Config beside it.
//
// The first one shares the 3600 requests per hour with the provider; nobody limits
// the day. Whoever lets the day happen asks for its inventories.
func (h *Hetzner) Sources(sink string) []byte {
	return fmt.Appendf(nil, `sources:
  - name: %s
    type: hetzner
    account: %s
    sink: %[3]s
    interval: 15s
    inventory: {interval: 2m}
    hetzner: {token: hetzner-sim-token, endpoint: %q}
  - name: %[5]s
    type: hetzner
    account: %[6]s
    sink: %[3]s
    interval: 1s
    inventory: {interval: 24h, confirmAfter: 2s}
    hetzner: {token: hetzner-sim-token, endpoint: %[7]q}
`, HetznerSource, HetznerName, sink, h.Endpoint(), DaySource, demoday.Account, h.DayEndpoint())
}
