package hetzner_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/hetzner/hetznersim"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/internal/source/hetzner"
)

// A listing has the vendor's time beside ours, from the first answer and from the
// last.
func TestListHasTheVendorsTime(t *testing.T) {
	t.Parallel()
	clock := hetznersim.NewClock(time.Date(2026, 3, 14, 6, 0, 0, 0, time.UTC))
	sim := hetznersim.New(hetznersim.Options{Clock: clock, OneProject: project, RateLimit: -1, MaxPerPage: 1})
	for _, name := range []string{"a", "b"} {
		sim.PlaceServer(project, name, nil)
	}
	var last time.Time
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		clock.Advance(time.Minute)
		if r.URL.Path == hetznersim.BasePath+"/servers" { // and not the prices
			last = clock.Now()
		}
		sim.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	sources, err := hetzner.New(source.Config{Name: "s", Account: "a",
		Decode: func(into any) error {
			o := into.(*hetzner.Options)
			o.Token, o.Endpoint, o.Kinds = "token", web.URL+hetznersim.BasePath, []string{string(event.Server)}
			return nil
		},
		Secret: func(context.Context, string) (provider.Sensitive, error) {
			return provider.NewSensitive([]byte(project)), nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := sources[0].List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first := time.Date(2026, 3, 14, 6, 1, 0, 0, time.UTC)
	if len(got.Resources) != 2 || !got.PlatformAt.Equal(first) || !got.PlatformUntil.Equal(last) || !last.After(first) {
		t.Errorf("%d resources from %s until %s, want 2 from %s until %s", len(got.Resources), got.PlatformAt, got.PlatformUntil, first, last)
	}
	if time.Since(got.At) > time.Hour {
		t.Errorf("our own time is %s", got.At)
	}
}
