package hetzner_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/inventory"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/internal/source/hetzner"
)

var update = flag.Bool("update", false, "write the golden files anew")

// fixture is what the vendor answers, in the shape that it answers in, and what
// was reported before.
type fixture struct {
	Kind     event.ResourceType    `json:"kind"`
	Actions  []obj                 `json:"actions"`
	Things   []obj                 `json:"things"`
	Reported map[string]event.Size `json:"reported"`
}

// ServeHTTP implements http.Handler.
func (f fixture) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kind := string(f.Kind)
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	answer := obj{}
	about := func(list []obj, id string) (out []obj) {
		out = []obj{}
		for _, a := range list {
			if fmt.Sprint(int64(a["id"].(float64))) == id {
				out = append(out, a)
			}
		}
		return out
	}
	switch {
	case parts[0] == "actions":
		all := []obj{}
		for _, id := range r.URL.Query()["id"] {
			all = append(all, about(f.Actions, id)...)
		}
		answer["actions"] = all
	case len(parts) == 2 && parts[1] == "actions", len(parts) == 3:
		all := slices.Clone(f.Actions)
		if len(parts) == 3 {
			all = slices.DeleteFunc(all, func(a obj) bool {
				return !slices.ContainsFunc(a["resources"].([]any), func(x any) bool {
					res := x.(map[string]any)
					return res["type"] == kind && strconv.FormatInt(int64(res["id"].(float64)), 10) == parts[1]
				})
			})
		}
		if r.URL.Query().Get("sort") == "id:desc" {
			slices.Reverse(all)
		}
		answer["actions"] = all
	case len(parts) == 2:
		found := about(f.Things, parts[1])
		if len(found) == 0 {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"error":{"code":"not_found","message":"not found"}}`))
			return
		}
		answer[kind] = found[0]
	default:
		answer[kind+"s"] = append([]obj{}, f.Things...)
	}
	answer["meta"] = obj{"pagination": obj{"page": 1, "per_page": 50, "previous_page": nil, "next_page": nil, "last_page": 1, "total_entries": nil}}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Date", vendorsTime.Format(http.TimeFormat))
	_ = json.NewEncoder(w).Encode(answer)
}

// vendorsTime is when the fixtures are asked, by their own clock.
var vendorsTime = time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)

// open builds the source that reads a fixture.
func (f fixture) open(t *testing.T) *hetzner.Source {
	t.Helper()
	srv := httptest.NewServer(f)
	t.Cleanup(srv.Close)
	list, err := hetzner.New(source.Config{Name: "golden", Account: "acme", Known: f.known,
		Secret: func(context.Context, string) (provider.Sensitive, error) {
			return provider.NewSensitive([]byte("token")), nil
		},
		Decode: func(into any) error {
			*into.(*hetzner.Options) = hetzner.Options{Token: "token", Endpoint: srv.URL, Kinds: []string{string(f.Kind)}}
			return nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	return list[0]
}

// readFixture reads a fixture.
func readFixture(t *testing.T, file string) (f fixture) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &f); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return f
}

// compareGolden compares what a fixture gave with its golden file.
func compareGolden(t *testing.T, file string, got any) {
	t.Helper()
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetIndent("", " ")
	if err := e.Encode(got); err != nil {
		t.Fatal(err)
	}
	golden := strings.TrimSuffix(file, ".json") + ".want.json"
	if *update {
		if err := os.WriteFile(golden, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(out.String(), string(want)); diff != "" {
		t.Errorf("%s (-got +want):\n%s", file, diff)
	}
}

func (f fixture) known(_ context.Context, _ event.Platform, _ string, ask []event.Resource) (map[event.Resource]source.Reported, error) {
	out := map[event.Resource]source.Reported{}
	for _, r := range ask {
		if s, ok := f.Reported[r.ID]; ok {
			out[r] = source.Reported{Size: s, Since: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)}
		}
	}
	return out, nil
}

// outcome is what a fixture gives.
type outcome struct {
	Events   []event.Event      `json:"events"`
	Rejected []source.Rejection `json:"rejected,omitempty"`
	Ignored  int                `json:"ignored"`
	Pending  int                `json:"pending"`
}

func TestGolden(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/golden/*.json")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d fixtures, %v", len(files), err)
	}
	seen := map[event.Type]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, ".want.json") {
			continue
		}
		src := readFixture(t, file).open(t)
		page, err := src.Next(t.Context(), "")
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		got := outcome{Events: []event.Event{}, Rejected: page.Rejected, Ignored: page.Ignored, Pending: page.Pending}
		for _, i := range page.Items {
			if err := hetzner.Type().Check(i); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			got.Events = append(got.Events, i.Event)
			seen[i.Event.Type] = true
			again, err := src.Derive(t.Context(), i.Ref)
			if err != nil || len(again) != 1 || again[0].Event.ID != i.Event.ID || !again[0].Event.Time.Equal(i.Event.Time) {
				t.Errorf("%s: derived again: %+v, %v", file, again, err)
			}
		}
		compareGolden(t, file, got)
	}
	// Ends without an action are those of TestGoldenEnds.
	silent := map[event.Type]bool{event.VolumeDelete: true, event.FloatingIPDelete: true}
	for _, k := range hetzner.Type().Kinds {
		for _, v := range k.Verbs {
			if typ := k.EventType(v); !seen[typ] && !silent[typ] {
				t.Errorf("no fixture gives %s", typ)
			}
		}
	}
}

// What has no action is found by comparing the listing with what was reported.
func TestGoldenEnds(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/ends/*_delete.json")
	if err != nil || len(files) != 2 {
		t.Fatalf("%d fixtures, %v", len(files), err)
	}
	since := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	for _, file := range files {
		f := readFixture(t, file)
		listed, err := f.open(t).List(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		var kind source.Kind
		for _, k := range hetzner.Type().Kinds {
			if k.Type == f.Kind {
				kind = k
			}
		}
		stream := inventory.Stream{Name: string(f.Kind), Platform: event.Hetzner, Account: "acme", Kinds: []source.Kind{kind}}
		look := inventory.Look{Reported: map[inventory.Key]inventory.Reported{}, Snapshot: listed, Until: listed.At}
		for id, size := range f.Reported {
			r := event.Resource{Type: f.Kind, ID: id}
			look.Reported[inventory.KeyOf("acme", r)] = inventory.Reported{Account: "acme", Resource: r, Size: size, State: event.Active, From: since, Since: since}
		}
		got := outcome{Events: []event.Event{}}
		for _, s := range inventory.Plan(inventory.Input{Stream: stream, First: inventory.Moment{At: listed.At, Until: listed.At, Platform: listed.PlatformUntil},
			Seen: inventory.Candidates(stream, look), Look: look, Feed: inventory.Feed{UpTo: listed.At}, MaxEnds: 20}) {
			got.Events = append(got.Events, s.Events...)
		}
		compareGolden(t, file, got)
	}
}
