package cloud

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// identity is an identity service whose catalogue has a compute service in the
// regions that it is given.
func identity(t *testing.T, regions *atomic.Value, logins *atomic.Int32) string {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		var eps []string
		for _, name := range regions.Load().([]string) {
			eps = append(eps, fmt.Sprintf(`{"id": %[1]q, "interface": "public", "region_id": %[1]q, "url": "http://cloud.invalid/%[1]s"}`, name))
		}
		w.Header().Set("X-Subject-Token", fmt.Sprintf("token-%d", logins.Add(1)))
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(w, `{"token": {"expires_at": %q, "catalog": [{"type": "compute", "endpoints": [%s]}]}}`,
			time.Now().Add(time.Hour).UTC().Format("2006-01-02T15:04:05.000000Z"), strings.Join(eps, ","))
	}))
	t.Cleanup(srv.Close)
	return srv.URL + "/v3"
}

// A region that the catalogue lacks fails whoever asks for it, and nobody else; it
// is there as soon as the catalogue has it, without a restart.
func TestMissingRegion(t *testing.T) {
	t.Parallel()
	var regions atomic.Value
	var logins atomic.Int32
	regions.Store([]string{"one"})
	access := Access{Auth: Auth{URL: identity(t, &regions, &logins), Username: "u", Project: "p", Password: "pw"}, Regions: []string{"one", "two"}}
	c := New(access.Check("openstack", func(f string, a ...any) { t.Errorf(f, a...) }), Config{
		Secret: func(context.Context, string) (provider.Sensitive, error) {
			return provider.NewSensitive([]byte("hunter2")), nil
		}})

	for range 3 {
		if r, err := c.At(t.Context(), "one"); err != nil || r.Name != "one" {
			t.Fatalf("the region that is there: %+v, %v", r, err)
		}
		var bad *MissingError
		if _, err := c.At(t.Context(), "two"); !errors.As(err, &bad) || !strings.Contains(err.Error(), `regions: "two" is not one of the cloud: want one of one`) {
			t.Fatalf("the region that is missing: %v", err)
		}
	}
	if n := logins.Load(); n != 1 {
		t.Errorf("%d logins for a catalogue that is recent, want 1", n)
	}

	c.catalogAge = 0
	if _, err := c.At(t.Context(), "two"); err == nil || logins.Load() != 2 {
		t.Errorf("still missing: %v after %d logins, want 2", err, logins.Load())
	}
	regions.Store([]string{"one", "two"})
	if r, err := c.At(t.Context(), "two"); err != nil || r.Name != "two" || logins.Load() != 3 {
		t.Errorf("there by now: %+v, %v, %d logins", r, err, logins.Load())
	}
	if _, err := c.At(t.Context(), "two"); err != nil || logins.Load() != 3 {
		t.Errorf("there, asked again: %v, %d logins", err, logins.Load())
	}

	// A token's end in the meantime changes nothing for the other one.
	regions.Store([]string{"two"})
	if _, err := c.logIn(t.Context()); err != nil {
		t.Errorf("a login while a region is out: %v", err)
	}
	if _, err := c.At(t.Context(), "two"); err != nil {
		t.Errorf("the other region: %v", err)
	}
	regions.Store([]string{"three"})
	var config *ConfigError
	if _, err := c.logIn(t.Context()); !errors.As(err, &config) || !strings.Contains(err.Error(), `"one"`) {
		t.Errorf("none of the regions is there: %v, want it to say so", err)
	}
}
