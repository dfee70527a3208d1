package openstack_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacksim"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacktest"
)

// The network service shows an admin what all projects have: what is another
// project's is no companion here, and its groups do not make a name ambiguous.
func TestAdminOfSeveralProjects(t *testing.T) {
	t.Parallel()
	b := openstacktest.NewBackend(t, openstacksim.Options{Projects: []string{"other"}, Admins: []string{"demo"}})
	in := func(project string) *openstack.Provider {
		return open(t, b, func(o *openstack.Options) { everything(o); o.Auth.Project = project })
	}
	here, there := in("demo"), in("other")
	id := create(t, here, request("proxy-a"))
	create(t, there, request("proxy-b"))
	for name, p := range map[string]*openstack.Provider{"-a": here, "-b": there} {
		comp, err := p.ListCompanions(t.Context(), provider.Selector{Installation: "acme"})
		if err != nil || len(comp) != 3 {
			t.Errorf("%s: companions %+v, %v", name, comp, err)
		}
		for _, c := range comp {
			if c.Marks.UID != "uid-proxy"+name {
				t.Errorf("%s: %+v is another project's", name, c)
			}
		}
	}
	var mu sync.Mutex
	whole := 0
	b.OnRequest(func(r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if q := r.URL.Query(); r.Method == http.MethodGet && (strings.HasSuffix(r.URL.Path, "/ports") || strings.HasSuffix(r.URL.Path, "/floatingips")) && q.Get("project_id") == "" {
			whole++
		}
	})
	if err := here.Delete(t.Context(), id); err != nil {
		t.Error(err)
	}
	if whole > 0 {
		t.Errorf("%d listings were of all projects", whole)
	}
}
