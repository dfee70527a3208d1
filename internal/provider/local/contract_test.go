package local

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/local/handoff"
	"github.com/tollgate-dev/tollgate/internal/provider/local/localtest"
	"github.com/tollgate-dev/tollgate/internal/provider/providertest"
)

func TestContract(t *testing.T) {
	t.Parallel()
	binary := localtest.Binary(t)
	drain := time.Duration(0)
	providertest.Run(t, providertest.Harness{
		Profile:    Type().Profile,
		NewBackend: func(tb testing.TB) providertest.Backend { return &machine{newFixture(tb)} },
		Open: func(tb testing.TB, b providertest.Backend, o providertest.OpenOptions) provider.Provider {
			tb.Helper()
			cfg := o.Config()
			cfg.StateDir = b.(*machine).dir
			cfg.Decode = decodeFrom(Options{Binary: binary, Drain: &drain})
			p, err := Type().New(tb.Context(), cfg)
			if err != nil {
				tb.Fatal(err)
			}
			return p
		},
		Hooks:        []providertest.Hook{providertest.HookPlace, providertest.HookStop},
		Checker:      true,
		Pricer:       true,
		BadPlacement: provider.Placement{Region: "moon"},
		Placement:    provider.Placement{Region: Region},
		Port:         testPort,
	})
}

// machine is this machine as the kit sees it: the directory, and the processes
// that say they belong to it.
type machine struct{ *fixture }

const kindProcess = "process"

func (m *machine) Things(tb testing.TB) []providertest.Thing {
	tb.Helper()
	var out []providertest.Thing
	entries, err := os.ReadDir(filepath.Join(m.dir, "instances"))
	if err != nil && !os.IsNotExist(err) {
		tb.Fatal(err)
	}
	for _, e := range entries {
		thing := providertest.Thing{Kind: providertest.KindInstance, ID: e.Name(), Name: e.Name()}
		meta, err := m.instance(e.Name()).meta()
		if err != nil {
			tb.Errorf("%s has no meta.json: %v", e.Name(), err)
		}
		thing.Marks, thing.Managed = provider.MarksFromLabels(meta.Labels)
		out = append(out, thing)
	}
	for pid, name := range processes(tb, m.dir) {
		out = append(out, providertest.Thing{Kind: kindProcess, ID: name, Name: name})
		if !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == name }) {
			tb.Errorf("process %d belongs to no instance", pid)
		}
	}
	slices.SortFunc(out, func(a, b providertest.Thing) int {
		return slices.Compare([]string{a.Kind, a.ID}, []string{b.Kind, b.ID})
	})
	return out
}

func (m *machine) Place(tb testing.TB, name string, marks provider.Marks, managed bool) {
	tb.Helper()
	labels := map[string]string{}
	if managed {
		labels = marks.Labels()
	}
	i := m.instance(name)
	if err := os.MkdirAll(i.dir, 0o700); err != nil {
		tb.Fatal(err)
	}
	if err := handoff.WriteFile(i.dir, handoff.LockFile, nil, false); err != nil {
		tb.Fatal(err)
	}
	if err := i.writeMeta(meta{Version: metaVersion, Name: name, Labels: labels, CreatedAt: time.Now().UTC(), Port: testPort}); err != nil {
		tb.Fatal(err)
	}
}

func (m *machine) Vanish(tb testing.TB, name string) {
	tb.Helper()
	m.Stop(tb, name)
	if err := os.RemoveAll(m.instance(name).dir); err != nil {
		tb.Fatal(err)
	}
}

func (m *machine) Stop(tb testing.TB, name string) {
	tb.Helper()
	for pid, of := range processes(tb, m.dir) {
		if of == name {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

func (m *machine) instance(name string) instance {
	return instance{name: name, dir: filepath.Join(m.dir, "instances", name)}
}
