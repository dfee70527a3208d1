package gardener_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
	source_gardener "github.com/tollgate-dev/tollgate/internal/source/gardener"
)

var update = flag.Bool("update", false, "write the golden files")

// recording answers as the API server did from which testdata/watch.jsonl was
// recorded: a shoot's whole life.
func recording(t *testing.T, watch func(w io.Writer, from string)) *source_gardener.Source {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		q := r.URL.Query()
		switch {
		case strings.HasPrefix(r.URL.Path, "/api/v1/namespaces/"):
			fmt.Fprint(w, `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"garden-probe","labels":{"project.gardener.cloud/name":"probe"}}}`)
		case q.Has("watch"):
			watch(w, q.Get("resourceVersion"))
		case q.Get("limit") == "1" || q.Get("resourceVersion") == "238":
			fmt.Fprint(w, `{"kind":"ShootList","apiVersion":"core.gardener.cloud/v1beta1","metadata":{"resourceVersion":"238"},"items":[]}`)
		default:
			fmt.Fprint(w, `{"kind":"ShootList","apiVersion":"core.gardener.cloud/v1beta1","metadata":{"resourceVersion":"221"},"items":[]}`)
		}
	}))
	t.Cleanup(srv.Close)
	kubeconfig := fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: x, clusters: [{name: c, cluster: {server: %q}}], contexts: [{name: x, context: {cluster: c}}]}`, srv.URL)
	s, err := source_gardener.New(source.Config{Name: "garden", Account: "live",
		Secret: func(context.Context, string) (provider.Sensitive, error) {
			return provider.NewSensitive(kubeconfig), nil
		},
		Decode: func(into any) error {
			o := into.(*source_gardener.Options)
			o.Kubeconfig, o.Wait, o.QPS = "kubeconfig", 10*time.Millisecond, 1000
			return nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// What comes of the recorded life, to the last field.
func TestRecordedLife(t *testing.T) {
	t.Parallel()
	life, err := os.ReadFile(filepath.Join("testdata", "watch.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	s := recording(t, func(w io.Writer, from string) {
		for line := range bytes.Lines(life) {
			var head struct {
				Object struct {
					Metadata struct {
						Version string `json:"resourceVersion"`
					} `json:"metadata"`
				} `json:"object"`
			}
			if err := json.Unmarshal(line, &head); err != nil {
				t.Error(err)
			}
			if head.Object.Metadata.Version > from { // all have three digits
				_, _ = w.Write(line)
			}
		}
	})
	var c source.Cursor
	var events []event.Event
	for {
		p, err := s.Next(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range p.Items {
			if err := source_gardener.Type().Check(i); err != nil {
				t.Error(err)
			}
			events = append(events, i.Event)
		}
		if p.CaughtUp && c != "" {
			break
		}
		c = p.Next
	}
	got, err := json.MarshalIndent(events, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "events.golden.json")
	if *update {
		if err := os.WriteFile(golden, append(got, '\n'), 0o644); err != nil { //nolint:gosec // a golden file
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.TrimSpace(string(want)), string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The recorded answer to a version that is too old: HTTP 200 and an event.
func TestRecordedExpiry(t *testing.T) {
	t.Parallel()
	expired := false
	s := recording(t, func(w io.Writer, _ string) {
		expired = true
		fmt.Fprintln(w, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",`+
			`"message":"too old resource version: 1 (198)","reason":"Expired","code":410}}`)
	})
	p, err := s.Next(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if p, err = s.Next(t.Context(), p.Next); err != nil || p.Gap == nil || !p.CaughtUp || !expired {
		t.Errorf("%+v, %v: want a page with a gap", p, err)
	}
}
