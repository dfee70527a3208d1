package api_test

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/tollgate-dev/tollgate/internal/reporting/api"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/reporting/sink"
	"github.com/tollgate-dev/tollgate/internal/reporting/usage"
)

var update = flag.Bool("update", false, "write the published document")

func TestPublishedDocumentIsTheOneOfTheCode(t *testing.T) {
	t.Parallel()
	const published = "../../../docs/reference/reporting.openapi.yaml"
	if *update {
		if err := os.WriteFile(published, api.Document, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(published)
	if err != nil || !bytes.Equal(got, api.Document) {
		t.Errorf("%s is not internal/reporting/api/openapi.yaml (%v): run go test ./internal/reporting/api -update", published, err)
	}
}

func TestGeneratedCodeIsFresh(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "api.gen.go")
	cmd := exec.CommandContext(t.Context(), "go", "tool", "-modfile=oapi-codegen.mod", "oapi-codegen", "-config", "generate.yaml", "-o", out, "openapi.yaml")
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	got, err := os.ReadFile("api.gen.go")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("api.gen.go is not what openapi.yaml gives: run go generate ./internal/reporting/api")
	}
}

// The types that stand in for schemas are written by hand: their fields and
// values must be those of the document.
func TestOwnTypesAreThoseOfTheDocument(t *testing.T) {
	t.Parallel()
	var doc struct {
		Components struct {
			Schemas map[string]struct {
				Enum       []string
				Properties map[string]struct{ Enum []string }
			}
		}
	}
	if err := yaml.Unmarshal(api.Document, &doc); err != nil {
		t.Fatal(err)
	}
	schemas := doc.Components.Schemas
	for name, v := range map[string]any{"Event": event.Event{}, "EventData": event.Data{}, "ResourceName": event.Resource{}} {
		var fields, props []string
		for _, f := range reflect.VisibleFields(reflect.TypeOf(v)) {
			tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			fields = append(fields, tag)
		}
		for p := range schemas[name].Properties {
			props = append(props, p)
		}
		slices.Sort(fields)
		slices.Sort(props)
		if !slices.Equal(fields, props) {
			t.Errorf("%s: the type has %v, the document %v", name, fields, props)
		}
	}
	for name, c := range map[string]struct{ got, want []string }{
		"State": {texts(event.States()...), schemas["State"].Enum},
		"Finding.code": {texts(usage.NoCreate, usage.SecondCreate, usage.BeforeStart, usage.AfterEnd, usage.EndWithoutStart,
			usage.SecondEnd, usage.SizeGap), schemas["Finding"].Properties["code"].Enum},
		"EventResult.outcome": {texts(sink.Accepted, sink.Duplicate, sink.Rejected), schemas["EventResult"].Properties["outcome"].Enum},
		"EventData.derived":   {texts(event.FromInventory), schemas["EventData"].Properties["derived"].Enum},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s: the code has %v, the document %v", name, c.got, c.want)
		}
	}
}

func texts[T ~string](values ...T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}
