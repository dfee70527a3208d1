package devserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	tlog "go.temporal.io/sdk/log"
)

const (
	// readyLine is what the engine writes to its standard output, once.
	readyLine = "ready"
	// healthEvery is the interval of health checks during a start.
	healthEvery = 50 * time.Millisecond
	// healthCall bounds one health check.
	healthCall = 2 * time.Second
	// tailLines and tailBytes bound the part of the log that an error shows.
	tailLines = 15
	tailBytes = 16 << 10
)

// process is one run of the engine.
type process struct {
	cmd *exec.Cmd
	// stdin is the write end of a pipe. The engine stops when it is closed, which
	// the kernel does when this process dies in whatever way.
	stdin io.Closer
	// ready is closed when the engine has said that it can be used.
	ready chan struct{}
	// ended is closed when the engine has been waited for; err is valid then.
	ended chan struct{}
	err   error
	// logFrom is where this run's part of the log begins.
	logFrom int64
}

// launch starts the binary with its output appended to the log.
func launch(o Options, logFile string) (*process, error) {
	if err := rotate(logFile); err != nil {
		return nil, fmt.Errorf("engine log: %w", err)
	}
	out, err := os.OpenFile(logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("engine log: %w", err)
	}
	started := false
	defer func() {
		if !started {
			_ = out.Close() // nothing was written
		}
	}()
	info, err := out.Stat()
	if err != nil {
		return nil, fmt.Errorf("engine log: %w", err)
	}
	cmd := exec.Command(o.Binary, o.args()...)
	cmd.Dir = o.Dir
	cmd.Stderr = out
	cmd.Env = childEnv(os.Environ())
	// In a process group of its own a Ctrl-C of the terminal does not reach the
	// engine: it must outlive the worker that is stopping.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("engine input: %w", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("engine output: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the engine: %w", err)
	}
	p := &process{
		cmd:     cmd,
		stdin:   stdin,
		ready:   make(chan struct{}),
		ended:   make(chan struct{}),
		logFrom: info.Size(),
	}
	started = true
	go func() {
		defer close(p.ended)
		defer out.Close()
		p.readOutput(io.TeeReader(stdout, out))
		p.err = cmd.Wait()
	}()
	return p, nil
}

// readOutput reads to the end and closes p.ready at the line that says so.
func (p *process) readOutput(r io.Reader) {
	lines := bufio.NewReader(r)
	for said := false; ; {
		line, err := lines.ReadString('\n')
		if !said && strings.TrimSpace(line) == readyLine {
			said = true
			close(p.ready)
		}
		if err != nil {
			return
		}
	}
}

// childEnv keeps what a Go program needs. Everything else stays here: the
// environment may hold credentials of providers.
func childEnv(env []string) []string {
	var kept []string
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		switch name {
		case "PATH", "HOME", "TMPDIR", "TZ", "LANG", "GOMAXPROCS", "GOMEMLIMIT", "GOGC", "GODEBUG", "GOTRACEBACK":
			kept = append(kept, kv)
		}
	}
	return kept
}

// rotate moves a log away that has grown large, keeping one old one.
func rotate(logFile string) error {
	info, err := os.Stat(logFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Size() < maxLogSize:
		return nil
	}
	return os.Rename(logFile, logFile+".1")
}

// alive reports whether the engine still runs.
func (p *process) alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// stop asks the engine to stop and kills it if ctx ends first. It returns once
// the engine is gone; one that is gone already is no error.
func (p *process) stop(ctx context.Context) error {
	if !p.alive() {
		return nil
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // gone already is fine
	select {
	case <-p.ended:
	case <-ctx.Done():
		_ = p.cmd.Process.Kill()
		<-p.ended
		return fmt.Errorf("engine killed after waiting for its stop: %w", context.Cause(ctx))
	}
	_ = p.stdin.Close()
	if p.err != nil {
		return fmt.Errorf("engine stopped uncleanly: %w", p.err)
	}
	return nil
}

// tail is the end of what this run wrote to the log, for errors.
func (p *process) tail(logFile string) string {
	f, err := os.Open(logFile)
	if err != nil {
		return ""
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	from := max(p.logFrom, info.Size()-tailBytes)
	b, err := io.ReadAll(io.NewSectionReader(f, from, info.Size()-from))
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	if n := len(lines) - tailLines; n > 0 {
		lines = lines[n:]
	}
	return strings.Join(lines, "\n")
}

// waitHealthy returns once the engine has said that it is ready and serves
// workflows. It fails when the engine ends or ctx does.
func (p *process) waitHealthy(ctx context.Context, address string) error {
	select {
	case <-p.ready:
	case <-p.ended:
		return fmt.Errorf("engine ended during its start: %w", exitError(p.err))
	case <-ctx.Done():
		return fmt.Errorf("engine is not ready: %w", context.Cause(ctx))
	}
	c, err := client.NewLazyClient(client.Options{
		HostPort:  address,
		Namespace: Namespace,
		Logger:    tlog.NewStructuredLogger(discardLogger),
	})
	if err != nil {
		return fmt.Errorf("engine health: %w", err)
	}
	defer c.Close()
	tick := time.NewTicker(healthEvery)
	defer tick.Stop()
	for {
		last := healthy(ctx, c)
		if last == nil && p.alive() {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("engine ended during its start: %w", exitError(p.err))
		case <-ctx.Done():
			return fmt.Errorf("engine is not healthy: %w (last check: %w)", context.Cause(ctx), last)
		case <-tick.C:
		}
	}
}

// healthy asks for the health of the frontend and for a workflow that does not
// exist. Only the history service can say that it does not: frontend, history
// and database work then.
func healthy(ctx context.Context, c client.Client) error {
	ctx, cancel := context.WithTimeout(ctx, healthCall)
	defer cancel()
	if _, err := c.CheckHealth(ctx, &client.CheckHealthRequest{}); err != nil {
		return err
	}
	_, err := c.DescribeWorkflow(ctx, "devserver-health-check", "")
	var notFound *serviceerror.NotFound
	if errors.As(err, &notFound) {
		return nil
	}
	return err
}

func exitError(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}

func logFileIn(dir string) string { return filepath.Join(dir, logName) }
