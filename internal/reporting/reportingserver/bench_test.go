package reportingserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/reporting/event"
)

// lives makes events: a server with its creation, an upgrade and its end, again
// and again.
func lives(from, n int) []event.Event {
	events := make([]event.Event, 0, n)
	for i := from; i < from+n; i++ {
		id := fmt.Sprint(i / 3)
		switch i % 3 {
		case 0:
			events = append(events, on(event.ServerCreate, at("06:00"), id, "create", server(2)))
		case 1:
			events = append(events, on(event.ServerUpgrade, at("09:00"), id, "action:1", server(4)))
		default:
			events = append(events, on(event.ServerDelete, at("12:00"), id, "delete", server(4)))
		}
	}
	return events
}

func BenchmarkIngest(b *testing.B) {
	g := newRig(b, nil)
	var bodies [][]byte
	for i := range b.N {
		body, err := json.Marshal(lives(i*500, 500))
		if err != nil {
			b.Fatal(err)
		}
		bodies = append(bodies, body)
	}
	b.ResetTimer()
	for _, body := range bodies {
		r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, g.url+"/api/v1/events", bytes.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		r.Header.Set("Content-Type", typeBatch)
		resp, err := http.DefaultClient.Do(r)
		if err != nil || resp.StatusCode != http.StatusOK {
			b.Fatal(resp, err)
		}
		_ = resp.Body.Close()
	}
	b.ReportMetric(float64(500*b.N)/b.Elapsed().Seconds(), "events/s")
}

// storeLives stores n events in batches of a thousand.
func (g *rig) storeLives(b *testing.B, n int) {
	for i := range n / 1000 {
		if _, err := g.store.Ingest(context.Background(), lives(i*1000, 1000)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReadsOver100000Events(b *testing.B) {
	g := newRig(b, nil)
	g.storeLives(b, 100_000)
	acme := g.project("hetzner", "acme").ID
	for name, path := range map[string]string{
		"usage":      "/api/v1/projects/" + acme + "/usage?from=2026-11-02T00:00:00Z&to=2026-11-03T00:00:00Z&limit=100",
		"events":     "/api/v1/events?project_id=" + acme + "&limit=100",
		"last_known": "/api/v1/resources?platform=hetzner&external_id=acme&resource_type=server&resource_id=7&resource_id=30000&ended=true",
		"resources":  "/api/v1/resources?project_id=" + acme + "&at=2026-11-02T10:00:00Z&limit=100",
		"page":       "/projects/" + acme + "?month=2026-11",
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				g.mustGet(b, path)
			}
		})
	}
}

func (g *rig) mustGet(b *testing.B, path string) {
	resp, err := http.Get(g.url + path)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		b.Fatal(resp.Status, err)
	}
}

// BenchmarkUsageOver1000000Events has what the first answer costs, which takes up
// everything that came in, one that adds up, and one that was added up before.
func BenchmarkUsageOver1000000Events(b *testing.B) {
	g := newRig(b, nil)
	const n = 1_000_000
	began := time.Now()
	g.storeLives(b, n)
	b.Logf("stored %d events, %.0f per second", n, n/time.Since(began).Seconds())
	p, err := g.store.Project(b.Context(), g.project("hetzner", "acme").ID)
	if err != nil {
		b.Fatal(err)
	}
	began = time.Now()
	if err := g.store.Refresh(b.Context(), p.ID); err != nil {
		b.Fatal(err)
	}
	b.Logf("taken up in %s, %.0f events per second", time.Since(began), n/time.Since(began).Seconds())
	path := "/api/v1/projects/" + p.ID + "/usage?from=2026-11-02T00:00:00Z&to=2026-11-03T00:00:00Z&limit=100"
	b.Run("added_up", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			// Another end each time: nothing is remembered.
			g.mustGet(b, path+"&as_of="+at("20:00").Add(time.Duration(i)*time.Second).Format(time.RFC3339))
		}
	})
	b.Run("remembered", func(b *testing.B) {
		for b.Loop() {
			g.mustGet(b, path+"&as_of=2026-11-03T00:00:00Z")
		}
	})
}
