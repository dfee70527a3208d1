package openstacksim

import "net/http"

// documents lays out what the services say of themselves, which is for everybody:
// clients find their way by it.
func (s *Sim) documents() {
	self := func(r *http.Request, path string) []any {
		return []any{map[string]any{"rel": "self", "href": "http://" + r.Host + path}}
	}
	media := func(name string) []any {
		return []any{map[string]any{"base": "application/json", "type": "application/vnd.openstack." + name}}
	}
	s.mux.HandleFunc("GET /identity/v3", func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, http.StatusOK, map[string]any{"version": map[string]any{"id": "v3.14", "status": "stable", "updated": "2020-04-07T00:00:00Z",
			"links": self(r, "/identity/v3/"), "media-types": media("identity-v3+json")}})
	})
	compute := func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, http.StatusOK, map[string]any{"version": map[string]any{"id": "v2.1", "status": "CURRENT", "version": s.opt.Microversion,
			"min_version": "2.1", "updated": "2013-07-23T11:33:21Z", "links": self(r, "/"+r.PathValue("region")+"/compute/v2.1/"),
			"media-types": media("compute+json;version=2.1")}})
	}
	s.mux.HandleFunc("GET /{region}/compute/v2.1", compute)
	s.mux.HandleFunc("GET /{region}/compute/v2.1/{$}", compute)
	for _, at := range []struct {
		path   string
		status int
		show   func(r *http.Request) map[string]any
	}{
		{"network", 200, func(r *http.Request) map[string]any {
			return map[string]any{"id": "v2.0", "status": "CURRENT", "links": self(r, "/"+r.PathValue("region")+"/network/v2.0/")}
		}},
		{"image", 300, func(r *http.Request) map[string]any {
			return map[string]any{"id": "v2.15", "status": "CURRENT", "links": self(r, "/"+r.PathValue("region")+"/image/v2/")}
		}},
		{"volume", 300, s.volumeDocument},
		{"volume/v3", 200, s.volumeDocument},
	} {
		do := func(w http.ResponseWriter, r *http.Request) {
			writeJSON(w, at.status, map[string]any{"versions": []any{at.show(r)}})
		}
		s.mux.HandleFunc("GET /{region}/"+at.path, do)
		s.mux.HandleFunc("GET /{region}/"+at.path+"/{$}", do)
	}
}

func (s *Sim) volumeDocument(r *http.Request) map[string]any {
	return map[string]any{"id": "v3.0", "status": "CURRENT", "version": s.opt.VolumeMicroversion, "min_version": "3.0", "updated": "2022-08-31T00:00:00Z",
		"links": []any{map[string]any{"rel": "self", "href": "http://" + r.Host + "/" + r.PathValue("region") + "/volume/v3/"}}}
}
