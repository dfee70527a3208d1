package source_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/internal/source/memory"
)

// What is missing gives no sample, and an empty label, and nothing else.
func TestFamilies(t *testing.T) {
	t.Parallel()
	created := time.Date(2026, 11, 2, 6, 0, 0, 500e6, time.UTC)
	full := source.Existing{
		Account: "acme", Resource: event.Resource{Type: event.Server, ID: "42", Name: "web"}, CreatedAt: created, Region: "fsn1",
		Leaving: true, State: event.Off,
		Size:   event.Size{event.VCPUs: event.Int(2), event.RAMGB: event.Float(0.5), event.ServerType: event.Text("cx22")},
		Info:   map[string]string{"status": "stopping", event.ServerType: "not this", "type/b": "m1", "type/a": "m2"},
		Values: map[string]float64{"price_eur_per_hour": 0.006, "count/b": 2, "count/a": 0},
	}
	one := func(v float64, labels ...string) []source.Sample { return []source.Sample{{Labels: labels, Value: v}} }
	for name, tt := range map[string]struct {
		family      source.Family
		full, empty []source.Sample
	}{
		"info": {source.InfoFamily("account", "id", "name", "region", "state", event.ServerType, "status"),
			one(1, "acme", "42", "web", "fsn1", "off", "cx22", "stopping"), one(1, "", "", "", "", "", "", "")},
		"size":          {source.SizeFamily(event.RAMGB, "memory_bytes", "", source.GiB), one(1 << 29), nil},
		"size, a word":  {source.SizeFamily(event.ServerType, "x", "", 1), nil, nil},
		"value":         {source.PriceFamily(), one(0.006), nil},
		"word":          {source.WordFamily("status", "", "status"), one(1, "stopping"), nil},
		"created":       {source.CreatedFamily(), one(1793599200.5), nil},
		"leaving":       {source.LeavingFamily(), one(1), one(0)},
		"each, numbers": {source.EachValue("count", "", "pool", "count/"), []source.Sample{{Labels: []string{"a"}}, {Labels: []string{"b"}, Value: 2}}, nil},
		"each, words": {source.EachWord("type", "", "pool", "type", "type/"),
			[]source.Sample{{Labels: []string{"a", "m2"}, Value: 1}, {Labels: []string{"b", "m1"}, Value: 1}}, nil},
	} {
		if diff := cmp.Diff(tt.family.Read(full), tt.full); diff != "" {
			t.Errorf("%s (-got +want):\n%s", name, diff)
		}
		if diff := cmp.Diff(tt.family.Read(source.Existing{}), tt.empty); diff != "" {
			t.Errorf("%s of nothing (-got +want):\n%s", name, diff)
		}
	}
}

func TestCheckExports(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*source.Export)
		want   string
	}{
		"good":            {func(*source.Export) {}, ""},
		"other prefix":    {func(x *source.Export) { x.Prefix = "things_of" }, ""},
		"no kind":         {func(x *source.Export) { x.Type = "stray" }, `"stray" is no kind`},
		"nothing":         {func(x *source.Export) { x.Families = nil }, "Families is empty"},
		"name":            {func(x *source.Export) { x.Families[0].Name = "Size" }, `"tollgate_memory_thing_Size": want lower-case words`},
		"unit":            {func(x *source.Export) { x.Families[0].Name = "size_gb" }, "base unit"},
		"counter":         {func(x *source.Export) { x.Families[0].Name = "pulls_total" }, "base unit"},
		"same name twice": {func(x *source.Export) { x.Families = append(x.Families, x.Families[0]) }, "is there twice"},
		"help":            {func(x *source.Export) { x.Families[0].Help = "size" }, "is no sentence"},
		"no read":         {func(x *source.Export) { x.Families[0].Read = nil }, "Read is nil"},
		"label":           {func(x *source.Export) { x.Families[0].Labels = []string{"a-b"} }, `label "a-b"`},
		"label twice":     {func(x *source.Export) { x.Families[0].Labels = []string{"id"} }, `label "id"`},
		"label of ours":   {func(x *source.Export) { x.Identity = []string{"source"} }, `label "source"`},
	} {
		typ := memory.Type(&memory.Feed{})
		x := source.Export{Type: memory.Kind().Type, Families: []source.Family{source.SizeFamily("units", "units", "Units of it.", 1)}}
		tc.change(&x)
		typ.Exports = []source.Export{x}
		err := source.CheckType(typ)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
	typ := memory.Type(&memory.Feed{})
	x := source.Export{Type: memory.Kind().Type, Families: []source.Family{source.LeavingFamily()}}
	typ.Exports = []source.Export{x, x}
	if err := source.CheckType(typ); err == nil || !strings.Contains(err.Error(), `"thing" is there twice`) {
		t.Errorf("twice: %v", err)
	}
}
