package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tollgate-dev/tollgate/internal/config"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/memory"
	"github.com/tollgate-dev/tollgate/internal/source"
)

// testType is a type whose block says what its New does.
func testType() provider.Type {
	p := memory.Profile()
	return provider.Type{
		Name: "test", Summary: "for tests", Profile: p,
		New: func(ctx context.Context, cfg provider.Config) (provider.Provider, error) {
			var block struct {
				TokenSecretRef string `yaml:"tokenSecretRef"`
				Size           int    `yaml:"size"`
			}
			if err := cfg.Decode(&block); err != nil {
				return nil, err
			}
			if block.Size > 10 {
				return nil, errors.Join(errors.New("size: 11 is too large: use 0 to 10"))
			}
			if block.TokenSecretRef != "" {
				if _, err := cfg.Secret(ctx, block.TokenSecretRef); err != nil {
					return nil, err
				}
			}
			return memory.New(ctx, memory.NewBackend(memory.Options{}), provider.Config{Name: cfg.Name})
		},
	}
}

// offline is an App without a connection.
func offline(t *testing.T, o Options) *App {
	t.Helper()
	o.StateDir, o.Types = t.TempDir(), []provider.Type{testType()}
	o, err := o.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	a := &App{opts: o, ready: make(chan struct{})}
	a.opts.Logger = slog.New(slog.DiscardHandler)
	if err := a.instruments(&config.Config{}); err != nil {
		t.Fatal(err)
	}
	a.announce = &announcer{app: a, kick: make(chan struct{}, 1), log: a.log}
	a.registry, a.sources = provider.NewRegistry(o.Types, a.decorate), source.NewRegistry(o.SourceTypes)
	return a
}

const probeLine = "probe: {target: 'example.com:443'}\n"

func parse(t *testing.T, a *App, file, text string) *config.Config {
	t.Helper()
	c, err := config.Parse([]byte(text), file, config.Options{Types: a.opts.Types})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAWrongBlockRefusesTheFile(t *testing.T) {
	t.Parallel()
	const head = "installation: a\nproviders:\n  - name: one\n    type: test\n    test:\n"
	for name, tc := range map[string]struct{ block, want string }{
		"unknown field": {"      sise: 3\n", "c.yaml:6: providers[0].test.sise: unknown field (did you mean size?): allowed are size, tokenSecretRef"},
		"wrong type":    {"      size: big\n", `c.yaml:6: providers[0].test.size: "big" is a string: want a whole number`},
		"wrong value":   {"      size: 11\n", "c.yaml:6: providers[0].test.size: 11 is too large: use 0 to 10"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := offline(t, Options{ConfigFile: "c.yaml"})
			_, err := a.prepare(t.Context(), parse(t, a, "c.yaml", head+tc.block+probeLine))
			if err == nil || err.Error() != tc.want {
				t.Errorf("error:\n%v\nwant\n%s", err, tc.want)
			}
		})
	}
}

func TestAnUnreadableSecretBreaksOneProviderOnly(t *testing.T) {
	t.Parallel()
	a := offline(t, Options{ConfigFile: "c.yaml"})
	dir := t.TempDir()
	text := "installation: a\nproviders:\n  - {name: one, type: test, test: {tokenSecretRef: tok}}\n  - {name: two, type: test}\nsecrets: {tok: {file: token}}\n" + probeLine
	apply := func() {
		t.Helper()
		v, err := a.prepare(t.Context(), parse(t, a, filepath.Join(dir, "c.yaml"), text))
		if err != nil {
			t.Fatal(err)
		}
		if err := a.commit(t.Context(), v); err != nil {
			t.Fatal(err)
		}
	}
	apply()
	one, _, ok, err := a.lookup("one")
	if !ok || one != nil || err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "token")) {
		t.Errorf("one: %v, %v, %v", one, ok, err)
	}
	if two, _, ok, err := a.lookup("two"); !ok || two == nil || err != nil {
		t.Errorf("two: %v, %v, %v", two, ok, err)
	}
	if _, _, ok, _ := a.lookup("three"); ok {
		t.Error("a provider that is not configured is found")
	}

	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("t\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	apply()
	if one, _, ok, err := a.lookup("one"); !ok || one == nil || err != nil {
		t.Errorf("one with its secret there: %v, %v, %v", one, ok, err)
	}
}

func TestWhatAReloadCannotChange(t *testing.T) {
	t.Parallel()
	a := offline(t, Options{ConfigFile: "c.yaml"})
	text := "installation: a\nproviders: [{name: one, type: test}]\n" + probeLine
	v, err := a.prepare(t.Context(), parse(t, a, "c.yaml", text))
	if err != nil {
		t.Fatal(err)
	}
	if err := a.commit(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	for changed, want := range map[string]string{
		strings.Replace(text, "installation: a", "installation: b", 1): `c.yaml: installation: a reload cannot change it from "a" to "b": restart the worker`,
		text + "codec: {keyFile: /k}\n":                                `c.yaml: codec.keyFile: a reload cannot change it from "" to "/k": restart the worker`,
		text + "log: {format: json}\n":                                 `c.yaml: log.format: a reload cannot change it from "text" to "json": restart the worker`,
	} {
		err := a.reload(t.Context(), parse(t, a, "c.yaml", changed))
		if err == nil || err.Error() != want {
			t.Errorf("error:\n%v\nwant\n%s", err, want)
		}
		if got := a.Config().Installation; got != "a" {
			t.Errorf("installation = %s", got)
		}
	}
	if err := a.reload(t.Context(), parse(t, a, "c.yaml", text+"log: {level: debug}\n")); err != nil {
		t.Fatal(err)
	}
	if a.level.Level() != slog.LevelDebug {
		t.Errorf("level = %s, want the new one", a.level.Level())
	}
}

func TestAProviderFindsItsSecretsWhereTheNewestFileSays(t *testing.T) {
	t.Parallel()
	a := offline(t, Options{ConfigFile: "c.yaml"})
	dir := t.TempDir()
	file := filepath.Join(dir, "c.yaml")
	for _, name := range []string{"old", "new"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("same"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text := "installation: a\nproviders: [{name: one, type: test}]\nsecrets: {tok: {file: old}}\n" + probeLine
	first, err := a.prepare(t.Context(), parse(t, a, file, text))
	if err != nil {
		t.Fatal(err)
	}
	if err := a.commit(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	before, _ := a.registry.Get("one")
	if err := a.reload(t.Context(), parse(t, a, file, strings.Replace(text, "file: old", "file: new", 1))); err != nil {
		t.Fatal(err)
	}
	if after, _ := a.registry.Get("one"); after != before {
		t.Fatal("the provider was built anew although nothing of it has changed")
	}
	if err := os.Remove(filepath.Join(dir, "old")); err != nil {
		t.Fatal(err)
	}
	// The provider still has the function of the first version.
	if s, err := first.defs[0].Config.Secret(t.Context(), "tok"); err != nil || string(s.Reveal()) != "same" {
		t.Errorf("secret: %v", err)
	}
}

func TestCheckFindsWhatNewWouldRefuse(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "c.yaml")
	for text, want := range map[string]string{
		"installation: a\nproviders: [{name: one, type: test}]\n" + probeLine:                                                         "",
		"installation: a\nproviders: [{name: one, type: test, test: {size: 11}}]\n" + probeLine:                                       ":2: providers[0].test.size: 11 is too large: use 0 to 10",
		"installation: a\nproviders: [{name: one, type: tets}]\n":                                                                     `:2: providers[0].type: "tets" is unknown: use one of test`,
		"installation: a\nproviders: [{name: one, type: test}]\nprobe: {target: 'x:1', tls: {enabled: true, caFile: /none/ca.pem}}\n": ": probe.tls.caFile: open /none/ca.pem: no such file or directory",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Check(t.Context(), Options{ConfigFile: file, Types: []provider.Type{testType()}, StateDir: t.TempDir()})
		switch {
		case want == "" && err != nil:
			t.Errorf("refused: %v", err)
		case want != "" && (err == nil || err.Error() != file+want):
			t.Errorf("error:\n%v\nwant\n%s%s", err, file, want)
		}
	}
}

func TestLoopback(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		"0.0.0.0:80": "127.0.0.1:80", "[::]:80": "127.0.0.1:80", "127.0.0.1:80": "127.0.0.1:80", "192.0.2.1:80": "192.0.2.1:80",
	} {
		tcp, err := net.ResolveTCPAddr("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if got := loopback(tcp); got != want {
			t.Errorf("loopback(%s) = %s, want %s", addr, got, want)
		}
	}
}
