package openstacksim

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/uuid"
)

// call is one request of an authenticated client.
type call struct {
	sim    *Sim
	region *region
	w      http.ResponseWriter
	r      *http.Request
	query  url.Values
	body   map[string]json.RawMessage
	// who asks, and the id of the request
	user, project, request string
	admin                  bool
}

type handler func(c *call)

// routes lays out the services: /identity/v3 and /<region>/<service>/<version>.
func (s *Sim) routes() {
	s.documents()
	s.mux.HandleFunc("POST /identity/v3/auth/tokens", s.logIn)
	s.mux.HandleFunc("DELETE /identity/v3/auth/tokens", s.revoke)
	compute, network, volume, image := "compute", "network", "volume", "image"
	for _, route := range []struct {
		service, method, path string
		do                    handler
	}{
		{compute, "GET", "v2.1/limits", (*call).limits},
		{compute, "GET", "v2.1/os-availability-zone", (*call).zones},
		{compute, "GET", "v2.1/os-keypairs/{name}", (*call).getKey},
		{compute, "GET", "v2.1/os-services", (*call).listServices},
		{compute, "GET", "v2.1/flavors/detail", (*call).listFlavors},
		{compute, "GET", "v2.1/flavors/{id}/os-extra_specs", func(c *call) { c.answer(http.StatusOK, map[string]any{"extra_specs": map[string]any{}}) }},
		{compute, "POST", "v2.1/servers", (*call).createServer},
		{compute, "GET", "v2.1/servers", (*call).indexServers},
		{compute, "GET", "v2.1/servers/detail", (*call).listServers},
		{compute, "GET", "v2.1/servers/{id}", (*call).getServer},
		{compute, "DELETE", "v2.1/servers/{id}", (*call).deleteServer},
		{compute, "POST", "v2.1/servers/{id}/action", (*call).serverAction},
		{compute, "GET", "v2.1/servers/{id}/os-instance-actions", (*call).instanceActions},
		{compute, "GET", "v2.1/servers/{id}/os-instance-actions/{request}", (*call).instanceAction},
		{compute, "POST", "v2.1/servers/{id}/os-volume_attachments", (*call).attachVolume},
		{compute, "DELETE", "v2.1/servers/{id}/os-volume_attachments/{volume}", (*call).detachVolume},
		{network, "GET", "v2.0/networks", (*call).listNetworks},
		{network, "GET", "v2.0/networks/{id}", (*call).getNetwork},
		{network, "GET", "v2.0/subnets", (*call).listSubnets},
		{network, "GET", "v2.0/security-groups", (*call).listGroups},
		{network, "GET", "v2.0/ports", (*call).listPorts},
		{network, "POST", "v2.0/ports", (*call).createPort},
		{network, "GET", "v2.0/ports/{id}", (*call).getPort},
		{network, "DELETE", "v2.0/ports/{id}", (*call).deletePort},
		{network, "GET", "v2.0/floatingips", (*call).listFloating},
		{network, "POST", "v2.0/floatingips", (*call).createFloating},
		{network, "GET", "v2.0/floatingips/{id}", (*call).getFloating},
		{network, "PUT", "v2.0/floatingips/{id}", (*call).updateFloating},
		{network, "DELETE", "v2.0/floatingips/{id}", (*call).deleteFloating},
		{volume, "GET", "v3/os-availability-zone", (*call).volumeZones},
		{volume, "GET", "v3/volumes/detail", (*call).listVolumes},
		{volume, "POST", "v3/volumes", (*call).createVolume},
		{volume, "GET", "v3/volumes/{id}", (*call).getVolume},
		{volume, "DELETE", "v3/volumes/{id}", (*call).deleteVolume},
		{volume, "POST", "v3/volumes/{id}/action", (*call).volumeAction},
		{image, "GET", "v2/images", (*call).listImages},
		{image, "GET", "v2/images/{id}", (*call).getImage},
	} {
		s.mux.HandleFunc(route.method+" /{region}/"+route.service+"/"+route.path, s.authenticated(route.do))
	}
}

// authenticated checks the token and reads the body.
func (s *Sim) authenticated(do handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		t, ok := s.tokens[r.Header.Get("X-Auth-Token")]
		if !ok || !s.now().Before(t.ends) {
			unauthorized(w)
			return
		}
		s.tick()
		defer s.save()
		c := &call{sim: s, region: s.regions[r.PathValue("region")], w: w, r: r, query: r.URL.Query(), user: t.user, project: t.project,
			admin: t.admin, request: "req-" + uuid.NewString()}
		if c.region == nil {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		if r.Method == http.MethodPost || r.Method == http.MethodPut {
			b, err := io.ReadAll(r.Body)
			if err != nil {
				return // the client has gone
			}
			if err := json.Unmarshal(b, &c.body); err != nil {
				c.fail(http.StatusBadRequest, "badRequest", "Malformed request body")
				return
			}
		}
		w.Header().Set("X-Openstack-Request-Id", c.request)
		if !c.microversion() {
			return
		}
		do(c)
	}
}

// unauthorized is the answer of the services' common filter.
func unauthorized(w http.ResponseWriter) {
	w.Header().Set("Www-Authenticate", `Keystone uri="/identity/v3"`)
	writeJSON(w, http.StatusUnauthorized, map[string]any{"error": map[string]any{
		"code": 401, "title": "Unauthorized", "message": "The request you have made requires authentication."}})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", fmt.Sprint(len(b)))
	w.WriteHeader(status)
	_, _ = w.Write(b)
}

func (c *call) answer(status int, v any) { writeJSON(c.w, status, v) }

// fail answers as compute and volume services do.
func (c *call) fail(status int, kind, format string, args ...any) {
	c.answer(status, map[string]any{kind: map[string]any{"code": status, "message": fmt.Sprintf(format, args...)}})
}

func (c *call) notFound(what, id string) {
	c.fail(http.StatusNotFound, "itemNotFound", "%s %s could not be found.", what, id)
}

// neutron answers as the network service does.
func (c *call) neutron(status int, typ, format string, args ...any) {
	c.answer(status, map[string]any{"NeutronError": map[string]any{"type": typ, "message": fmt.Sprintf(format, args...), "detail": ""}})
}

// read decodes the object of a body and refuses what it does not know.
func (c *call) read(key string, into any) bool {
	d := json.NewDecoder(strings.NewReader(string(c.body[key])))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		return true
	}
	text := strings.NewReplacer("json: unknown field ", "Additional properties are not allowed: ").Replace(err.Error())
	if strings.Contains(c.r.URL.Path, "/network/") {
		c.neutron(http.StatusBadRequest, "HTTPBadRequest", "Unrecognized attribute(s): %s", text)
	} else {
		c.fail(http.StatusBadRequest, "badRequest", "Invalid input for field/attribute %s. %s", key, text)
	}
	return false
}

// forbidden is the answer to what the policy allows others only.
func (c *call) forbidden(rule string) {
	c.fail(http.StatusForbidden, "forbidden", "Policy doesn't allow %s to be performed.", rule)
}
