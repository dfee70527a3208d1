package simcloud

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacksim"
)

// orders are what a simulated OpenStack cloud was told to do: what can be undone
// is undone by the next order of its kind.
type orders struct {
	faults openstacksim.Faults

	mu   sync.Mutex
	undo map[string]func()
}

// set does or undoes one thing.
func (o *orders) set(what string, on bool, do func() (undo func())) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if undo := o.undo[what]; undo != nil {
		undo()
		delete(o.undo, what)
	}
	if on {
		if o.undo == nil {
			o.undo = map[string]func(){}
		}
		o.undo[what] = do()
	}
}

// handler serves the cloud, and under /_sim what it is told to do:
//
//	GET  /_sim/state      what exists
//	POST /_sim/hold       {builds, actions}: servers stay in BUILD; actions stay undone
//	POST /_sim/fail       {builds, actions, volumes}: the text of the fault; whether actions and volumes fail
//	POST /_sim/quota      {instances, ports, floatingIPs, volumeGB}, 0 for none
//	POST /_sim/nohost     {on}
//	POST /_sim/server     {name, status, fault}: puts a server into a state
//	POST /_sim/delete     {name}: deletes a server behind everybody's back
//	POST /_sim/expire     ends all tokens
//	POST /_sim/purge      forgets deleted servers
//	POST /_sim/faults     {kind, method, path, page, skip, times, status, message, retryAfter}
//	POST /_sim/clear      ends all faults
func (o *OpenStack) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", o.orders.faults.Wrap(o.sim))
	mux.HandleFunc("GET /_sim/state", o.state)
	for path, do := range map[string]http.HandlerFunc{"hold": o.hold, "fail": o.fail, "quota": o.quota, "nohost": o.noHost, "server": o.setServer,
		"delete": o.deleteServer, "faults": o.addFault,
		"expire": func(http.ResponseWriter, *http.Request) { o.sim.ExpireTokens() },
		"purge":  func(http.ResponseWriter, *http.Request) { o.sim.Purge() },
		"clear":  func(http.ResponseWriter, *http.Request) { o.orders.faults.Clear() },
	} {
		mux.HandleFunc("POST /_sim/"+path, func(w http.ResponseWriter, r *http.Request) {
			defer o.sim.Save()
			do(w, r)
		})
	}
	return mux
}

// state is a summary for people.
func (o *OpenStack) state(w http.ResponseWriter, _ *http.Request) {
	out := map[string][]map[string]any{}
	for _, x := range o.sim.Objects() {
		one := map[string]any{"id": x.ID}
		for k, v := range map[string]string{"name": x.Name, "status": x.Status, "fault": x.Fault, "description": x.Text, "on": x.On} {
			if v != "" {
				one[k] = v
			}
		}
		if len(x.Labels) > 0 {
			one["metadata"] = x.Labels
		}
		out[x.Kind+"s"] = append(out[x.Kind+"s"], one)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out) // the client may have gone
}

func (o *OpenStack) hold(w http.ResponseWriter, r *http.Request) {
	var in struct{ Builds, Actions bool }
	if read(w, r, &in) {
		o.orders.set("hold builds", in.Builds, o.sim.Hold)
		o.orders.set("hold actions", in.Actions, o.sim.HoldActions)
	}
}

func (o *OpenStack) fail(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Builds           string
		Actions, Volumes bool
	}
	if read(w, r, &in) {
		o.sim.FailBuilds(in.Builds)
		o.orders.set("fail actions", in.Actions, o.sim.FailActions)
		o.orders.set("fail volumes", in.Volumes, o.sim.FailVolumes)
	}
}

func (o *OpenStack) quota(w http.ResponseWriter, r *http.Request) {
	var in openstacksim.Quotas
	if read(w, r, &in) {
		o.sim.SetQuotas(in)
	}
}

func (o *OpenStack) noHost(w http.ResponseWriter, r *http.Request) {
	var in struct{ On bool }
	if read(w, r, &in) {
		o.orders.set("no host", in.On, o.sim.NoHost)
	}
}

// named finds a server by its name or id, and answers if there is none.
func (o *OpenStack) named(w http.ResponseWriter, name string) (id string, ok bool) {
	for _, x := range o.sim.Objects() {
		if x.Kind == "server" && (x.Name == name || x.ID == name) {
			return x.ID, true
		}
	}
	http.Error(w, fmt.Sprintf("name: there is no server %q; see /_sim/state", name), http.StatusNotFound)
	return "", false
}

func (o *OpenStack) setServer(w http.ResponseWriter, r *http.Request) {
	var in struct{ Name, Status, Fault string }
	if !read(w, r, &in) {
		return
	}
	if !openstacksim.IsStatus(in.Status) {
		http.Error(w, fmt.Sprintf("status: %q: want a state of a server, such as ERROR, SHUTOFF, PAUSED or ACTIVE", in.Status), http.StatusBadRequest)
		return
	}
	if id, ok := o.named(w, in.Name); ok {
		if err := o.sim.SetServer(id, in.Status, in.Fault); err != nil {
			http.Error(w, err.Error(), http.StatusNotFound) // it has just gone
		}
	}
}

func (o *OpenStack) deleteServer(w http.ResponseWriter, r *http.Request) {
	var in struct{ Name string }
	if !read(w, r, &in) {
		return
	}
	if id, ok := o.named(w, in.Name); ok {
		o.sim.RemoveServer(id)
	}
}

func (o *OpenStack) addFault(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Kind, Method, Path, Message, Name string
		Page, Skip, Times, Status         int
		RetryAfter                        string // a duration, such as 5s
	}
	if !read(w, r, &in) {
		return
	}
	var wait time.Duration
	if in.RetryAfter != "" {
		var err error
		if wait, err = time.ParseDuration(in.RetryAfter); err != nil {
			http.Error(w, fmt.Sprintf("retryAfter: %q: want a duration such as 5s", in.RetryAfter), http.StatusBadRequest)
			return
		}
	}
	_, err := o.orders.faults.TryAdd(openstacksim.Fault{Kind: openstacksim.FaultKind(in.Kind), Method: in.Method, Path: in.Path, Page: in.Page,
		Skip: in.Skip, Times: in.Times, Status: in.Status, Message: in.Message, Name: in.Name, RetryAfter: wait})
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
}
