package strictyaml_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/tollgate-dev/tollgate/internal/strictyaml"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

type inner struct {
	Name   string            `yaml:"name"`
	Count  int               `yaml:"count"`
	Small  uint8             `yaml:"small"`
	Share  float64           `yaml:"share"`
	On     bool              `yaml:"on"`
	Wait   time.Duration     `yaml:"wait"`
	At     time.Time         `yaml:"at"`
	Every  api.Duration      `yaml:"every"`
	Labels map[string]string `yaml:"labels"`
	List   []string          `yaml:"list"`
	Token  string            `yaml:"token"`
}

type common struct {
	Region string `yaml:"region"`
}

type outer struct {
	Inner  inner                `yaml:"inner"`
	Ptr    *inner               `yaml:"ptr"`
	Items  []inner              `yaml:"items"`
	Raw    yaml.Node            `yaml:"raw"`
	Free   any                  `yaml:"free"`
	Plain  int                  // keyed by its lower-case name
	Blocks map[string]yaml.Node `yaml:"blocks"`
	Common common               `yaml:",inline"`
}

type open struct {
	Name string               `yaml:"name"`
	Rest map[string]yaml.Node `yaml:",inline"`
}

func TestDecodeReadsWhatIsRight(t *testing.T) {
	t.Parallel()
	got := outer{Plain: 7, Inner: inner{Count: 5}}
	err := strictyaml.Decode(strings.NewReader(`
inner: &i
  name: a
  small: 0xff
  share: 1
  on: true
  wait: 90s
  at: 2026-01-02T03:04:05Z
  every: 10m
  labels: {x: "1", d: 2026-01-02}
  list: [a, b]
ptr: *i
items:
- <<: *i
  name: b
- ~
raw: {any: [1]}
free: {a: [1, x]}
region: fsn
blocks:
`), "f.yaml", &got)
	if err != nil {
		t.Fatal(err)
	}
	if got.Inner.Count != 5 || got.Plain != 7 {
		t.Errorf("defaults of fields that were left out: got %d and %d, want 5 and 7", got.Inner.Count, got.Plain)
	}
	want := []string{"a", "b"}
	if diff := cmp.Diff(got.Items[0].List, want); diff != "" || got.Items[0].Name != "b" {
		t.Errorf("merged item: %+v (-got +want)\n%s", got.Items[0], diff)
	}
	if got.Inner.Wait != 90*time.Second || got.Inner.Every.Std() != 10*time.Minute || got.Inner.Small != 255 ||
		!got.Inner.On || got.Ptr.Name != "a" || got.Common.Region != "fsn" || got.Inner.Labels["d"] != "2026-01-02" {
		t.Errorf("decoded %+v", got)
	}
}

func TestDecodeNamesEachProblem(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, in, want string }{
		{"empty", "# nothing\n---\n", "f.yaml: is empty: one YAML document is wanted"},
		{"two documents", "plain: 1\n---\nplain: 2\n", "f.yaml:3: a second document starts here: one is wanted"},
		{"syntax", "inner:\n  name: a\n bad: b\n", "f.yaml:2: is not YAML: did not find expected key"},
		{"tab", "inner:\n\tname: a\n", "f.yaml:2: is not YAML: found character that cannot start any token"},
		{"undefined alias", "inner: *nope\n", "f.yaml: is not YAML: unknown anchor 'nope' referenced"},
		{"not a mapping", "- a\n", "f.yaml:1: is a list: want a mapping of fields"},
		{"unknown field", "inner:\n  nmae: a\n", "f.yaml:2: inner.nmae: unknown field (did you mean name?): allowed are at, count, every, labels, list, name, on, share, small, token, wait"},
		{"unknown field at top", "zzz: 1\n", "f.yaml:1: zzz: unknown field: allowed are blocks, free, inner, items, plain, ptr, raw, region"},
		{"wrong case", "Plain: 1\n", "f.yaml:1: Plain: unknown field (did you mean plain?): allowed are blocks, free, inner, items, plain, ptr, raw, region"},
		{"duplicate key", "plain: 1\nplain: 2\n", "f.yaml:2: plain: is given twice, first in line 1"},
		{"duplicate key in a map", "inner:\n  labels:\n    a: x\n    a: y\n", "f.yaml:4: inner.labels.a: is given twice, first in line 3"},
		{"duplicate key in raw", "raw:\n  a: 1\n  a: 2\n", "f.yaml:3: raw.a: is given twice, first in line 2"},
		{"string for int", "inner: {count: many}\n", `f.yaml:1: inner.count: "many" is a string: want a whole number`},
		{"quoted int", "inner: {count: \"3\"}\n", `f.yaml:1: inner.count: "3" is a string: want a whole number`},
		{"fraction for int", "inner: {count: 1.5}\n", "f.yaml:1: inner.count: 1.5 is a number: want a whole number"},
		{"out of range", "inner: {small: 256}\n", "f.yaml:1: inner.small: 256 is a whole number: want a whole number from 0 to 255"},
		{"negative", "inner: {small: -1}\n", "f.yaml:1: inner.small: -1 is a whole number: want a whole number from 0 to 255"},
		{"int for string", "inner: {name: 12}\n", "f.yaml:1: inner.name: 12 is a whole number: want a string; put it in quotes"},
		{"bool for string", "inner: {name: true}\n", "f.yaml:1: inner.name: true is a truth value: want a string; put it in quotes"},
		{"secret value stays out", "inner: {token: 12345}\n", "f.yaml:1: inner.token: the value is a whole number: want a string; put it in quotes"},
		{"string for bool", "inner: {on: maybe}\n", `f.yaml:1: inner.on: "maybe" is a string: want true or false`},
		{"string for number", "inner: {share: half}\n", `f.yaml:1: inner.share: "half" is a string: want a number`},
		{"not a number", "inner: {share: .nan}\n", "f.yaml:1: inner.share: .nan is a number: want a number"},
		{"list for mapping", "inner: [a]\n", "f.yaml:1: inner: is a list: want a mapping of fields"},
		{"secret for mapping", "inner: s3cr3t\n", "f.yaml:1: inner: is a string: want a mapping of fields"},
		{"mapping for list", "items: {a: b}\n", "f.yaml:1: items: is a mapping: want a list"},
		{"mapping for string", "inner: {name: {a: b}}\n", "f.yaml:1: inner.name: is a mapping: want a string; put it in quotes"},
		{"in a list", "items:\n- name: a\n- count: x\n", `f.yaml:3: items[1].count: "x" is a string: want a whole number`},
		{"in a map", "inner: {labels: {a: 1}}\n", "f.yaml:1: inner.labels[a]: 1 is a whole number: want a string; put it in quotes"},
		{"duration without unit", "inner: {wait: 10}\n", `f.yaml:1: inner.wait: 10 is a whole number: want a duration such as "10m" or "90s"`},
		{"duration of its own type", "inner: {every: 10}\n", `f.yaml:1: inner.every: duration "10": want a number with a unit, such as "10m" or "90s"`},
		{"time", "inner: {at: soon}\n", `f.yaml:1: inner.at: "soon" is a string: want a time such as 2006-01-02T15:04:05Z`},
		{"key that is a list", "? [a]\n: 1\n", "f.yaml:1: a key is a list: want a plain word"},
		{"merge of a scalar", "inner:\n  <<: 3\n", "f.yaml:2: inner: << merges a whole number: want a mapping"},
		{"unknown field through a merge", "free: &a {zzz: 1}\ninner: {<<: *a}\n", "f.yaml:1: inner.zzz: unknown field: allowed are at, count, every, labels, list, name, on, share, small, token, wait"},
		{"all at once, by line", "plain: x\ninner:\n  on: 3\n  zzz: 1\n", "f.yaml:1: plain: \"x\" is a string: want a whole number\n" +
			"f.yaml:3: inner.on: 3 is a whole number: want true or false\n" +
			"f.yaml:4: inner.zzz: unknown field: allowed are at, count, every, labels, list, name, on, share, small, token, wait"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var into outer
			err := strictyaml.Decode(strings.NewReader(tc.in), "f.yaml", &into)
			if err == nil {
				t.Fatalf("no error, decoded %+v", into)
			}
			if diff := cmp.Diff(err.Error(), tc.want); diff != "" {
				t.Errorf("error (-got +want)\n%s", diff)
			}
		})
	}
}

func TestManyProblemsAreCapped(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 30 {
		fmt.Fprintf(&b, "z%d: 1\n", i)
	}
	err := strictyaml.Decode(strings.NewReader(b.String()), "f", &outer{})
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 21 || lines[20] != "f: 10 more problems" {
		t.Errorf("got %d lines, the last %q", len(lines), lines[len(lines)-1])
	}
}

func TestAliasesCannotMultiply(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n")
	for i := 1; i < 10; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 10), ","))
	}
	var into map[string]any
	if err := strictyaml.Decode(strings.NewReader(b.String()), "f", &into); err == nil {
		t.Error("ten billion aliased values were decoded")
	}
	if err := strictyaml.Decode(strings.NewReader("a: &a\n  b: *a\n"), "f", &into); err == nil {
		t.Error("a value that contains itself was decoded")
	}
}

func TestDocuments(t *testing.T) {
	t.Parallel()
	docs, err := strictyaml.Documents(strings.NewReader("---\nkind: A\nmetadata: {name: x}\n---\n# none\n---\nkind: B\nlist:\n- a\n- name: y\n"), "f.yaml")
	if err != nil || len(docs) != 2 {
		t.Fatalf("got %d documents, %v", len(docs), err)
	}
	for _, tc := range []struct {
		doc  int
		path string
		line int
		text string
	}{
		{0, "kind", 2, "A"}, {0, "metadata.name", 3, "x"}, {0, "metadata.none", 3, ""}, {0, "none", 2, ""},
		{1, "kind", 7, "B"}, {1, "list[1].name", 10, "y"}, {1, "list[0]", 9, "a"}, {1, "list[7]", 8, ""}, {1, "list", 8, ""},
	} {
		text, _ := docs[tc.doc].String(tc.path)
		if line := docs[tc.doc].Locate(tc.path); line != tc.line || text != tc.text {
			t.Errorf("document %d, %s: line %d %q, want line %d %q", tc.doc, tc.path, line, text, tc.line, tc.text)
		}
	}
	if docs[1].File() != "f.yaml" || docs[1].Line() != 7 {
		t.Errorf("second document is at %s:%d", docs[1].File(), docs[1].Line())
	}
}

func TestAnnotate(t *testing.T) {
	t.Parallel()
	docs, err := strictyaml.Documents(strings.NewReader("spec:\n  port: 70000\n  labels:\n    a.b: '?'\n"), "f.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cause := errors.New("spec.port: 70000 is too large")
	got := docs[0].Annotate(errors.Join(cause, errors.Join(nil, errors.New("spec.labels[a.b]: bad")), errors.New("no path here"), errors.New("two words: x")))
	want := "f.yaml:2: spec.port: 70000 is too large\nf.yaml:4: spec.labels[a.b]: bad\nf.yaml:1: no path here\nf.yaml:1: two words: x"
	if diff := cmp.Diff(got.Error(), want); diff != "" {
		t.Errorf("annotated (-got +want)\n%s", diff)
	}
	if !errors.Is(got, cause) {
		t.Error("the cause is lost")
	}
	if docs[0].Annotate(nil) != nil {
		t.Error("nil became an error")
	}
	if again := docs[0].Annotate(got); again.Error() != got.Error() {
		t.Errorf("annotated twice: %v", again)
	}
}

func TestFromNodeKeepsFileLineAndPath(t *testing.T) {
	t.Parallel()
	var o open
	if err := strictyaml.Decode(strings.NewReader("name: a\nlocal:\n  count: 1\n  nope: 2\n"), "f.yaml", &o); err != nil {
		t.Fatal(err)
	}
	node := o.Rest["local"]
	part := strictyaml.FromNode(&node, "f.yaml", "providers[0].local")
	err := part.Decode(&struct {
		Count int `yaml:"count"`
	}{})
	if want := "f.yaml:4: providers[0].local.nope: unknown field: allowed are count"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if got := part.Annotate(errors.New("providers[0].local.count: is too small")); got.Error() != "f.yaml:3: providers[0].local.count: is too small" {
		t.Errorf("got %v", got)
	}
}

type selfMade struct{}

func (s *selfMade) UnmarshalYAML(n *yaml.Node) error {
	return strictyaml.FromNode(n, "", "x").Decode(&struct {
		N int `yaml:"n"`
	}{})
}

func TestErrorsOfUnmarshalMethodsAreKept(t *testing.T) {
	t.Parallel()
	var into struct {
		X selfMade `yaml:"x"`
	}
	err := strictyaml.Decode(strings.NewReader("x:\n  m: 1\n  o: 2\n"), "f", &into)
	if want := "f:2: x.m: unknown field (did you mean n?): allowed are n\nf:3: x.o: unknown field (did you mean n?): allowed are n"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("inner: {name: a, count: 1}\nitems: [{on: true}]\n")
	f.Add("a: &a [*a]\n<<: *a\n")
	f.Fuzz(func(t *testing.T, in string) {
		var o outer
		if err := strictyaml.Decode(strings.NewReader(in), "f", &o); err == nil {
			if _, err := yaml.Marshal(o.Inner); err != nil {
				t.Errorf("what was decoded does not encode: %v", err)
			}
		}
	})
}
