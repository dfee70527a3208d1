//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// cleanEnv is this process's environment without what would lead a program
// elsewhere.
func cleanEnv() []string {
	var kept []string
	for _, kv := range os.Environ() {
		switch prefix, _, _ := strings.Cut(kv, "_"); prefix {
		case "TEMPORAL", "TOLLGATE", "OTEL":
		default:
			kept = append(kept, kv)
		}
	}
	return kept
}

// result is how a program ended.
type result struct {
	line           string
	code           int
	stdout, stderr string
}

// want fails the test unless the program ended with that code.
func (r result) want(t testing.TB, code int) result {
	t.Helper()
	if r.code != code {
		t.Fatalf("%s: exit code %d, want %d\n%s%s", r.line, r.code, code, r.stdout, r.stderr)
	}
	return r
}

// has fails the test unless the program said all of it.
func (r result) has(t testing.TB, parts ...string) result {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(r.stdout+r.stderr, p) {
			t.Errorf("%s: the output lacks %q:\n%s%s", r.line, p, r.stdout, r.stderr)
		}
	}
	return r
}

// programLimit bounds every program that a test waits for.
const programLimit = 2 * time.Minute

// runProgram runs a program to its end.
func runProgram(t testing.TB, cmd *exec.Cmd) result {
	t.Helper()
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	// What it leaves running must not keep the test waiting.
	cmd.WaitDelay = 5 * time.Second
	err := cmd.Start()
	if err == nil {
		timer := time.AfterFunc(programLimit, func() { _ = cmd.Process.Kill() })
		err = cmd.Wait()
		timer.Stop()
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Errorf("%s: %v", strings.Join(cmd.Args, " "), err)
		return result{line: strings.Join(cmd.Args, " "), code: -1, stdout: out.String(), stderr: errOut.String()}
	}
	return result{strings.Join(cmd.Args, " "), cmd.ProcessState.ExitCode(), out.String(), errOut.String()}
}

// cliCommand is the built command line, set up for this world.
func (w *world) cliCommand(env []string, args ...string) *exec.Cmd {
	w.t.Helper()
	cmd := exec.Command(bins(w.t, "tollgate"), args...)
	cmd.Dir = w.dir
	cmd.Env = append(cleanEnv(), append([]string{"TEMPORAL_ADDRESS=" + w.engine.HostPort(), "TOLLGATE_CODEC_KEYS=" + w.keys}, env...)...)
	return cmd
}

// tollgate runs the built command line.
func (w *world) tollgate(args ...string) result {
	w.t.Helper()
	return runProgram(w.t, w.cliCommand(nil, args...))
}

// must runs the command line, which has to succeed, and returns its standard
// output.
func (w *world) must(args ...string) string {
	w.t.Helper()
	return w.tollgate(args...).want(w.t, 0).stdout
}

// mustJSON is must for a document.
func (w *world) mustJSON(into any, args ...string) {
	w.t.Helper()
	out := w.must(append(args, "-o", "json")...)
	if err := json.Unmarshal([]byte(out), into); err != nil {
		w.t.Fatalf("tollgate %s: %v:\n%s", strings.Join(args, " "), err, out)
	}
}

// stopWorker ends the worker as an upgrade would.
func (w *world) stopWorker() {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.worker.Process.Signal(syscall.SIGTERM); err != nil {
		w.t.Fatal(err)
	}
	select {
	case <-w.dead:
	case <-time.After(30 * time.Second):
		w.t.Fatalf("the worker does not stop:\n%s", w.logTail())
	}
	if code := w.worker.ProcessState.ExitCode(); code != 0 {
		w.t.Errorf("the worker stopped with exit code %d:\n%s", code, w.logTail())
	}
}

// started is a program that goes on while the test looks at it.
type started struct {
	t    testing.TB
	cmd  *exec.Cmd
	done chan struct{}

	mu  sync.Mutex
	out bytes.Buffer
}

// Write collects the output.
func (p *started) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

func (p *started) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// startProgram starts a program in a process group of its own, as a shell does,
// and kills it with the test.
func startProgram(t testing.TB, cmd *exec.Cmd) *started {
	t.Helper()
	p := &started{t: t, cmd: cmd, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p, p
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = cmd.Wait() // its end is what tests wait for, however it came
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-p.done
		if t.Failed() {
			t.Logf("output of %s:\n%s", cmd.Args[0], p.output())
		}
	})
	return p
}

// interrupt is a Ctrl-C on the program's terminal: its whole group gets it.
func (p *started) interrupt() {
	p.t.Helper()
	if err := syscall.Kill(-p.cmd.Process.Pid, syscall.SIGINT); err != nil {
		p.t.Fatal(err)
	}
}

// says waits for a text in the output.
func (p *started) says(limit time.Duration, text string) {
	p.t.Helper()
	poll(p.t, limit, func() string {
		if strings.Contains(p.output(), text) {
			return ""
		}
		select {
		case <-p.done:
			p.t.Fatalf("%s ended and never said %q:\n%s", p.cmd.Args[0], text, p.output())
		default:
		}
		return "it does not say " + text
	})
}

// ended waits for the end and returns the exit code.
func (p *started) ended(limit time.Duration) int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(limit):
		p.t.Fatalf("%s does not end within %s", p.cmd.Args[0], limit)
	}
	return p.cmd.ProcessState.ExitCode()
}

// poll looks until problem returns "" or the limit.
func poll(t testing.TB, limit time.Duration, problem func() string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		p := problem()
		if p == "" {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("after %s: %s", limit, p)
		case <-tick.C:
		}
	}
}

// probeTarget accepts connections and closes them; a CONNECT to it succeeds.
func probeTarget(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(io.Discard, c)
				c.Close()
			}()
		}
	}()
	return l.Addr().String()
}
