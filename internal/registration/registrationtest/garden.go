// Package registrationtest has a garden cluster in memory and a Reporting API on a
// local port, for tests of registrations.
package registrationtest

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/registration"
	"github.com/tollgate-dev/tollgate/internal/reporting"
	"github.com/tollgate-dev/tollgate/internal/reporting/api"
	"github.com/tollgate-dev/tollgate/internal/reporting/reportingserver"
	objects "github.com/tollgate-dev/tollgate/workflows/api"
)

// Garden is a garden cluster in memory. Its zero value is empty. It is safe for
// concurrent use.
type Garden struct {
	mu       sync.Mutex
	shoots   map[string]objects.ShootFacts
	bindings map[string]registration.CredentialsRef
	secrets  map[string]registration.Secret
	profiles map[string][]registration.Keystone
	down     error
	calls    int
}

var _ registration.Garden = (*Garden)(nil)

func set[V any](g *Garden, m *map[string]V, key string, v V) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[key] = v
}

func get[V any](g *Garden, m map[string]V, key string) (V, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls++
	v, ok := m[key]
	if g.down != nil {
		return v, provider.Wrap(provider.Transient, "get", "garden", "", g.down)
	}
	if !ok {
		return v, provider.Wrap(provider.NotFound, "get", "garden", key, errors.New("is not there"))
	}
	return v, nil
}

// SetShoot makes or changes a shoot.
func (g *Garden) SetShoot(f objects.ShootFacts) {
	f.Source, f.Tenant = "", nil
	set(g, &g.shoots, f.Project+"/"+f.Name, f)
}

// DeleteShoot takes a shoot away.
func (g *Garden) DeleteShoot(project, name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.shoots, project+"/"+name)
}

// SetBinding makes or changes what a binding names.
func (g *Garden) SetBinding(namespace string, b objects.ShootBinding, ref registration.CredentialsRef) {
	set(g, &g.bindings, b.Kind+" "+namespace+"/"+b.Name, ref)
}

// SetSecret makes or changes a Secret.
func (g *Garden) SetSecret(namespace, name, version string, data map[string]string) {
	s := registration.Secret{Version: version, Data: map[string]provider.Sensitive{}}
	for k, v := range data {
		s.Data[k] = provider.NewSensitive([]byte(v))
	}
	set(g, &g.secrets, namespace+"/"+name, s)
}

// SetKeystones makes or changes what a cloud profile names.
func (g *Garden) SetKeystones(profile string, ks ...registration.Keystone) {
	set(g, &g.profiles, profile, ks)
}

// SetDown makes every call fail; nil ends it.
func (g *Garden) SetDown(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.down = err
}

// Calls counts the calls so far.
func (g *Garden) Calls() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.calls
}

// Shoot implements registration.Garden.
func (g *Garden) Shoot(_ context.Context, project, name string) (objects.ShootFacts, error) {
	return get(g, g.shoots, project+"/"+name)
}

// Shoots implements registration.Garden.
func (g *Garden) Shoots(context.Context) ([]objects.ShootFacts, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls++
	if g.down != nil {
		return nil, provider.Wrap(provider.Transient, "list", "garden", "", g.down)
	}
	var out []objects.ShootFacts
	for _, key := range slices.Sorted(maps.Keys(g.shoots)) {
		out = append(out, g.shoots[key])
	}
	return out, nil
}

// Credentials implements registration.Garden.
func (g *Garden) Credentials(_ context.Context, namespace string, b objects.ShootBinding) (registration.CredentialsRef, error) {
	return get(g, g.bindings, b.Kind+" "+namespace+"/"+b.Name)
}

// Secret implements registration.Garden.
func (g *Garden) Secret(_ context.Context, namespace, name string) (registration.Secret, error) {
	return get(g, g.secrets, namespace+"/"+name)
}

// Keystones implements registration.Garden.
func (g *Garden) Keystones(_ context.Context, profile string) ([]registration.Keystone, error) {
	return get(g, g.profiles, profile)
}

// Reporting is a Reporting API with a client of it.
type Reporting struct {
	*reporting.Client
	URL string

	mu    sync.Mutex
	fault func(*http.Request) reportingserver.Fault
}

// NewReporting starts the reference server. It ends with the test.
func NewReporting(t testing.TB) *Reporting {
	t.Helper()
	r := &Reporting{}
	s, err := reportingserver.New(t.Context(), reportingserver.Options{Path: filepath.Join(t.TempDir(), "r.db"), Fault: r.faults})
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s)
	t.Cleanup(func() {
		h.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	r.URL = h.URL
	if r.Client, err = reporting.New(reporting.Options{URL: h.URL}); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *Reporting) faults(req *http.Request) reportingserver.Fault {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fault == nil {
		return reportingserver.Fault{}
	}
	return r.fault(req)
}

// SetFault says what goes wrong with requests; nil is nothing. f is called by one
// goroutine at a time.
func (r *Reporting) SetFault(f func(*http.Request) reportingserver.Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fault = f
}

// Relation is a relation with the accounts that it relates, in words.
type Relation struct {
	From, To   string // <platform>:<external id>
	Shoot      string
	CreatedBy  string
	Begin, End time.Time
}

// All lists the relations of a Gardener project, in the order in which they
// were created. It is what a test wants to be exactly so.
func (r *Reporting) All(t testing.TB, externalID string) []Relation {
	t.Helper()
	p, ok, err := r.FindProject(t.Context(), "gardener", externalID)
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		return nil
	}
	direction := api.From
	all, err := r.Client.Relations(t.Context(), p.ID, api.ListRelationsParams{Direction: &direction})
	if err != nil {
		t.Fatal(err)
	}
	var out []Relation
	for _, rel := range all {
		to, err := r.Project(t.Context(), rel.TargetID)
		if err != nil {
			t.Fatal(err)
		}
		x := Relation{From: p.Platform + ":" + p.ExternalID, To: to.Platform + ":" + to.ExternalID, Begin: rel.ValidFrom,
			Shoot: rel.Metadata[registration.MetaShootName], CreatedBy: rel.Metadata[registration.MetaCreatedBy]}
		if rel.ValidTo != nil {
			x.End = *rel.ValidTo
		}
		out = append(out, x)
	}
	return out
}
