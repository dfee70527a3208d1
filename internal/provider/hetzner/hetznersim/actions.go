package hetznersim

import (
	"maps"
	"slices"
	"strconv"
	"time"
)

// Status words of an action.
const (
	running = "running"
	success = "success"
	failed  = "error"
)

// resource names an object in an action.
type resource struct {
	Type string `json:"type"`
	ID   int64  `json:"id"`
}

// actionError is how an action fails.
type actionError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// action is a task that ends at an absolute time. Its effect is a function of
// its command and arguments, so that the state can be written to a file.
type action struct {
	ID       int64        `json:"id"`
	Command  string       `json:"command"`
	Status   string       `json:"status"`
	Started  time.Time    `json:"started"`
	EndsAt   time.Time    `json:"endsAt"`
	Finished time.Time    `json:"finished,omitzero"`
	On       []resource   `json:"resources"`
	Err      *actionError `json:"error,omitempty"`
	// Fails is the planned outcome; nil means success.
	Fails *actionError `json:"fails,omitempty"`
	Args  actionArgs   `json:"args,omitzero"`
	// Hidden ones are timers of the simulator and appear nowhere.
	Hidden bool `json:"hidden,omitempty"`
}

// actionArgs are what the effects of commands need.
type actionArgs struct {
	// BeginsAt is when the effect begins to show; before it, a preceding action
	// runs.
	BeginsAt time.Time `json:"beginsAt,omitzero"`
	Other    int64     `json:"other,omitempty"` // the counterpart: a server, a volume
	Text     string    `json:"text,omitempty"`  // a type's name, an address, a network
	Size     int       `json:"size,omitempty"`
	Off      bool      `json:"off,omitempty"` // leave the server switched off
}

// start begins an action that takes d.
func (c *call) start(command string, d time.Duration, args actionArgs, on ...resource) *action {
	return c.startAt(command, c.now, d, args, on...)
}

func (c *call) startAt(command string, at time.Time, d time.Duration, args actionArgs, on ...resource) *action {
	if at.After(c.now) {
		args.BeginsAt = at
	}
	a := &action{ID: c.s.id(), Command: command, Status: running, Started: c.now, EndsAt: at.Add(d), On: on,
		Args: args, Fails: c.fails(command)}
	c.p.Actions[a.ID] = a
	c.p.running[a.ID] = a
	return a
}

// view is the action in an answer. Progress grows with time; it is 100 at the
// end only.
func (a *action) view(now time.Time) obj {
	progress := 100
	if a.Status == running {
		progress = 0
		if total := a.EndsAt.Sub(a.Started); total > 0 {
			progress = min(99, int(100*now.Sub(a.Started)/total))
		}
	}
	res := make([]obj, 0, len(a.On))
	for _, r := range a.On {
		res = append(res, obj{"id": r.ID, "type": r.Type})
	}
	v := obj{"id": a.ID, "command": a.Command, "status": a.Status, "progress": progress, "started": stamp(a.Started),
		"finished": stampOrNil(a.Finished), "resources": res, "error": nil}
	if a.Err != nil {
		v["error"] = obj{"code": a.Err.Code, "message": a.Err.Message}
	}
	return v
}

func (c *call) views(actions ...*action) []obj {
	out := make([]obj, 0, len(actions))
	for _, a := range actions {
		out = append(out, a.view(c.now))
	}
	return out
}

// answer is the usual 201 with one action.
func (c *call) answer(a *action) (int, any, error) { return 201, obj{"action": a.view(c.now)}, nil }

// locked reports whether an action is running on the object.
func (p *project) locked(kind string, id int64) bool {
	for _, a := range p.running {
		if !a.Hidden && slices.Contains(a.On, resource{kind, id}) {
			return true
		}
	}
	return false
}

// lockedErr is the answer for an object that is locked, nil when it is not.
func (p *project) lockedErr(kind string, id int64) error {
	if p.locked(kind, id) {
		return fail("locked", "%s is locked: an action is running", kind)
	}
	return nil
}

// advance applies everything that has come due, in the order in which it did.
func (s *Sim) advance(now time.Time) {
	for {
		p, a := s.nextDue(now)
		if a == nil {
			return
		}
		s.touched()
		a.Finished = a.EndsAt
		delete(p.running, a.ID)
		if a.Fails != nil {
			a.Status, a.Err = failed, a.Fails
			s.failEffect(p, a)
			continue
		}
		a.Status = success
		s.effect(p, a)
		if a.Hidden {
			delete(p.Actions, a.ID)
		}
	}
}

func (s *Sim) nextDue(now time.Time) (*project, *action) {
	p, a := s.nextRunning()
	if a == nil || a.EndsAt.After(now) {
		return nil, nil
	}
	return p, a
}

// nextRunning is the running action that ends first.
func (s *Sim) nextRunning() (owner *project, first *action) {
	for _, token := range s.tokens() {
		p := s.st.Projects[token]
		for _, a := range p.running {
			if s.held[a.Command] {
				continue
			}
			if first == nil || a.EndsAt.Before(first.EndsAt) || a.EndsAt.Equal(first.EndsAt) && a.ID < first.ID {
				owner, first = p, a
			}
		}
	}
	return owner, first
}

// schedule arms a timer for the next end of an action when something real has
// to happen then. It follows the simulator's clock at its usual pace.
func (s *Sim) schedule() {
	if s.opts.Backend == nil || s.closed {
		return
	}
	_, a := s.nextRunning()
	if a == nil {
		return
	}
	wait := max(time.Millisecond, a.EndsAt.Sub(s.now()))
	if s.timer != nil {
		s.timer.Stop()
	}
	s.timer = time.AfterFunc(wait, s.Advance)
}

// Endpoints.

var actionStatuses = []string{running, success, failed}

func actionListRules() listRules {
	return listRules{key: "actions", sort: []string{"id", "command", "status", "started", "finished"},
		statuses: actionStatuses, extra: []string{"id"}}
}

func (c *call) listActions(keep func(*action) bool) (int, any, error) {
	wanted, err := queryIDs(c.r.URL.Query()["id"])
	if err != nil {
		return 0, nil, err
	}
	var views []view
	for _, id := range slices.Sorted(maps.Keys(c.p.Actions)) {
		a := c.p.Actions[id]
		if a.Hidden || !keep(a) || len(wanted) > 0 && !slices.Contains(wanted, id) {
			continue
		}
		const sortable = "20060102150405.000000000"
		views = append(views, view{id: id, status: a.Status, body: a.view(c.now), keys: map[string]string{
			"command": a.Command, "started": a.Started.UTC().Format(sortable), "finished": a.Finished.UTC().Format(sortable)}})
	}
	return c.list(actionListRules(), views)
}

func queryIDs(texts []string) ([]int64, error) {
	var out []int64
	for _, t := range texts {
		id, err := strconv.ParseInt(t, 10, 64)
		if err != nil || id < 1 {
			return nil, invalid("id", "%q is not an id", t)
		}
		out = append(out, id)
	}
	return out, nil
}

// globalActions is GET /actions: without ids it is gone since 2025-01-30.
func globalActions(c *call) (int, any, error) {
	ids, err := queryIDs(c.r.URL.Query()["id"])
	if err != nil {
		return 0, nil, err
	}
	if len(ids) == 0 {
		return 0, nil, gone("https://docs.hetzner.cloud/changelog#2025-01-30-listing-arbitrary-actions-in-the-actions-list-endpoint-is-removed")
	}
	found := []obj{}
	for _, id := range ids {
		if a, ok := c.action(id); ok {
			found = append(found, a.view(c.now))
		}
	}
	return 200, obj{"actions": found}, nil
}

// gone is the answer of an endpoint that was taken away.
func gone(announcement string) error {
	e := fail("deprecated_api_endpoint", "API functionality was removed")
	e.Details = obj{"announcement": announcement}
	return e
}

func getAction(c *call) (int, any, error) {
	id := c.ids[len(c.ids)-1]
	a, ok := c.action(id)
	if !ok {
		return 0, nil, notFound("action", id)
	}
	return 200, obj{"action": a.view(c.now)}, nil
}

// kindActions lists the actions of all objects of a kind, the deleted ones
// included.
func kindActions(kind string) handler {
	return func(c *call) (int, any, error) {
		keep := func(a *action) bool {
			return slices.ContainsFunc(a.On, func(r resource) bool { return r.Type == kind })
		}
		if kind != "server" || c.s.opts.Past.Actions == 0 || c.r.URL.Query().Has("id") {
			return c.listActions(keep)
		}
		var kept []*action
		for _, id := range slices.Sorted(maps.Keys(c.p.Actions)) {
			if a := c.p.Actions[id]; !a.Hidden && keep(a) {
				kept = append(kept, a)
			}
		}
		return c.listPast(kept)
	}
}

func objectActions(kind string) handler {
	return func(c *call) (int, any, error) {
		return c.listActions(func(a *action) bool { return slices.Contains(a.On, resource{kind, c.ids[0]}) })
	}
}
