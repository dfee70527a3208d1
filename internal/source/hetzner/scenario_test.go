package hetzner_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/internal/source/hetzner"
	"github.com/tollgate-dev/tollgate/internal/source/sourcetest"
)

func (p *platform) server(typ string) made {
	var m made
	p.api(http.MethodPost, "/servers", obj{"name": p.name("srv"), "server_type": typ, "image": "debian-13", "location": "fsn1"}, &m)
	return m
}

func (p *platform) do(path string, body obj) int64 {
	var m made
	p.api(http.MethodPost, path, body, &m)
	return m.Action.ID
}

// reader follows one kind and keeps what was read, as a receiver does.
type reader struct {
	t   *testing.T
	s   *hetzner.Source
	c   source.Cursor
	got map[string]event.Event
}

func (p *platform) reader(t *testing.T, kind event.ResourceType) *reader {
	r := &reader{t: t, got: map[string]event.Event{}}
	r.s = p.open(t, kind, credential(), r.known)
	return r
}

func credential() sourcetest.OpenOptions {
	return sourcetest.OpenOptions{Credential: provider.NewSensitive([]byte(project))}
}

// known is the receiver's word on sizes.
func (r *reader) known(_ context.Context, _ event.Platform, _ string, ask []event.Resource) (map[event.Resource]source.Reported, error) {
	out := map[event.Resource]source.Reported{}
	for _, res := range ask {
		for _, e := range r.got {
			have, ok := out[res]
			if e.Data.Resource.Type == res.Type && e.Data.Resource.ID == res.ID && len(e.Data.Size) > 0 && (!ok || have.Since.Before(e.Time)) {
				out[res] = source.Reported{Size: e.Data.Size, Since: e.Time}
			}
		}
	}
	return out, nil
}

func (r *reader) read() {
	r.t.Helper()
	for {
		p, err := r.s.Next(r.t.Context(), r.c)
		if err != nil {
			r.t.Fatal(err)
		}
		for _, i := range p.Items {
			if _, dup := r.got[i.Event.ID]; !dup {
				r.got[i.Event.ID] = i.Event
			}
		}
		if r.c = p.Next; p.CaughtUp {
			return
		}
	}
}

// lines are the events in their order, short.
func (r *reader) lines() (out []string) {
	all := []event.Event{}
	for _, e := range r.got {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b event.Event) int { return int(a.Data.Sequence - b.Data.Sequence) })
	for _, e := range all {
		line := strings.TrimSuffix(string(e.Type), ".end")
		for _, s := range []struct {
			word string
			size event.Size
		}{{"from", e.Data.PreviousSize}, {"size", e.Data.Size}} {
			if len(s.size) > 0 {
				line += " " + s.word
				for _, v := range s.size.All() {
					line += " " + v.String()
				}
			}
		}
		if len(e.Data.UnknownSize) > 0 {
			line += " unknown"
		}
		out = append(out, line)
	}
	return out
}

// A day of a project, read now and then: old and new sizes, the size of what is
// gone, and one that nobody can know.
func TestADay(t *testing.T) {
	t.Parallel()
	p := newPlatform(t)
	servers, volumes := p.reader(t, event.Server), p.reader(t, event.Volume)
	balancers, addresses := p.reader(t, event.LoadBalancer), p.reader(t, event.FloatingIP)
	read := func() {
		// Times have whole seconds: each read is of a later one.
		p.mu.Lock()
		p.later += 2 * time.Second
		p.mu.Unlock()
		for _, r := range []*reader{servers, volumes, balancers, addresses} {
			r.read()
		}
	}
	read()
	srv := p.server("cx23").Server.ID
	vol := p.volume(10).Volume.ID
	var lb, ip made
	p.api(http.MethodPost, "/load_balancers", obj{"name": "lb", "load_balancer_type": "lb11", "location": "fsn1"}, &lb)
	p.api(http.MethodPost, "/floating_ips", obj{"type": "ipv4", "home_location": "fsn1", "name": "ip"}, &ip)
	read()
	p.do(fmt.Sprintf("/servers/%d/actions/poweroff", srv), nil)
	read()
	p.do(fmt.Sprintf("/servers/%d/actions/change_type", srv), obj{"server_type": "cx33", "upgrade_disk": false})
	p.do(fmt.Sprintf("/volumes/%d/actions/resize", vol), obj{"size": 20})
	p.do(fmt.Sprintf("/load_balancers/%d/actions/add_target", lb.Balancer.ID), obj{"type": "server", "server": obj{"id": srv}})
	read()
	p.do(fmt.Sprintf("/servers/%d/actions/change_type", srv), obj{"server_type": "cx23", "upgrade_disk": false})
	read()
	p.do(fmt.Sprintf("/servers/%d/actions/poweron", srv), nil)
	p.do(fmt.Sprintf("/load_balancers/%d/actions/remove_target", lb.Balancer.ID), obj{"type": "server", "server": obj{"id": srv}})
	read()
	p.api(http.MethodDelete, fmt.Sprintf("/servers/%d", srv), nil, nil)
	p.api(http.MethodDelete, fmt.Sprintf("/load_balancers/%d", lb.Balancer.ID), nil, nil)
	short := p.server("cx23").Server.ID
	p.api(http.MethodDelete, fmt.Sprintf("/servers/%d", short), nil, nil)
	read()
	for _, tc := range []struct {
		r    *reader
		want []string
	}{
		{servers, []string{
			"server.create size 40 4 cx23 2", "server.power_on", "server.power_off",
			"server.upgrade from 40 4 cx23 2 size 40 8 cx33 4", "server.downgrade from 40 8 cx33 4 size 40 4 cx23 2", "server.power_on",
			"server.delete size 40 4 cx23 2", "server.create unknown", "server.power_on", "server.delete unknown",
		}},
		{volumes, []string{"volume.create size 10", "volume.resize from 10 size 20"}},
		{balancers, []string{
			"load_balancer.create size 0 lb11", "load_balancer.add_target from 0 lb11 size 1 lb11",
			"load_balancer.remove_target from 1 lb11 size 0 lb11", "load_balancer.delete size 0 lb11",
		}},
		{addresses, []string{"floating_ip.create size 4 ipv4"}},
	} {
		if diff := cmp.Diff(tc.r.lines(), tc.want); diff != "" {
			t.Errorf("events (-got +want):\n%s", diff)
		}
	}
}

// A receiver that cannot be asked gets the sizes of what is gone from the cache,
// also of what was there before the source was built.
func TestSizesWithoutAReceiverToAsk(t *testing.T) {
	t.Parallel()
	p := newPlatform(t)
	srv := p.server("cx23").Server.ID
	first := p.reader(t, event.Server)
	first.read()
	again := &reader{t: t, got: map[string]event.Event{}, c: first.c, s: p.open(t, event.Server, credential(), nil)}
	again.read() // a new process, which lists what exists
	p.api(http.MethodDelete, fmt.Sprintf("/servers/%d", srv), nil, nil)
	again.read()
	if diff := cmp.Diff(again.lines(), []string{"server.delete size 40 4 cx23 2"}); diff != "" {
		t.Errorf("events (-got +want):\n%s", diff)
	}
}

// Whatever is done in whatever order, with reads, restarts and rewinds anywhere in
// between, the ids are the same as those of one read at the end.
func TestAnyInterleavingGivesTheSameIDs(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 7))
		p := newPlatform(t)
		kinds := []event.ResourceType{event.Server, event.Volume, event.LoadBalancer, event.FloatingIP}
		readers := map[event.ResourceType]*reader{}
		for _, k := range kinds {
			readers[k] = p.reader(t, k)
		}
		var live, off []int64
		var volumes []made
		var finish []func() []string
		start := p.ours().Add(-time.Hour)
		for range 80 {
			switch rng.IntN(10) {
			case 0:
				live = append(live, p.server("cx23").Server.ID)
			case 1:
				if n := len(live); n > 0 {
					i := rng.IntN(n)
					p.do(fmt.Sprintf("/servers/%d/actions/poweroff", live[i]), nil)
					off, live = append(off, live[i]), slices.Delete(live, i, i+1)
				}
			case 2:
				if n := len(off); n > 0 {
					p.api(http.MethodDelete, fmt.Sprintf("/servers/%d", off[n-1]), nil, nil)
					off = off[:n-1]
				}
			case 3:
				volumes = append(volumes, p.volume(10))
			case 4:
				if n := len(volumes); n > 0 {
					p.do(fmt.Sprintf("/volumes/%d/actions/resize", volumes[n-1].Volume.ID), obj{"size": 20})
					volumes = volumes[:n-1]
				}
			case 5:
				finish = append(finish, p.Begin(t))
			case 6:
				if n := len(finish); n > 0 {
					finish[n-1]()
					finish = finish[:n-1]
				}
			case 7:
				p.api(http.MethodPost, "/floating_ips", obj{"type": "ipv6", "home_location": "fsn1", "name": p.name("ip")}, nil)
			case 8: // a restart, perhaps with a rewind
				k := kinds[rng.IntN(len(kinds))]
				readers[k].s = p.open(t, k, credential(), readers[k].known)
				if rng.IntN(2) == 0 {
					c, err := readers[k].s.Seek(t.Context(), start)
					if err != nil {
						t.Fatal(err)
					}
					readers[k].c = c
				}
			default:
				readers[kinds[rng.IntN(len(kinds))]].read()
			}
		}
		for _, f := range finish {
			f()
		}
		for _, k := range kinds {
			readers[k].read()
			whole := p.reader(t, k)
			whole.read()
			if diff := cmp.Diff(sortedIDs(readers[k].got), sortedIDs(whole.got)); diff != "" {
				t.Errorf("seed %d, %s (-read in between +read at the end):\n%s", seed, k, diff)
			}
		}
	}
}

func sortedIDs(m map[string]event.Event) []string {
	out := []string{}
	for id := range m {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

// A quiet kind costs one request per read, floating IPs two.
func TestRequestsWhenNothingHappens(t *testing.T) {
	t.Parallel()
	p := newPlatform(t)
	for kind, want := range map[event.ResourceType]int{event.Volume: 1, event.FloatingIP: 2} {
		r := p.reader(t, kind)
		r.read()
		p.ForgetRequests()
		for range 10 {
			r.read()
		}
		if n := len(p.Requests()); n != 10*want {
			t.Errorf("%s: %d requests for ten reads, want %d", kind, n, 10*want)
		}
	}
}
