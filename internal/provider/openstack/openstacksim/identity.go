package openstacksim

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"
)

// logIn is POST /auth/tokens by password or by application credential.
func (s *Sim) logIn(w http.ResponseWriter, r *http.Request) {
	type domain struct{ ID, Name string }
	var body struct {
		Auth struct {
			Identity struct {
				Methods  []string
				Password struct {
					User struct {
						ID, Name, Password string
						Domain             *domain
					}
				}
				AppCred struct {
					ID, Name, Secret string
				} `json:"application_credential"`
			}
			Scope *struct {
				Project *struct {
					ID, Name string
					Domain   *domain
				}
			}
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		writeJSON(w, http.StatusBadRequest, map[string]any{"error": map[string]any{"code": 400, "title": "Bad Request", "message": err.Error()}})
		return
	}
	id := body.Auth.Identity
	var user, secret string
	scoped := body.Auth.Scope != nil && body.Auth.Scope.Project != nil
	switch {
	case slices.Equal(id.Methods, []string{"password"}):
		user, secret = id.Password.User.Name, id.Password.User.Password
		if user == "" {
			user = id.Password.User.ID
		} else if id.Password.User.Domain == nil {
			user = "" // a name without its domain names nobody
		}
	case slices.Equal(id.Methods, []string{"application_credential"}):
		user, secret = id.AppCred.ID, id.AppCred.Secret
		if scoped { // they have a scope of their own
			user = ""
		}
		scoped = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.opt.Users[user]; len(s.opt.Users) > 0 && !known && id.AppCred.ID != "" {
		writeJSON(w, http.StatusNotFound, map[string]any{"error": map[string]any{"code": 404, "title": "Not Found",
			"message": "Could not find Application Credential: " + user + "."}})
		return
	}
	if want, known := s.opt.Users[user]; user == "" || secret == "" || !scoped || len(s.opt.Users) > 0 && (!known || want != secret) {
		unauthorized(w)
		return
	}
	key := "gAAAAA" + newID() + newID()
	project := s.project
	if p := body.Auth.Scope; p != nil && p.Project != nil {
		for _, other := range s.projects {
			if p.Project.Name == other.name || p.Project.ID == other.id {
				project = other
			}
		}
	}
	t := token{user: user, secret: secret, project: project.id, admin: slices.Contains(s.opt.Admins, user), ends: s.now().Add(s.opt.TokenLife)}
	role := "member"
	if t.admin {
		role = "admin"
	}
	s.tokens[key] = t
	w.Header().Set("X-Subject-Token", key)
	const stamp = "2006-01-02T15:04:05.000000Z"
	writeJSON(w, http.StatusCreated, map[string]any{"token": map[string]any{
		"methods": id.Methods, "expires_at": t.ends.Format(stamp), "issued_at": s.now().Format(stamp), "audit_ids": []string{newID()},
		"user":    map[string]any{"id": user, "name": user, "domain": map[string]any{"id": "default", "name": "Default"}},
		"project": map[string]any{"id": project.id, "name": project.name, "domain": map[string]any{"id": "default", "name": "Default"}},
		"roles":   []any{map[string]any{"id": role, "name": role}}, "catalog": s.catalog("http://" + r.Host),
	}})
}

func (s *Sim) catalog(base string) []any {
	var out []any
	for _, service := range []struct{ typ, name, path string }{
		{"compute", "nova", "/compute/v2.1"}, {"network", "neutron", "/network"}, {"image", "glance", "/image"},
		{"block-storage", "cinder", "/volume/v3"},
	} {
		if service.typ == "block-storage" && s.opt.NoVolumes {
			continue
		}
		var endpoints []any
		for _, r := range s.opt.Regions {
			for _, i := range []string{"public", "internal", "admin"} {
				endpoints = append(endpoints, map[string]any{"id": newID(), "interface": i, "region": r, "region_id": r, "url": base + "/" + r + service.path})
			}
		}
		out = append(out, map[string]any{"id": newID(), "type": service.typ, "name": service.name, "endpoints": endpoints})
	}
	return out
}

func (s *Sim) revoke(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tokens, r.Header.Get("X-Subject-Token"))
	w.WriteHeader(http.StatusNoContent)
}

// stamps of the services: compute and network have whole seconds, volumes
// microseconds and no zone.
func seconds(t time.Time) string { return t.Format("2006-01-02T15:04:05Z") }
func micros(t time.Time) string  { return t.Format("2006-01-02T15:04:05.000000") }

// orNull is null for no time.
func orNull(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return micros(t)
}
