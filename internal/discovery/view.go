// Package discovery answers clients that look for an egress proxy: which
// healthy ones there are, and which one to use. It is fed by the fleet tables
// alone and never guesses: a provider whose table cannot be read just now is
// reported as unavailable, not answered from an old table.
package discovery

import (
	"cmp"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// Proxy is one healthy proxy as clients see it.
type Proxy struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Provider  string `json:"provider"`
	// UID identifies the proxy over its whole life; a proxy that was deleted and
	// made again under its name has another one.
	UID  string `json:"uid"`
	IP   string `json:"ip"`
	Port int    `json:"port"`
	// URL is what goes into HTTP_PROXY, without credentials.
	URL string `json:"url"`
	// Auth says that the proxy asks for a user name and a password.
	Auth      bool               `json:"auth"`
	Placement provider.Placement `json:"placement"`
	Labels    map[string]string  `json:"labels"`
	// Since is when the proxy became healthy, in UTC.
	Since time.Time `json:"since"`
}

// Unavailable is a provider of which nothing can be said just now.
type Unavailable struct {
	Provider string `json:"provider"`
	// Detail says why, for people.
	Detail string `json:"detail"`
}

// List is the answer to GET /v1/proxies.
type List struct {
	// Items are ordered by provider, namespace and name.
	Items []Proxy `json:"items"`
	// Partial is true when some provider is missing from Items.
	Partial     bool          `json:"partial"`
	Unavailable []Unavailable `json:"unavailable"`
}

// listed reports whether a row may be shown to clients: proven, serving, and
// with an address.
func listed(r api.FleetRow) bool {
	return r.Healthy && r.Phase == api.PhaseRunning && r.IP != "" && r.Port != 0
}

// proxies turns the tables of a provider's shards into what clients see. While
// rows move between shards a proxy may stand in two tables: its latest report
// decides.
func proxies(providerName string, tables []api.FleetTable) []Proxy {
	latest := map[string]api.FleetRow{}
	for _, t := range tables {
		for _, r := range t.Rows {
			if old, ok := latest[r.UID]; !ok || r.Seq > old.Seq {
				latest[r.UID] = r
			}
		}
	}
	out := make([]Proxy, 0, len(latest))
	for _, r := range latest {
		if listed(r) {
			out = append(out, proxyOf(providerName, r))
		}
	}
	slices.SortFunc(out, func(a, b Proxy) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	return out
}

func proxyOf(providerName string, r api.FleetRow) Proxy {
	labels := r.Labels
	if labels == nil {
		labels = map[string]string{}
	}
	return Proxy{
		Name: r.Name, Namespace: r.Namespace, Provider: providerName, UID: r.UID,
		IP: r.IP, Port: r.Port,
		URL:  "http://" + net.JoinHostPort(r.IP, strconv.Itoa(r.Port)),
		Auth: r.AuthRef != "", Placement: r.Placement, Labels: labels, Since: r.Since.UTC(),
	}
}
