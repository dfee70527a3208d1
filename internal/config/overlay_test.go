package config

import (
	"slices"
	"strings"
	"testing"
)

const over = "providers: [{name: sim, type: hetzner, hetzner: {tokenSecretRef: sim-token}}]\nsecrets: {sim-token: {file: /t}}\n"

func TestOverlay(t *testing.T) {
	t.Parallel()
	o := testOptions
	o.Overlay = []byte(over)
	for what, tt := range map[string]struct {
		file  string
		names []string
		token string
		want  string // of the error
	}{
		"added":            {base + "probe: {target: 'x:1'}\n", []string{"one", "sim"}, "/t", ""},
		"beside secrets":   {base + "secrets: {a: {env: A}}\nprobe: {target: 'x:1'}\n", []string{"one", "sim"}, "/t", ""},
		"the file's stays": {"installation: a\nproviders: [{name: sim, type: local}]\nsecrets: {sim-token: {file: /mine}}\n", []string{"sim"}, "/mine", ""},
		"the file's lines": {base + "    shards: 0\nprobe: {target: 'x:1'}\n", nil, "", "c.yaml:5: providers[0].shards: 0 is out of range"},
		"no target":        {base, nil, "", `probe.target: is required: provider "sim" is not on this machine`},
		"no providers":     {"installation: a\nprobe: {target: 'x:1'}\n", []string{"sim"}, "/t", ""},
		"not a mapping":    {"- a\n", nil, "", "c.yaml:1: is a list"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c, err := Parse([]byte(tt.file), "c.yaml", o)
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%v, want %s", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(c.Names(), tt.names) || c.Secrets["sim-token"].File != tt.token {
				t.Errorf("providers %v, token in %q", c.Names(), c.Secrets["sim-token"].File)
			}
		})
	}
	list := Options{Types: o.Types, Overlay: []byte("- x\n")}
	if _, err := Parse([]byte(base), "c.yaml", list); err == nil {
		t.Error("a list is no overlay")
	}
}

func TestOverlayOfSinksAndSources(t *testing.T) {
	t.Parallel()
	o := testOptions
	o.Overlay = []byte("sinks: [{name: r, type: reporting, url: 'http://127.0.0.1:1'}]\n---\nsources: [{name: s, type: hetzner, account: sim, sink: r}]\n")
	mine := base + "sinks:\n  - {name: r, type: reporting, url: 'http://10.0.0.1:1'}\n  - {name: q, type: reporting, url: 'http://10.0.0.2:1'}\nsources: [{name: s, type: hetzner, account: mine, sink: q}]\n"
	for file, want := range map[string][2]string{base: {"http://127.0.0.1:1", "sim"}, mine: {"http://10.0.0.1:1", "mine"}} {
		c, err := Parse([]byte(file), "c.yaml", o)
		if err != nil {
			t.Fatal(err)
		}
		sink, _ := c.Sink("r")
		source, _ := c.Source("s")
		if sink.URL != want[0] || source.Account != want[1] {
			t.Errorf("sink %q, account %q, want %v", sink.URL, source.Account, want)
		}
	}
}
