package hetznersim

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// adminPath is where the simulator itself is told what to do. It asks for no
// token: a simulator listens on loopback.
const adminPath = "/_sim/"

// adminRequest is the body of every POST under /_sim/: each path uses its own
// fields.
type adminRequest struct {
	Fault    Fault  `json:"fault"`
	ID       int    `json:"id"`
	Token    string `json:"token"`
	Name     string `json:"name"`
	Kind     string `json:"kind"`
	Limit    int    `json:"limit"`
	Count    int    `json:"count"`
	Location string `json:"location"`
	Type     string `json:"type"`
	Hidden   bool   `json:"hidden"`
	// Now is where the clock is moved to.
	Now time.Time `json:"now"`
}

// serveAdmin answers:
//
//	GET  /_sim/state                 servers and budgets per project
//	GET  /_sim/requests              the log of requests
//	GET  /_sim/user_data?id=         a server's user data, byte for byte
//	POST /_sim/projects              {name, token}
//	POST /_sim/faults                {fault}, answers {id}
//	POST /_sim/faults/remove         {id}
//	POST /_sim/faults/clear
//	POST /_sim/sellout, /_sim/sellin {location, type, hidden}
//	POST /_sim/limits                {token, kind, limit}
//	POST /_sim/spend                 {token, count}
//	POST /_sim/clock                 {now}, of a simulator whose clock can be set
func (s *Sim) serveAdmin(w http.ResponseWriter, r *http.Request) {
	answer, err := s.admin(r)
	status := http.StatusOK
	if err != nil {
		status, answer = http.StatusBadRequest, obj{"error": err.Error()}
	}
	if raw, ok := answer.([]byte); ok {
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = w.Write(raw)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer)
}

func (s *Sim) admin(r *http.Request) (any, error) {
	what := r.Method + " /" + r.URL.Path[len(adminPath):]
	var req adminRequest
	if r.Method == http.MethodPost {
		dec := json.NewDecoder(http.MaxBytesReader(nil, r.Body, maxBody))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&req); err != nil {
			return nil, fmt.Errorf("reading the request: %w", err)
		}
	}
	ok := obj{}
	switch what {
	case "GET /state":
		return s.stateView(), nil
	case "GET /requests":
		return s.Requests(), nil
	case "GET /user_data":
		id, _ := strconv.ParseInt(r.URL.Query().Get("id"), 10, 64)
		data, found := s.UserData(id)
		if !found {
			return nil, fmt.Errorf("id %q: no such server", r.URL.Query().Get("id"))
		}
		return []byte(data), nil
	case "POST /projects":
		if req.Token == "" {
			return nil, errors.New("token is required")
		}
		s.AddProject(req.Name, req.Token)
	case "POST /faults":
		if err := req.Fault.check(); err != nil {
			return nil, err
		}
		return obj{"id": s.AddFault(req.Fault)}, nil
	case "POST /faults/remove":
		s.RemoveFault(req.ID)
	case "POST /faults/clear":
		s.ClearFaults()
	case "POST /sellout":
		s.SellOut(req.Location, req.Type, req.Hidden)
	case "POST /sellin":
		s.SellIn(req.Location, req.Type)
	case "POST /limits":
		s.SetLimit(req.Token, req.Kind, req.Limit)
	case "POST /spend":
		s.Spend(req.Token, req.Count)
	case "POST /clock":
		return ok, s.setClock(req.Now)
	default:
		return nil, fmt.Errorf("%s: unknown; see the documentation of the simulator", what)
	}
	return ok, nil
}

func (s *Sim) setClock(now time.Time) error {
	if s.opts.Clock == nil {
		return errors.New("the clock of this simulator cannot be set: it shows the real time")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.opts.Clock.Set(now); err != nil {
		return err
	}
	s.advance(s.now())
	s.touched()
	s.schedule()
	return nil
}

// stateView is a summary for people.
func (s *Sim) stateView() obj {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	s.advance(now)
	projects := []obj{}
	for _, token := range s.tokens() {
		p := s.st.Projects[token]
		p.Bucket.refill(now)
		servers := []obj{}
		for _, v := range p.Servers.all() {
			servers = append(servers, obj{"id": v.ID, "name": v.Name, "status": v.Status, "ip": p.address(v).String(),
				"labels": labelsOf(v.Labels), "user_data_bytes": len(v.UserData)})
		}
		projects = append(projects, obj{"name": p.Name, "requests_left": int(p.Bucket.Left), "servers": servers,
			"volumes": len(p.Volumes.Live), "primary_ips": len(p.Primary.Live), "floating_ips": len(p.Floating.Live),
			"firewalls": len(p.Firewalls.Live), "networks": len(p.Networks.Live), "ssh_keys": len(p.Keys.Live),
			"load_balancers": len(p.Balancers.Live), "actions_running": len(p.running)})
	}
	return obj{"now": stamp(now), "projects": projects}
}
