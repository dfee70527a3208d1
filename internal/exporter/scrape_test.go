package exporter_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/exporter"
	"github.com/tollgate-dev/tollgate/internal/inventory"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/internal/telemetry"
)

// slow is a platform that takes a minute to list anything, by the clock of the
// test.
type slow struct{ called, answer chan struct{} }

func (s slow) List(context.Context) (source.Snapshot, error) {
	s.called <- struct{}{}
	<-s.answer
	return source.Snapshot{At: now, Resources: []source.Existing{server("1"), server("2")}}, nil
}

// A scrape shows the last snapshot, with its age, however long a listing takes.
func TestScrapeWaitsForNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t, exporter.Options{}, "h/server")
	r.put("h", "server", now.Add(-10*time.Minute), server("1"))
	tm, err := telemetry.NewMetrics(telemetry.BuildInfo{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	tm.Registry().MustRegister(r)
	web := httptest.NewServer(tm.Handler())
	defer web.Close()
	scrape := func(want ...string) {
		t.Helper()
		// Acceptance is a second. The listing would take for ever.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, web.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("status %d, %v", resp.StatusCode, err)
		}
		for _, w := range want {
			if !strings.Contains(string(body), w+"\n") {
				t.Errorf("the scrape lacks %s", w)
			}
		}
	}
	lister := source.Lister(slow{make(chan struct{}), make(chan struct{})})
	put := make(chan struct{})
	go func() {
		defer close(put)
		s, err := lister.List(context.Background())
		if err != nil {
			t.Error(err)
		}
		r.store.Put(inventory.Listed{StreamKey: r.streams[0].StreamKey, Platform: event.Hetzner, Snapshot: s, Took: time.Minute})
	}()
	<-lister.(slow).called
	const labels = `{source="h",stream="server"}`
	scrape("tollgate_inventory_snapshot_age_seconds"+labels+" 600", `tollgate_hetzner_server_vcpus{id="1",source="h",stream="server"} 2`)
	close(lister.(slow).answer)
	<-put
	scrape("tollgate_inventory_snapshot_age_seconds"+labels+" 0", "tollgate_inventory_snapshot_duration_seconds"+labels+" 60",
		`tollgate_hetzner_server_vcpus{id="2",source="h",stream="server"} 2`)
}

// BenchmarkScrape is a scrape of two streams that are full.
func BenchmarkScrape(b *testing.B) {
	store := inventory.NewStore()
	var all []source.Existing
	for i := range 2 * exporter.DefaultMaxSeries / 10 {
		all = append(all, server(fmt.Sprint(i)))
	}
	half := len(all) / 2
	var streams []exporter.Stream
	for i, resources := range [][]source.Existing{all[:half], all[half:]} {
		key := inventory.StreamKey{Source: fmt.Sprint(i), Stream: "server"}
		streams = append(streams, exporter.Stream{StreamKey: key, Interval: time.Hour})
		store.Put(inventory.Listed{StreamKey: key, Platform: event.Hetzner, Snapshot: source.Snapshot{At: now, Resources: resources}})
	}
	tm, err := telemetry.NewMetrics(telemetry.BuildInfo{}, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	tm.Registry().MustRegister(exporter.New(exporter.Options{
		Store: store, Types: types(), Now: func() time.Time { return now }, Streams: func() []exporter.Stream { return streams },
	}))
	for b.Loop() {
		w := httptest.NewRecorder()
		tm.Handler().ServeHTTP(w, httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/metrics", nil))
		b.SetBytes(int64(w.Body.Len()))
	}
}
