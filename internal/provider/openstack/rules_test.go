package openstack_test

import (
	"encoding/json"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacksim"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacktest"
)

// rule is one of the access rules that the guide gives for application credentials.
type rule struct {
	Service, Method, Path string
	form                  *regexp.Regexp
}

func readRules(t *testing.T) []rule {
	t.Helper()
	page, err := os.ReadFile("../../../docs/how-to/openstack.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?s)```json\n(.*?)```").FindSubmatch(page)
	if m == nil {
		t.Fatal("the guide has no access rules")
	}
	var out []rule
	if err := json.Unmarshal(m[1], &out); err != nil {
		t.Fatal(err)
	}
	for i, r := range out {
		form := strings.NewReplacer(`\*\*`, ".*", `\*`, "[^/]+").Replace(regexp.QuoteMeta(r.Path))
		out[i].form = regexp.MustCompile("^" + form + "$")
	}
	return out
}

// The guide's access rules are all that the driver needs, and no more.
func TestAccessRules(t *testing.T) {
	t.Parallel()
	rules := readRules(t)
	b := openstacktest.NewBackend(t, openstacksim.Options{SoftDelete: true, Keys: []string{"ours"}})
	services := map[string]string{"compute": "compute", "network": "network", "image": "image", "volume": "volumev3"}
	var mu sync.Mutex
	used, refused := map[int]bool{}, map[string]bool{}
	b.OnRequest(func(r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		part := strings.Split(r.URL.Path, "/")
		if part[1] == "identity" {
			return
		}
		ok := false
		for i, x := range rules {
			if x.Service == services[part[2]] && x.Method == r.Method && x.form.MatchString(r.URL.Path) {
				ok, used[i] = true, true
			}
		}
		if !ok {
			refused[r.Method+" "+r.URL.Path] = true
		}
	})
	all := func(o *openstack.Options) {
		everything(o)
		o.KeyName, o.Zone, o.Subnet, o.WaitLimit = "ours", "nova", "private-v4", 5*time.Second
	}
	p := open(t, b, all)
	p.Check(t.Context())
	hidden := b.AddImage("hidden", true)[0]
	req := request("proxy-a")
	req.Placement.Image = hidden
	id := create(t, p, req)
	waitRunning(t, p, id)
	if _, err := p.Find(t.Context(), req.Name, req.Marks); err != nil {
		t.Error(err)
	}
	if _, err := p.List(t.Context(), provider.Selector{}); err != nil {
		t.Error(err)
	}
	comp, err := p.ListCompanions(t.Context(), provider.Selector{})
	if err != nil {
		t.Error(err)
	}
	for _, c := range comp { // with the server still there, as when somebody has taken them
		_ = p.DeleteCompanion(t.Context(), c)
	}
	if err := p.Delete(t.Context(), id); err != nil {
		t.Error(err)
	}
	// An attempt whose floating IP has lost its port takes it up again.
	down := b.Add(openstacksim.Fault{Kind: openstacksim.FaultAnswer, Method: http.MethodPost, Path: "/servers", Status: 500, Message: "Unexpected API Error."})
	_, _ = p.Create(t.Context(), request("proxy-b"))
	down()
	for _, c := range mustCompanions(t, p) {
		if c.Kind == openstack.KindPort {
			if err := p.DeleteCompanion(t.Context(), c); err != nil {
				t.Error(err)
			}
		}
	}
	create(t, open(t, b, all), request("proxy-b"))
	for r := range refused {
		t.Errorf("the guide's access rules leave out %s", r)
	}
	for i, r := range rules {
		if !used[i] {
			t.Errorf("the guide's access rules have %s %s %s, which nothing needs", r.Service, r.Method, r.Path)
		}
	}
}

func mustCompanions(t *testing.T, p *openstack.Provider) []provider.Companion {
	t.Helper()
	comp, err := p.ListCompanions(t.Context(), provider.Selector{})
	if err != nil {
		t.Fatal(err)
	}
	return comp
}
