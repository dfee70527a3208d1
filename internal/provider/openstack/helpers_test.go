package openstack_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacksim"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacktest"
)

// vault is a set of secrets that can be changed.
type vault struct {
	mu sync.Mutex
	m  map[string]string
}

func newVault(password string) *vault {
	return &vault{m: map[string]string{"cloud-password": password}}
}

func (v *vault) set(name, value string) { v.mu.Lock(); defer v.mu.Unlock(); v.m[name] = value }

func (v *vault) read(_ context.Context, name string) (provider.Sensitive, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if s, ok := v.m[name]; ok {
		return provider.NewSensitive([]byte(s)), nil
	}
	return provider.Sensitive{}, errors.New("there is no such secret")
}

// everything makes all that can be made beside a server.
func everything(o *openstack.Options) {
	o.FloatingNetwork, o.Volume = "public", openstack.Volume{SizeGB: 1}
}

func open(t *testing.T, b *openstacktest.Backend, change func(*openstack.Options)) *openstack.Provider {
	t.Helper()
	return b.Open(t, provider.Config{Name: "cloud", Installation: "acme", Secret: newVault("correct").read}, change)
}

func request(name string) provider.CreateRequest {
	return provider.CreateRequest{
		Name: name, Port: 3128, CloudInit: provider.NewSensitive([]byte("#cloud-config\n")),
		Marks: provider.Marks{UID: "uid-" + name, Installation: "acme", Namespace: "default", Proxy: "p-" + name, SpecHash: "h"},
	}
}

func create(t *testing.T, p provider.Provider, req provider.CreateRequest) provider.InstanceID {
	t.Helper()
	id, err := p.Create(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// count is what there is, such as "1 server, 2 port".
func count(b *openstacktest.Backend) string {
	n := map[string]int{}
	for _, o := range b.Objects() {
		n[o.Kind]++
	}
	var out []string
	for k, v := range n {
		out = append(out, fmt.Sprint(v, " ", k))
	}
	slices.SortFunc(out, func(a, b string) int {
		return strings.Compare(a[strings.IndexByte(a, ' '):], b[strings.IndexByte(b, ' '):])
	})
	return strings.Join(out, ", ")
}

const complete = "1 floating_ip, 1 port, 1 server, 1 volume"

func wantClass(t *testing.T, err error, class provider.Class, reason string) {
	t.Helper()
	if provider.ClassOf(err) != class || provider.ReasonOf(err) != reason {
		t.Errorf("class %q, reason %q; want %q, %q: %v", provider.ClassOf(err), provider.ReasonOf(err), class, reason, err)
	}
}

// retry is what the engine does with an activity: again, while it may help.
func retry(t *testing.T, do func() error) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; {
		err := do()
		if err == nil {
			return
		}
		if c := provider.ClassOf(err); c != provider.Transient && c != provider.RateLimited || time.Now().After(end) {
			t.Fatalf("no retry helps: %v", err)
		}
		select {
		case <-t.Context().Done():
		case <-time.After(time.Millisecond):
		}
	}
}

func waitRunning(t *testing.T, p provider.Provider, id provider.InstanceID) provider.Instance {
	t.Helper()
	in := settled(t, p, id)
	if in.State != provider.StateRunning {
		t.Fatalf("%s is %s (%s)", id, in.State, in.RawState)
	}
	return in
}

// comesUp waits for the end of a boot and says how it was.
func comesUp(t *testing.T, p provider.Provider, id provider.InstanceID) bool {
	t.Helper()
	return settled(t, p, id).State == provider.StateRunning
}

// settled waits until an instance runs or has stopped.
func settled(t *testing.T, p provider.Provider, id provider.InstanceID) provider.Instance {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; {
		in, err := p.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if in.State == provider.StateRunning || in.State == provider.StateStopped {
			return in
		}
		if time.Now().After(end) {
			t.Fatalf("%s is %s (%s)", id, in.State, in.RawState)
		}
		select {
		case <-t.Context().Done():
		case <-time.After(time.Millisecond):
		}
	}
}

func quick() openstacksim.Options { return openstacksim.Options{} }
