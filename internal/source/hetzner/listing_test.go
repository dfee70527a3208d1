package hetzner_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/internal/source/sourcetest"
)

// resources answers what is not about actions, on small pages, and without what
// is spoiled.
func (p *platform) resources(w http.ResponseWriter, r *http.Request) {
	r = r.Clone(r.Context())
	q := r.URL.Query()
	if n, err := strconv.Atoi(q.Get("per_page")); err == nil && n > pageSize {
		q.Set("per_page", strconv.Itoa(pageSize))
		r.URL.RawQuery = q.Encode()
	}
	p.mu.Lock()
	spoil := p.spoil
	p.mu.Unlock()
	if spoil == nil {
		p.Sim.ServeHTTP(w, r)
		return
	}
	rec := httptest.NewRecorder()
	p.Sim.ServeHTTP(rec, r)
	var body map[string]any
	if err := json.Unmarshal(rec.Body.Bytes(), &body); err != nil {
		p.tb.Error(err)
	}
	for _, v := range body {
		list, _ := v.([]any)
		for i := range list {
			if o, ok := list[i].(obj); ok {
				list[i] = spoil(o)
			}
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(rec.Code)
	_ = json.NewEncoder(w).Encode(body)
}

// setSpoil changes what every listed object looks like; what comes of it may be
// anything, nil too.
func (p *platform) setSpoil(f func(obj) any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spoil = f
}

func (p *platform) ids(kind string) (ids []string) {
	for page := 1; page > 0; {
		var body map[string]json.RawMessage
		p.api(http.MethodGet, fmt.Sprintf("/%ss?per_page=50&page=%d", kind, page), nil, &body)
		var list []struct{ ID int64 }
		var meta struct {
			Pagination struct {
				Next int `json:"next_page"`
			}
		}
		if err := json.Unmarshal(body[kind+"s"], &list); err != nil {
			p.tb.Fatal(err)
		}
		if err := json.Unmarshal(body["meta"], &meta); err != nil {
			p.tb.Fatal(err)
		}
		for _, x := range list {
			ids = append(ids, fmt.Sprint(x.ID))
		}
		page = meta.Pagination.Next
	}
	return ids
}

// Exists implements sourcetest.Keeper.
func (p *platform) Exists(testing.TB) []string { return p.ids("volume") }

// Remove implements sourcetest.Keeper.
func (p *platform) Remove(testing.TB) {
	p.api(http.MethodDelete, "/volumes/"+p.ids("volume")[0], nil, nil)
}

// Spoil implements sourcetest.Spoiler.
func (p *platform) Spoil(testing.TB) {
	oldest := p.ids("volume")[0]
	p.setSpoil(func(o obj) any {
		if fmt.Sprint(int64(o["id"].(float64))) != oldest {
			return o
		}
		for k := range o {
			if k != "id" {
				o[k] = nil
			}
		}
		return o
	})
}

func list(t *testing.T, p *platform, kind event.ResourceType) (source.Snapshot, error) {
	t.Helper()
	return p.open(t, kind, sourcetest.OpenOptions{Credential: provider.NewSensitive([]byte("token"))}, nil).List(t.Context())
}

func mustList(t *testing.T, p *platform, kind event.ResourceType) source.Snapshot {
	t.Helper()
	s, err := list(t, p, kind)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// What the vendor sends of each kind is shown: sizes, state, marks, prices.
func TestListKinds(t *testing.T) {
	t.Parallel()
	p := newPlatform(t)
	marks := provider.Marks{UID: "u", Installation: "one", Namespace: "n", Proxy: "p"}
	var m made
	p.api(http.MethodPost, "/servers", obj{"name": "box", "server_type": "cx23", "image": "ubuntu-24.04", "location": "fsn1", "labels": marks.Labels()}, &m)
	p.api(http.MethodPost, "/servers", obj{"name": "dark", "server_type": "cx23", "image": "ubuntu-24.04", "location": "fsn1", "start_after_create": false}, nil)
	p.volume(10)
	p.api(http.MethodPost, "/floating_ips", obj{"type": "ipv4", "home_location": "fsn1", "name": "ip"}, nil)
	p.api(http.MethodPost, "/load_balancers", obj{"load_balancer_type": "lb11", "name": "lb", "location": "fsn1", "algorithm": obj{"type": "round_robin"}}, nil)

	s := mustList(t, p, event.Server)
	if len(s.Resources) != 2 {
		t.Fatalf("%d servers", len(s.Resources))
	}
	x := s.Resources[0]
	if x.Resource.ID != fmt.Sprint(m.Server.ID) || x.Resource.Name != "box" || x.State != event.Active || x.Region != "fsn1" || x.Marks == nil || *x.Marks != marks ||
		x.Size[event.ServerType] != event.Text("cx23") || x.Size[event.VCPUs] != event.Int(2) || x.CreatedAt.IsZero() || time.Since(x.CreatedAt) > time.Hour ||
		x.Info["image"] != "ubuntu-24.04" || x.Info["status"] != "running" || x.Values["price_eur_per_hour"] <= 0 {
		t.Errorf("the server is listed as %+v, %v", x, x.Size)
	}
	if off := s.Resources[1]; off.State != event.Off || off.Marks != nil {
		t.Errorf("the server that is off is listed as %+v", off)
	}
	for kind, want := range map[event.ResourceType]event.Size{
		event.Volume: {event.SizeGB: event.Int(10)}, event.FloatingIP: {event.IPVersion: event.Text("4"), event.Kind: event.Text("ipv4")},
		event.LoadBalancer: {event.Kind: event.Text("lb11"), event.Targets: event.Int(0)},
	} {
		s := mustList(t, p, kind)
		if len(s.Resources) != 1 || !s.Resources[0].Size.Equal(want) || s.Resources[0].Values["price_eur_per_hour"] <= 0 || s.Resources[0].State != "" || s.Resources[0].Account != sourcetest.Account {
			t.Errorf("%s: %+v", kind, s.Resources)
		}
	}
}

// Prices are an extra: without the list, or without an entry in it, they are not
// known and everything else is there.
func TestListWithoutPrices(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(p *platform){
		"no list":  func(p *platform) { p.noPrices = true },
		"no entry": func(p *platform) { p.Unprice("fsn1") },
	} {
		p := newPlatform(t)
		p.api(http.MethodPost, "/servers", obj{"name": "box", "server_type": "cx23", "image": "ubuntu-24.04", "location": "fsn1"}, nil)
		spoil(p)
		s := mustList(t, p, event.Server)
		if _, known := s.Resources[0].Values["price_eur_per_hour"]; len(s.Resources) != 1 || known || len(s.Resources[0].Size) != 4 {
			t.Errorf("%s: %+v", name, s.Resources)
		}
	}
}

// Every optional part may be missing, null or of another type, of every kind; the
// resource is there all the same, and so are the others.
func TestListOddEntries(t *testing.T) {
	t.Parallel()
	for what, spoil := range map[string]any{"missing": nil, "null": obj(nil), "a text": "odd", "a list": []any{1}} {
		p := newPlatform(t)
		for _, n := range []string{"a", "b"} {
			p.api(http.MethodPost, "/servers", obj{"name": n, "server_type": "cx23", "image": "ubuntu-24.04", "location": "fsn1"}, nil)
			p.volume(10)
			p.api(http.MethodPost, "/floating_ips", obj{"type": "ipv4", "home_location": "fsn1", "name": n}, nil)
			p.api(http.MethodPost, "/load_balancers", obj{"load_balancer_type": "lb11", "name": n, "location": "fsn1", "algorithm": obj{"type": "round_robin"}}, nil)
		}
		for _, kind := range []event.ResourceType{event.Server, event.Volume, event.FloatingIP, event.LoadBalancer} {
			first := p.ids(string(kind))[0]
			p.setSpoil(func(o obj) any {
				if fmt.Sprint(int64(o["id"].(float64))) == first {
					for k := range o {
						if what == "missing" && k != "id" {
							delete(o, k)
						} else if k != "id" {
							o[k] = spoil
						}
					}
				}
				return o
			})
			s := mustList(t, p, kind)
			if len(s.Resources) != 2 || s.Resources[0].Resource.ID != first || len(s.Resources[0].Size) > 1 || len(s.Resources[1].Size) == 0 || len(s.Unreadable) > 0 {
				t.Errorf("%s, %s: %+v, unreadable %v", what, kind, s.Resources, s.Unreadable)
			}
			p.setSpoil(nil)
		}
	}
}

// What cannot be told apart is said and takes nothing with it.
func TestListUnreadable(t *testing.T) {
	t.Parallel()
	p := newPlatform(t)
	for range 2 * pageSize {
		p.volume(10)
	}
	ids := p.ids("volume")
	for what, odd := range map[string]any{"null": nil, "a number": 7, "without a number": obj{"name": "x"}} {
		p.setSpoil(func(o obj) any {
			if fmt.Sprint(int64(o["id"].(float64))) == ids[1] {
				return odd
			}
			return o
		})
		s := mustList(t, p, event.Volume)
		var got []string
		for _, x := range s.Resources {
			got = append(got, x.Resource.ID)
		}
		if want := slices.Delete(slices.Clone(ids), 1, 2); !slices.Equal(got, want) || len(s.Unreadable) == 0 {
			t.Errorf("%s: listed %v, unreadable %v; want %v and one", what, got, s.Unreadable, want)
		}
	}
}

// An answer that is none is an error, and not an empty list.
func TestListNotAList(t *testing.T) {
	t.Parallel()
	for _, body := range []string{`{}`, `{"servers":null}`, `{"servers":{}}`, `{"volumes":[]}`, `[]`, ``,
		`{"servers":[{"id":2},{"id":1}],"meta":{"pagination":{"page":1,"per_page":50,"next_page":null}}}`,
		`{"servers":[{"id":1}],"meta":{"pagination":{"page":1,"per_page":50,"next_page":null,"total_entries":2}}}`,
		`{"servers":[],"meta":{"pagination":{"page":1,"per_page":50,"next_page":2}}}`,
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(body))
		}))
		p := newPlatform(t)
		p.url = srv.URL
		s, err := list(t, p, event.Server)
		srv.Close()
		if err == nil || len(s.Resources) > 0 || !strings.Contains(err.Error(), "list") {
			t.Errorf("%s: %+v, %v", body, s, err)
		}
	}
}
