package local

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/local/localtest"
)

// helperEnv makes the test program a worker that does one thing, so that it can
// be killed at any point of it.
const helperEnv = "TOLLGATE_LOCAL_TEST_WORKER"

type helperJob struct {
	Op     provider.Op
	Dir    string
	Binary string
	Name   string
	Marks  provider.Marks
	// KillAt is the step at which the worker is killed; 0 is never.
	KillAt int64
}

func TestMain(m *testing.M) {
	if job := os.Getenv(helperEnv); job != "" {
		if err := runHelper([]byte(job)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func runHelper(b []byte) error {
	var job helperJob
	if err := json.Unmarshal(b, &job); err != nil {
		return err
	}
	zero := time.Duration(0)
	p, err := New(provider.Config{
		Name: "here", Installation: "ours", StateDir: job.Dir, Decode: decodeFrom(Options{Binary: job.Binary, Drain: &zero}),
	})
	if err != nil {
		return err
	}
	var steps atomic.Int64
	p.step = func(string) {
		if steps.Add(1) == job.KillAt {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	if job.Op == provider.OpDelete {
		err = p.Delete(context.Background(), instanceID(job.Name))
	} else {
		_, err = p.Create(context.Background(), provider.CreateRequest{Name: job.Name, Marks: job.Marks, Port: testPort})
	}
	fmt.Println(steps.Load())
	return err
}

func (f *fixture) helper(op provider.Op, req provider.CreateRequest, killAt int64) *exec.Cmd {
	f.Helper()
	b, err := json.Marshal(helperJob{op, f.dir, localtest.Binary(f), req.Name, req.Marks, killAt})
	if err != nil {
		f.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperEnv+"="+string(b))
	return cmd
}

// work runs a whole operation in a worker of its own and returns its steps.
func (f *fixture) work(op provider.Op, req provider.CreateRequest) (steps int64) {
	f.Helper()
	out, err := f.helper(op, req, 0).Output()
	if err != nil {
		f.Fatalf("worker: %v", err)
	}
	if _, err := fmt.Sscan(string(out), &steps); err != nil || steps < 5 {
		f.Fatalf("worker counted %q: %v", out, err)
	}
	return steps
}

// die runs an operation in a worker that is killed at a step.
func (f *fixture) die(op provider.Op, req provider.CreateRequest, killAt int64) {
	f.Helper()
	err := f.helper(op, req, killAt).Run()
	var exit *exec.ExitError
	if ee, ok := err.(*exec.ExitError); ok {
		exit = ee
	}
	if exit == nil || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		f.Fatalf("worker was to be killed at step %d, and: %v", killAt, err)
	}
}

// wantAccounted checks what must hold at every moment: at most one process, and
// none without an instance on disk. A process that was forked by a worker that
// is dead now may not have become the program yet; it is given that moment.
func (f *fixture) wantAccounted(when string, req provider.CreateRequest) {
	f.Helper()
	ps := processes(f, f.dir)
	if len(ps) > 1 {
		f.Errorf("%s: %d processes: %v", when, len(ps), ps)
	}
	exists, err := f.open().instance(req.Name).exists()
	if err != nil {
		f.Fatal(err)
	}
	if len(ps) > 0 && !exists {
		f.Errorf("%s: the process %v belongs to no instance", when, ps)
	}
}

// wantOne checks that exactly one process serves the instance, and where it was
// written down.
func (f *fixture) wantOne(when string, p *Provider, req provider.CreateRequest) {
	f.Helper()
	in := f.running(p, instanceID(req.Name))
	ps := processes(f, f.dir)
	if len(ps) != 1 {
		f.Errorf("%s: processes %v, want one", when, ps)
	}
	i := p.instance(req.Name)
	ready := i.ready()
	if want := fmt.Sprintf("%s:%d", in.IP, testPort); ready.Address != want {
		f.Errorf("%s: the process listens on %s, and the instance says %s", when, ready.Address, want)
	}
	if proc := i.holder(); proc == nil || proc.Pid != ready.Process.PID {
		f.Errorf("%s: the lock is held by %v, want process %d", when, proc, ready.Process.PID)
	}
	all, err := p.List(f.Context(), provider.Selector{})
	if err != nil || len(all) != 1 {
		f.Errorf("%s: %d listed, %v; want one", when, len(all), err)
	}
}

// afterwards are what may follow a cut-off call.
func afterwards(f *fixture, p *Provider, req provider.CreateRequest) map[string]func() {
	createAgain := func() {
		f.create(p, req)
		f.wantOne("after the repeat", p, req)
	}
	return map[string]func(){
		"create again": createAgain,
		"find and delete": func() {
			in, err := p.Find(f.Context(), req.Name, req.Marks)
			switch provider.ClassOf(err) {
			case "":
				if err := p.Delete(f.Context(), in.ID); err != nil {
					f.Fatal(err)
				}
			case provider.NotFound:
			default:
				f.Fatal(err)
			}
			f.wantNothing()
		},
		"delete": func() {
			if err := p.Delete(f.Context(), instanceID(req.Name)); err != nil {
				f.Fatal(err)
			}
			f.wantNothing()
		},
		"sweep": func() {
			if _, err := p.List(f.Context(), provider.Selector{}); err != nil {
				f.Fatal(err)
			}
			f.wantAccounted("after the sweep", req)
			exists, err := p.instance(req.Name).exists()
			if err != nil {
				f.Fatal(err)
			}
			if !exists {
				f.wantNothing()
			}
			createAgain()
		},
		"many creates at once": func() {
			inParallel(6, func(int) { f.create(p, req) })
			f.wantOne("after repeats at once", p, req)
		},
		"create and delete at once": func() {
			inParallel(6, func(n int) {
				if n%2 == 0 {
					f.create(p, req)
				} else if err := p.Delete(f.Context(), instanceID(req.Name)); err != nil {
					f.Error(err)
				}
			})
			f.wantAccounted("after creates and deletes at once", req)
			createAgain()
		},
	}
}

func inParallel(n int, f func(int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

func TestWorkerKilledDuringCreate(t *testing.T) {
	t.Parallel()
	for then := range afterwards(nil, nil, provider.CreateRequest{}) {
		t.Run(then, func(t *testing.T) {
			t.Parallel()
			steps := newFixture(t).work(provider.OpCreate, request())
			for n := int64(1); n <= steps; n++ {
				f, req := newFixture(t), request()
				f.die(provider.OpCreate, req, n)
				f.wantAccounted(fmt.Sprintf("killed at step %d", n), req)
				afterwards(f, f.open(), req)[then]()
				if t.Failed() {
					t.Fatalf("after a kill at step %d of %d", n, steps)
				}
			}
		})
	}
}

func TestWorkerKilledDuringDelete(t *testing.T) {
	t.Parallel()
	for then := range afterwards(nil, nil, provider.CreateRequest{}) {
		t.Run(then, func(t *testing.T) {
			t.Parallel()
			first, req := newFixture(t), request()
			first.running(first.open(), first.create(first.open(), req))
			steps := first.work(provider.OpDelete, req)
			for n := int64(1); n <= steps; n++ {
				f, req := newFixture(t), request()
				p := f.open()
				f.running(p, f.create(p, req))
				f.die(provider.OpDelete, req, n)
				f.wantAccounted(fmt.Sprintf("killed at step %d", n), req)
				afterwards(f, f.open(), req)[then]()
				if t.Failed() {
					t.Fatalf("after a kill at step %d of %d", n, steps)
				}
			}
		})
	}
}

func TestWorkerKilledDuringRepeatedCreate(t *testing.T) {
	t.Parallel()
	steps := newFixture(t).work(provider.OpCreate, request())
	for first := int64(1); first <= steps; first++ {
		second := 1 + rand.Int64N(steps)
		f, req := newFixture(t), request()
		f.die(provider.OpCreate, req, first)
		// The repeat has fewer steps left when the first one came far.
		_ = f.helper(provider.OpCreate, req, second).Run()
		when := fmt.Sprintf("killed at step %d and then at step %d", first, second)
		f.wantAccounted(when, req)
		f.create(f.open(), req)
		f.wantOne(when, f.open(), req)
	}
}

// Workers of one name are killed at moments that no step marks.
func TestWorkersKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	for range 8 {
		f, req := newFixture(t), request()
		inParallel(4, func(n int) {
			op := provider.OpCreate
			if n == 3 {
				op = provider.OpDelete
			}
			cmd := f.helper(op, req, 0)
			if err := cmd.Start(); err != nil {
				f.Error(err)
				return
			}
			kill := time.AfterFunc(rand.N(80*time.Millisecond), func() { _ = cmd.Process.Kill() })
			_ = cmd.Wait()
			kill.Stop()
		})
		f.wantAccounted("after workers were killed", req)
		p := f.open()
		f.create(p, req)
		f.wantOne("after workers were killed", p, req)
	}
}

func TestProcessOutlivesItsWorker(t *testing.T) {
	t.Parallel()
	f, req := newFixture(t), request()
	f.work(provider.OpCreate, req)
	p := f.open()
	f.running(p, instanceID(req.Name))
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", f.pid(req.Name)))
	if err != nil {
		t.Fatal(err)
	}
	var pid, ppid, pgrp, session int
	var comm, state string
	if _, err := fmt.Sscan(string(stat), &pid, &comm, &state, &ppid, &pgrp, &session); err != nil {
		t.Fatal(err)
	}
	if session != pid || pgrp != pid {
		t.Errorf("process %d is in session %d, group %d: want its own", pid, session, pgrp)
	}
	for fd, want := range map[int]string{0: os.DevNull, 1: filepath.Join(p.instance(req.Name).dir, "proxy.log")} {
		if got, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, fd)); err != nil || got != want {
			t.Errorf("descriptor %d is %s, %v; want %s", fd, got, err, want)
		}
	}
	if env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)); err != nil || len(env) != 0 {
		t.Errorf("environment %q, %v; want none", env, err)
	}
}
