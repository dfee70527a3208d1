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
