package local

import (
	"context"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/local/handoff"
	"github.com/tollgate-dev/tollgate/internal/provider/local/localtest"
)

// testPort is the proxies' port in tests. It lies below the range that the
// system takes ephemeral ports from.
const testPort = 23128

// fixture is one directory, as one or more workers see it.
type fixture struct {
	testing.TB
	dir string
}

// newFixture makes a directory and ends, at the end of the test, every process
// that it accounts for.
func newFixture(tb testing.TB) *fixture {
	tb.Helper()
	f := &fixture{TB: tb, dir: tb.TempDir()}
	tb.Cleanup(func() { killAll(tb, f.dir) })
	return f
}

// open builds a provider as a worker does.
func (f *fixture) open(change ...func(*Options)) *Provider {
	f.Helper()
	return f.openAs("ours", change...)
}

func (f *fixture) openAs(installation string, change ...func(*Options)) *Provider {
	f.Helper()
	zero := time.Duration(0)
	o := Options{Binary: localtest.Binary(f), Drain: &zero}
	for _, c := range change {
		c(&o)
	}
	p, err := New(provider.Config{
		Name: "here", Installation: installation, StateDir: f.dir, Decode: decodeFrom(o), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		f.Fatal(err)
	}
	return p
}

// decodeFrom stands for the configuration file.
func decodeFrom(o Options) func(any) error {
	return func(into any) error {
		reflect.ValueOf(into).Elem().Set(reflect.ValueOf(o))
		return nil
	}
}

var uids atomic.Int64

// request is a valid request of a new owner. Names differ between runs of the
// test program, too, since addresses follow from them.
func request() provider.CreateRequest {
	uid := strconv.Itoa(os.Getpid()) + "-" + strconv.FormatInt(uids.Add(1), 10)
	return provider.CreateRequest{
		Name:  provider.InstanceName(uid, 0),
		Marks: provider.Marks{UID: uid, Installation: "ours", Namespace: "default", Proxy: "demo", SpecHash: "spec-a"},
		Port:  testPort,
	}
}

func (f *fixture) create(p *Provider, req provider.CreateRequest) provider.InstanceID {
	f.Helper()
	id, err := p.Create(f.Context(), req)
	if err != nil {
		f.Fatalf("create %s: %v", req.Name, err)
	}
	return id
}

// running waits until the instance is Running and returns it.
func (f *fixture) running(p *Provider, id provider.InstanceID) provider.Instance {
	f.Helper()
	return f.waitState(p, id, provider.StateRunning)
}

func (f *fixture) waitState(p *Provider, id provider.InstanceID, want provider.State) (in provider.Instance) {
	f.Helper()
	f.eventually("state "+string(want), func() (bool, any) {
		var err error
		if in, err = p.Get(f.Context(), id); err != nil {
			f.Fatalf("get %s: %v", id, err)
		}
		return in.State == want, in.State
	})
	return in
}

func (f *fixture) eventually(what string, ok func() (bool, any)) {
	f.Helper()
	eventually(f, what, ok)
}

func eventually(tb testing.TB, what string, ok func() (bool, any)) {
	tb.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		done, last := ok()
		if done {
			return
		}
		if time.Now().After(deadline) {
			tb.Fatalf("waited 30s for %s: last saw %v", what, last)
		}
		time.Sleep(2 * time.Millisecond) // between two looks
	}
}

// pid is the process of an instance, as the process itself wrote it down.
func (f *fixture) pid(name string) int {
	f.Helper()
	r := instance{name: name, dir: filepath.Join(f.dir, "instances", name)}.ready()
	if r == nil {
		f.Fatalf("instance %s has written no %s", name, handoff.ReadyFile)
	}
	return r.Process.PID
}

// processes lists the live proxies of a directory by what they were started
// with, whatever the directory says. Zombies have no command line.
func processes(tb testing.TB, dir string) map[int]string {
	tb.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		tb.Fatal(err)
	}
	out := map[int]string{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		b, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		args := strings.Split(string(b), "\x00")
		if len(args) >= 3 && args[0] == "tollgate-proxy" && strings.HasPrefix(args[2], dir+"/") {
			out[pid] = filepath.Base(args[2])
		}
	}
	return out
}

// killAll ends the processes of a directory that only this test made.
func killAll(tb testing.TB, dir string) {
	tb.Helper()
	eventually(tb, "the end of all processes", func() (bool, any) {
		left := processes(tb, dir)
		for pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		return len(left) == 0, left
	})
}

// files lists every file below the directory.
func files(tb testing.TB, dir string) []string {
	tb.Helper()
	out := []string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(dir, path)
			out = append(out, rel)
		}
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

// wantNothing checks that no process and no file of an instance is left.
func (f *fixture) wantNothing() {
	f.Helper()
	if left := processes(f, f.dir); len(left) != 0 {
		f.Errorf("processes are left: %v", left)
	}
	for _, sub := range []string{"instances", "locks"} {
		entries, err := os.ReadDir(filepath.Join(f.dir, sub))
		if err != nil && !os.IsNotExist(err) {
			f.Error(err)
		}
		for _, e := range entries {
			f.Errorf("%s/%s is left", sub, e.Name())
		}
	}
}

func wantClass(tb testing.TB, err error, want provider.Class) {
	tb.Helper()
	if got := provider.ClassOf(err); got != want {
		tb.Errorf("class %q, want %q: %v", got, want, err)
	}
}

func TestLifeOfAnInstance(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.open()
	req := request()
	secret := "cloud-init-sentinel"
	req.CloudInit = provider.NewSensitive([]byte(secret))
	before := time.Now()
	id := f.create(p, req)
	if want := provider.InstanceID("local/" + req.Name); id != want {
		t.Errorf("id %q, want %q", id, want)
	}
	in := f.running(p, id)
	if !netip.MustParsePrefix(defaultNetwork).Contains(in.IP) {
		t.Errorf("address %v is not of %s", in.IP, defaultNetwork)
	}
	if in.Marks != req.Marks || in.Name != req.Name || in.CreatedAt.Before(before.Add(-time.Second)) || in.CreatedAt.Location() != time.UTC {
		t.Errorf("read back %+v, want the facts of %+v", in, req)
	}
	path := filepath.Join(f.dir, "instances", req.Name, userDataFile)
	if got, err := os.ReadFile(path); err != nil || string(got) != secret {
		t.Errorf("%s holds %q, %v; want %q", path, got, err, secret)
	}
	for _, name := range files(t, f.dir) {
		if st, err := os.Stat(filepath.Join(f.dir, name)); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, %v; want 0600", name, st.Mode(), err)
		}
	}
	if st, err := os.Stat(filepath.Dir(path)); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("the instance's directory: mode %v, %v; want 0700", st.Mode(), err)
	}
	if err := p.Delete(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	_, err := p.Get(t.Context(), id)
	wantClass(t, err, provider.NotFound)
	if err := p.Delete(context.Background(), id); err != nil {
		t.Errorf("second delete: %v", err)
	}
	f.wantNothing()
}

func read(tb testing.TB, path string) string {
	tb.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	return string(b)
}
