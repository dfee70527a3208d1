package openstacksim

import (
	"net/http"
	"slices"
	"time"
)

// action is an entry of os-instance-actions, with the part of it that a compute
// host or the service itself does.
type action struct {
	name, request, user, project string
	start, updated               time.Time
	message                      string
	event                        string
	began, finished              time.Time // of the event
}

// begin notes that a host has started with it.
func (a *action) begin(now time.Time) { a.began, a.updated = now, now }

// finish notes how it ended.
func (a *action) finish(now time.Time, failed bool) {
	if a.began.IsZero() {
		a.began = now
	}
	a.finished, a.updated = now, now
	if failed {
		a.message = "Error"
	}
}

// note makes an entry for what the request asks for. Its id is the request's.
func (c *call) note(x *server, name, event string) *action {
	now := c.sim.now()
	a := &action{name: name, request: c.request, user: c.user, project: c.project, start: now, updated: now, event: event}
	x.actions = append([]*action{a}, x.actions...)
	return a
}

// noteDelete makes the entry for a delete. A resize that waits to be confirmed is
// confirmed first, by the same request.
func (c *call) noteDelete(x *server) {
	now := c.sim.now()
	if x.status == "VERIFY_RESIZE" {
		c.note(x, "confirmResize", "compute_confirm_resize").finish(now, false)
	}
	c.note(x, "delete", "compute_terminate_instance").begin(now)
}

// acted finds a server by the id in the path for its actions, which can be read
// after its end from 2.21 until the database is purged.
func (c *call) acted() *server {
	id := c.r.PathValue("id")
	x := c.server(id)
	if x == nil && c.speaks("2.21") {
		x = c.deleted(id)
	}
	if x == nil {
		c.notFound("Instance", id)
	}
	return x
}

// instanceActions is GET os-instance-actions. It has pages from 2.58, and their
// link has no name of its own.
func (c *call) instanceActions() {
	x := c.acted()
	if x == nil {
		return
	}
	list := x.actions
	if x.scheduling() {
		list = nil // they are noted when a host is found
	}
	var more bool
	if c.speaks("2.58") {
		allowed := []string{"limit", "marker", "changes-since"}
		if c.speaks("2.66") {
			allowed = append(allowed, "changes-before")
		}
		since, before, ok := c.changes()
		if !ok || !c.known(allowed, "Additional properties are not allowed ('%s' was unexpected)") {
			return
		}
		list = slices.DeleteFunc(slices.Clone(list), func(a *action) bool {
			return a.updated.Before(since) || !before.IsZero() && a.updated.After(before)
		})
		if m := c.query.Get("marker"); m != "" {
			at := slices.IndexFunc(x.actions, func(a *action) bool { return a.request == m })
			if at < 0 {
				c.fail(http.StatusBadRequest, "badRequest", "Marker None could not be found.")
				return
			}
			later := x.actions[at+1:]
			list = slices.DeleteFunc(list, func(a *action) bool { return !slices.Contains(later, a) })
		}
		limit, ok := c.limit(c.sim.opt.PageSize)
		if !ok {
			return
		}
		list = list[:min(limit, len(list))]
		more = limit > 0 && len(list) == limit
	}
	out := []any{}
	for _, a := range list {
		out = append(out, c.showAction(x, a))
	}
	doc := map[string]any{"instanceActions": out}
	if more {
		doc["links"] = c.next(list[len(list)-1].request)
	}
	c.answer(http.StatusOK, doc)
}

func (c *call) showAction(x *server, a *action) map[string]any {
	out := map[string]any{"action": a.name, "instance_uuid": x.id, "request_id": a.request, "user_id": a.user, "project_id": a.project,
		"start_time": micros(a.start), "message": nil}
	if a.message != "" {
		out["message"] = a.message
	}
	if c.speaks("2.58") {
		out["updated_at"] = micros(a.updated)
	}
	return out
}

// instanceAction is GET os-instance-actions/{request}. Its events are for everyone
// from 2.51.
func (c *call) instanceAction() {
	x := c.acted()
	if x == nil {
		return
	}
	id := c.r.PathValue("request")
	i := slices.IndexFunc(x.actions, func(a *action) bool { return a.request == id })
	if i < 0 {
		c.fail(http.StatusNotFound, "itemNotFound", "Action %s not found", id)
		return
	}
	a := x.actions[i]
	out := c.showAction(x, a)
	if c.speaks("2.51") || c.admin {
		out["events"] = c.events(a)
	}
	c.answer(http.StatusOK, map[string]any{"instanceAction": out})
}

func (c *call) events(a *action) []any {
	if a.began.IsZero() {
		return []any{}
	}
	e := map[string]any{"event": a.event, "start_time": micros(a.began), "finish_time": orNull(a.finished), "result": nil}
	if !a.finished.IsZero() {
		e["result"] = "Success"
		if a.message != "" {
			e["result"] = "Error"
		}
	}
	if c.speaks("2.62") {
		e["hostId"] = hostID
	}
	if c.admin {
		e["traceback"] = nil
		if c.speaks("2.84") {
			e["details"] = nil
		}
	}
	return []any{e}
}
