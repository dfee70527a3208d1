package local

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/local/handoff"
)

// procState is the letter of a process in /proc, "" when it is gone.
func procState(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, after, _ := strings.Cut(string(b), ") ")
	return after[:1]
}

func TestKilledProcessIsStoppedAndNoZombie(t *testing.T) {
	t.Parallel()
	f, req := newFixture(t), request()
	p := f.open()
	id := f.create(p, req)
	f.running(p, id)
	pid := f.pid(req.Name)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	in := f.waitState(p, id, provider.StateStopped)
	if in.RawState != rawExited {
		t.Errorf("raw state %q, want %q", in.RawState, rawExited)
	}
	f.eventually("the process is reaped", func() (bool, any) { return procState(pid) == "", procState(pid) })
	// A repeated create does not revive what stopped.
	if again := f.create(p, req); again != id {
		t.Errorf("repeated create gives %q, want %q", again, id)
	}
	f.waitState(p, id, provider.StateStopped)
	if err := p.Delete(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	f.wantNothing()
}

func TestFrozenProcessIsRunningAndCanBeDeleted(t *testing.T) {
	t.Parallel()
	f, req := newFixture(t), request()
	p := f.open()
	id := f.create(p, req)
	f.running(p, id)
	pid := f.pid(req.Name)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	f.eventually("the process is frozen", func() (bool, any) { return procState(pid) == "T", procState(pid) })
	if in, err := p.Get(t.Context(), id); err != nil || in.State != provider.StateRunning {
		t.Errorf("a frozen process is %s, %v; want Running", in.State, err)
	}
	if err := p.Delete(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	f.wantNothing()
}

// script is a program that stands in for the proxy.
func (f *fixture) script(body string) string {
	f.Helper()
	path := filepath.Join(f.TempDir(), "tollgate-proxy")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o700); err != nil {
		f.Fatal(err)
	}
	return path
}

func TestProcessThatIsNotReady(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"starts slowly":      "exec sleep 600",
		"ignores SIGTERM":    "trap '' TERM; while :; do sleep 600; done",
		"leaves a child too": "sleep 600 & wait",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, req := newFixture(t), request()
			script := f.script("echo $$ >" + filepath.Join(f.dir, "pid") + "; " + body)
			p := f.open(func(o *Options) { o.Binary = script })
			id := f.create(p, req)
			var pid int
			f.eventually("the program runs", func() (bool, any) {
				b, _ := os.ReadFile(filepath.Join(f.dir, "pid"))
				_, err := fmt.Sscan(string(b), &pid)
				return err == nil, string(b)
			})
			in, err := p.Get(t.Context(), id)
			if err != nil || in.State != provider.StateProvisioning || in.RawState != rawStarting {
				t.Errorf("%s (%q), %v; want Provisioning (%q)", in.State, in.RawState, err, rawStarting)
			}
			if again := f.create(p, req); again != id {
				t.Errorf("repeated create gives %q, want %q", again, id)
			}
			if err := p.Delete(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			f.eventually("the program has ended", func() (bool, any) { return procState(pid) == "", procState(pid) })
			f.wantNothing()
		})
	}
}

func TestProcessThatFailsAtOnceIsStopped(t *testing.T) {
	t.Parallel()
	f, req := newFixture(t), request()
	p := f.open(func(o *Options) { o.Binary = f.script("exit 3") })
	id := f.create(p, req)
	f.waitState(p, id, provider.StateStopped)
	if err := p.Delete(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	f.wantNothing()
}

func TestProgramThatCannotBeExecutedLeavesNothing(t *testing.T) {
	t.Parallel()
	f, req := newFixture(t), request()
	path := filepath.Join(f.TempDir(), "tollgate-proxy")
	if err := os.WriteFile(path, []byte("neither a script nor a program"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := f.open(func(o *Options) { o.Binary = path }).Create(t.Context(), req)
	wantClass(t, err, provider.Permanent)
	f.wantNothing()
	f.create(f.open(), req)
	f.wantOne("with the right program", f.open(), req)
}

// innocent starts a process that is nobody's instance.
func innocent(t *testing.T) handoff.Process {
	t.Helper()
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	id, err := handoff.Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// claim makes the records of an instance name another process.
func claim(t *testing.T, i instance, process handoff.Process) {
	t.Helper()
	m, err := i.meta()
	if err != nil {
		t.Fatal(err)
	}
	m.Process = &process
	if err := i.writeMeta(m); err != nil {
		t.Fatal(err)
	}
	if err := handoff.WriteJSON(i.dir, handoff.ReadyFile, handoff.Ready{Process: process}, false); err != nil {
		t.Fatal(err)
	}
}

func TestReusedPID(t *testing.T) {
	t.Parallel()
	other := innocent(t)
	older := other
	older.StartTime--
	otherBoot := other
	otherBoot.BootID = "00000000-0000-0000-0000-000000000000"
	for name, record := range map[string]handoff.Process{
		"the very process": other, "started at another time": older, "of another boot": otherBoot,
	} {
		t.Run("process gone, "+name, func(t *testing.T) {
			f, req := newFixture(t), request()
			p := f.open()
			id := f.create(p, req)
			f.running(p, id)
			if err := syscall.Kill(f.pid(req.Name), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			f.waitState(p, id, provider.StateStopped)
			claim(t, p.instance(req.Name), record)
			f.waitState(p, id, provider.StateStopped)
			if err := p.Delete(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			f.wantNothing()
		})
		t.Run("process alive, "+name, func(t *testing.T) {
			f, req := newFixture(t), request()
			p := f.open()
			id := f.create(p, req)
			f.running(p, id)
			claim(t, p.instance(req.Name), record)
			if err := p.Delete(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			f.wantNothing()
		})
		t.Run("lock held by a process that is not ours, "+name, func(t *testing.T) {
			f, req := newFixture(t), request()
			p := f.open()
			id := f.create(p, req)
			f.running(p, id)
			if err := syscall.Kill(f.pid(req.Name), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			f.waitState(p, id, provider.StateStopped)
			i := p.instance(req.Name)
			lock, err := openProcessLock(i.lockPath())
			if lock == nil || err != nil {
				t.Fatalf("lock %v, %v", lock, err)
			}
			claim(t, i, record)
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			wantClass(t, p.Delete(ctx, id), provider.Transient)
			if err := lock.Close(); err != nil {
				t.Fatal(err)
			}
			if err := p.Delete(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			f.wantNothing()
		})
	}
	if s := procState(other.PID); s != "S" {
		t.Errorf("the process that was only named is in state %q, want it asleep", s)
	}
}

func TestProcessWhoseFilesWereRemovedByHand(t *testing.T) {
	t.Parallel()
	t.Run("the directory: it ends by itself", func(t *testing.T) {
		t.Parallel()
		f, req := newFixture(t), request()
		p := f.open()
		id := f.create(p, req)
		f.running(p, id)
		if err := os.RemoveAll(p.instance(req.Name).dir); err != nil {
			t.Fatal(err)
		}
		_, err := p.Get(t.Context(), id)
		wantClass(t, err, provider.NotFound)
		f.eventually("no process", func() (bool, any) { ps := processes(t, f.dir); return len(ps) == 0, ps })
	})
	for name, file := range map[string]string{"the lock": handoff.LockFile, "meta.json": metaFile, "the process's record": handoff.ReadyFile} {
		t.Run(name+": a delete ends it", func(t *testing.T) {
			t.Parallel()
			f, req := newFixture(t), request()
			p := f.open()
			id := f.create(p, req)
			f.running(p, id)
			if err := os.Remove(filepath.Join(p.instance(req.Name).dir, file)); err != nil {
				t.Fatal(err)
			}
			if err := p.Delete(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			f.wantNothing()
		})
	}
	t.Run("meta.json: a listing ends it", func(t *testing.T) {
		t.Parallel()
		f, req := newFixture(t), request()
		f.running(f.open(), f.create(f.open(), req))
		p := f.open()
		if err := os.Remove(filepath.Join(p.instance(req.Name).dir, metaFile)); err != nil {
			t.Fatal(err)
		}
		if got, err := p.List(t.Context(), provider.Selector{}); err != nil || len(got) != 0 {
			t.Errorf("listed %v, %v", got, err)
		}
		f.wantNothing()
	})
}

func TestMemoryOfAProcess(t *testing.T) {
	t.Parallel()
	f, req := newFixture(t), request()
	p := f.open()
	in := f.running(p, f.create(p, req))
	if err := fetchThrough(t, in.IP, nil, 50); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", f.pid(req.Name)))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(b), "VmRSS:")
	var kb int
	if _, err := fmt.Sscan(after, &kb); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d kB resident after 50 requests", kb)
	if kb > 20<<10 {
		t.Errorf("%d kB resident, want at most 20 MB", kb)
	}
}

func TestAddressStaysUniqueAcrossDirectories(t *testing.T) {
	t.Parallel()
	// Two state directories on one machine, and a range that just holds both.
	small := func(o *Options) { o.Network = "127.91.7.0/30" }
	a, b := newFixture(t), newFixture(t)
	reqA, reqB := request(), request()
	pa, pb := a.open(small), b.openAs("theirs", small)
	inA, inB := a.running(pa, a.create(pa, reqA)), b.running(pb, b.create(pb, reqB))
	if inA.IP == inB.IP {
		t.Errorf("both have %v", inA.IP)
	}
	_, err := pa.Create(t.Context(), request())
	wantClass(t, err, provider.CapacityUnavailable)
	if !errors.Is(err, errNoAddress) || !strings.Contains(err.Error(), "127.91.7.0/30") {
		t.Errorf("the error does not name the range: %v", err)
	}
	// A stopped instance keeps its address in its own directory.
	if err := syscall.Kill(a.pid(reqA.Name), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	a.waitState(pa, instanceID(reqA.Name), provider.StateStopped)
	_, err = pa.Create(t.Context(), request())
	wantClass(t, err, provider.CapacityUnavailable)
	if err := pa.Delete(t.Context(), instanceID(reqA.Name)); err != nil {
		t.Fatal(err)
	}
	again := request()
	a.eventually("the address can be had again", func() (bool, any) { // other tests fork just now
		_, err := pa.Create(t.Context(), again)
		return err == nil, err
	})
	if in := a.running(pa, instanceID(again.Name)); in.IP != inA.IP {
		t.Errorf("the freed address is %v, and the new instance has %v", inA.IP, in.IP)
	}
}

func TestAddressWrittenDownIsTakenMeanwhile(t *testing.T) {
	t.Parallel()
	f, req := newFixture(t), request()
	p := f.open()
	p.step = func(step string) {
		if step == "committed" {
			panic(step) // stands for the end of the worker
		}
	}
	func() {
		defer func() { _ = recover() }()
		_, _ = p.Create(t.Context(), req)
	}()
	in, err := f.open().Get(t.Context(), instanceID(req.Name))
	if err != nil || in.State != provider.StateProvisioning || in.RawState != rawNotStarted {
		t.Fatalf("%s (%q), %v; want Provisioning (%q)", in.State, in.RawState, err, rawNotStarted)
	}
	var taken *os.File
	f.eventually("the address is free", func() (bool, any) { // other tests fork just now
		taken, err = reserve(in.IP)
		return taken != nil, err
	})
	defer func() { _ = taken.Close() }()
	p = f.open()
	f.create(p, req)
	f.wantOne("with another address", p, req)
	if got := f.running(p, instanceID(req.Name)).IP; got == in.IP || got == (netip.Addr{}) {
		t.Errorf("address %v, want another one than %v", got, in.IP)
	}
}
