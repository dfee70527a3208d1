package openstack_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/openstack/cloud"
	"github.com/tollgate-dev/tollgate/internal/openstack/cloudtest"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacksim"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/internal/source/openstack"
	"github.com/tollgate-dev/tollgate/internal/source/sourcetest"
)

const pageSize = 4

type obj = map[string]any

// platform is a project of a cloud, simulated or real, as its user works in it. The
// source looks at it through a window that breaks, and that changes what entries
// look like.
type platform struct {
	*cloudtest.Project
	*openstacksim.Faults
	kind   event.ResourceType
	sim    *openstacksim.Sim // nil for the real one
	flavor map[string]string
	image  string
	nets   map[string]string

	mu sync.Mutex
	// skew is how far the cloud's clock is off from ours, which is later than the
	// machine's by later.
	skew, later time.Duration
	alive       []string // in the order of their making
	held        []string
	edit        map[string]func(obj)
	twice       bool
	during      func()
	seq         int
}

// simulated is a new simulated cloud.
func simulated(tb testing.TB, kind event.ResourceType, change func(*openstacksim.Options)) *platform {
	tb.Helper()
	p := &platform{kind: kind, Faults: &openstacksim.Faults{}, edit: map[string]func(obj){}}
	o := openstacksim.Options{Now: p.clock, PageSize: pageSize, TokenLife: 1000 * time.Hour}
	if change != nil {
		change(&o)
	}
	p.sim = openstacksim.New(o)
	srv := httptest.NewServer(p.sim)
	tb.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	p.Project = cloudtest.LogIn(tb, srv.URL+"/identity/v3", "demo", "any", "demo")
	p.Compute = o.Microversion
	p.learn(tb)
	return p
}

func (p *platform) clock() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Add(p.later + p.skew)
}

func (p *platform) ours() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Add(p.later)
}

func (p *platform) compute(path string) string { return p.URLs["compute"] + path }
func (p *platform) volumes(path string) string {
	return cmp.Or(p.URLs["block-storage"], p.URLs["volumev3"]) + path
}
func (p *platform) network(path string) string {
	return strings.TrimSuffix(p.URLs["network"], "/v2.0") + "/v2.0" + path
}

// learn reads what servers are made of.
func (p *platform) learn(tb testing.TB) {
	tb.Helper()
	type named struct{ ID, Name string }
	var doc struct{ Flavors, Images, Networks []named }
	p.Do(tb, "GET", p.compute("/flavors/detail"), nil, &doc)
	p.Do(tb, "GET", strings.TrimSuffix(p.URLs["image"], "/v2")+"/v2/images?name=cirros", nil, &doc)
	p.Do(tb, "GET", p.network("/networks"), nil, &doc)
	p.flavor, p.nets = map[string]string{}, map[string]string{}
	for _, f := range doc.Flavors {
		p.flavor[f.Name] = f.ID
	}
	for _, n := range doc.Networks {
		p.nets[n.Name] = n.ID
	}
	p.image = doc.Images[0].ID
}

// open builds the source of the kind.
func (p *platform) open(tb testing.TB, o sourcetest.OpenOptions, change func(*openstack.Options, *source.Config)) *openstack.Source {
	tb.Helper()
	if o.Credential.Len() == 0 {
		o.Credential = provider.NewSensitive([]byte("any"))
	}
	opt := openstack.Options{
		Access: cloud.Access{Auth: cloud.Auth{URL: p.Identity, Username: p.user(), Project: p.Name, Password: "password"}},
		Kinds:  []string{string(p.kind)}, PageSize: pageSize,
	}
	cfg := source.Config{
		Name: cmp.Or(o.Name, "test"), Account: sourcetest.Account, Logger: o.Logger,
		Secret: func(context.Context, string) (provider.Sensitive, error) { return o.Credential, nil },
		Transport: func(http.RoundTripper, string) http.RoundTripper {
			return &window{p, p.Faults.Transport(http.DefaultTransport)}
		},
	}
	if change != nil {
		change(&opt, &cfg)
	}
	cfg.Decode = func(into any) error {
		*into.(*openstack.Options) = opt
		return nil
	}
	list, err := openstack.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	list[0].SetClock(p.ours)
	list[0].SetPages(1)
	return list[0]
}

func (p *platform) user() string {
	if p.sim != nil {
		return "demo"
	}
	return p.Name
}

// window changes answers on their way to the source.
type window struct {
	p    *platform
	next http.RoundTripper
}

func (w *window) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := w.next.RoundTrip(r)
	if err != nil || resp.StatusCode != http.StatusOK {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		return nil, err
	}
	w.p.mu.Lock()
	body = w.p.seen(body)
	f := w.p.during
	if !strings.Contains(r.URL.Path, "/auth/") {
		w.p.during = nil
	} else {
		f = nil
	}
	w.p.mu.Unlock()
	if f != nil {
		f()
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	resp.Header.Set("Content-Length", fmt.Sprint(len(body)))
	return resp, nil
}

// seen is an answer as it looks through the window.
func (p *platform) seen(body []byte) []byte {
	var doc obj
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if d.Decode(&doc) != nil || len(p.edit) == 0 && !p.twice {
		return body
	}
	change := func(x any) {
		if one, ok := x.(obj); ok {
			if f := p.edit[fmt.Sprint(one["id"])]; f != nil {
				f(one)
			}
		}
	}
	for _, key := range []string{"server", "volume", "floatingip"} {
		change(doc[key])
		if all, ok := doc[key+"s"].([]any); ok {
			var out []any
			for _, x := range all {
				change(x)
				if out = append(out, x); p.twice {
					out = append(out, x)
				}
			}
			doc[key+"s"] = append([]any{}, out...)
		}
	}
	out, err := json.Marshal(doc)
	if err != nil {
		return body
	}
	return out
}

func (p *platform) name() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seq++
	return fmt.Sprintf("thing-%d", p.seq)
}

// next is the name that the next thing will have.
func (p *platform) next() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Sprintf("thing-%d", p.seq+1)
}

func (p *platform) made(id string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.alive = append(p.alive, id)
	return id
}

// create makes a server, a volume or a floating IP, and does not wait.
func (p *platform) create(tb testing.TB, metadata obj) string {
	tb.Helper()
	var doc struct{ Server, Volume, FloatingIP struct{ ID string } }
	switch p.kind {
	case event.Server:
		s := obj{"name": p.name(), "flavorRef": p.flavor["m1.tiny"], "imageRef": p.image, "networks": []obj{{"uuid": p.nets["private"]}}}
		if p.sim == nil {
			s["networks"] = "none"
		}
		if metadata != nil {
			s["metadata"] = metadata
		}
		p.Do(tb, "POST", p.compute("/servers"), obj{"server": s}, &doc)
		return p.made(doc.Server.ID)
	case event.Volume:
		p.Do(tb, "POST", p.volumes("/volumes"), obj{"volume": obj{"name": p.name(), "size": 1}}, &doc)
		return p.made(doc.Volume.ID)
	}
	p.Do(tb, "POST", p.network("/floatingips"), obj{"floatingip": obj{"floating_network_id": p.nets["public"]}}, &doc)
	return p.made(doc.FloatingIP.ID)
}

// path is where a thing is.
func (p *platform) path(id string) string {
	switch p.kind {
	case event.Server:
		return p.compute("/servers/" + id)
	case event.Volume:
		return p.volumes("/volumes/" + id)
	}
	return p.network("/floatingips/" + id)
}

type thing struct {
	Status string
	Task   *string `json:"OS-EXT-STS:task_state"`
	Flavor struct {
		Name string `json:"original_name"`
	}
}

func (p *platform) get(tb testing.TB, id string) (thing, bool) {
	tb.Helper()
	var doc struct{ Server, Volume, FloatingIP thing }
	there := p.Do(tb, "GET", p.path(id), nil, &doc)
	return cmp.Or(doc.Server, doc.Volume, doc.FloatingIP), there
}

// settled waits until a thing is in one of these states, and busy with nothing.
func (p *platform) settled(tb testing.TB, id string, states ...string) {
	tb.Helper()
	if p.kind == event.FloatingIP {
		return
	}
	cloudtest.Until(tb, fmt.Sprintf("%s is %v", id, states), func() bool {
		x, there := p.get(tb, id)
		return there && x.Task == nil && slices.Contains(states, x.Status)
	})
}

func (p *platform) born(id string) []string { return []string{p.event(id, event.ChangeCreate)} }

func (p *platform) event(id, change string) string {
	return event.ID(openstack.TypeName, sourcetest.Account, event.Resource{Type: p.kind, ID: id}, change)
}

// Change implements sourcetest.Backend.
func (p *platform) Change(tb testing.TB) []string {
	id := p.create(tb, nil)
	p.settled(tb, id, "ACTIVE", "available")
	return p.born(id)
}

// PageSize implements sourcetest.Backend.
func (p *platform) PageSize(testing.TB) int { return pageSize }

// During implements sourcetest.Interposer.
func (p *platform) During(_ testing.TB, f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.during = f
}

// Exists implements sourcetest.Keeper.
func (p *platform) Exists(testing.TB) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.alive)
}

// Remove implements sourcetest.Keeper.
func (p *platform) Remove(tb testing.TB) {
	p.mu.Lock()
	id := p.alive[0]
	p.mu.Unlock()
	p.remove(tb, id)
}

func (p *platform) remove(tb testing.TB, id string) {
	tb.Helper()
	p.Do(tb, "DELETE", p.path(id), nil, nil)
	cloudtest.Until(tb, id+" is gone", func() bool { _, there := p.get(tb, id); return !there })
	p.mu.Lock()
	defer p.mu.Unlock()
	p.alive = slices.DeleteFunc(p.alive, func(a string) bool { return a == id })
}

// Spoil implements sourcetest.Spoiler.
func (p *platform) Spoil(testing.TB) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.edit[p.alive[0]] = func(x obj) {
		for k := range x {
			if k != "id" {
				delete(x, k)
			}
		}
	}
}

// Repeat implements sourcetest.Repeater.
func (p *platform) Repeat(testing.TB) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.twice = true
}

// Poison implements sourcetest.Poisoner.
func (p *platform) Poison(tb testing.TB) {
	id := p.create(tb, nil)
	p.settled(tb, id, "ACTIVE", "available")
	p.mu.Lock()
	defer p.mu.Unlock()
	p.edit[id] = func(x obj) { x["created"], x["created_at"], x["status"] = "yesterday", "yesterday", nil }
}
