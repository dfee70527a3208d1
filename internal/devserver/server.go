package devserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/tollgate-dev/tollgate/internal/devserver/enginebin"
)

const (
	// startLimit bounds one start of the engine, a loaded machine included.
	startLimit = 90 * time.Second
	// stopLimit is how long the engine may take to stop before it is killed.
	stopLimit = 15 * time.Second
	// predecessorLimit is how long an engine of an earlier supervisor may take to
	// notice that it is alone and to let go of the database.
	predecessorLimit = 15 * time.Second
	// Restarts wait from minBackoff to maxBackoff; a run of steadyAfter starts
	// over. After maxFailures starts in a row that never got healthy the
	// supervisor gives up.
	minBackoff  = 100 * time.Millisecond
	maxBackoff  = 10 * time.Second
	steadyAfter = 30 * time.Second
	maxFailures = 6
)

var discardLogger = slog.New(slog.DiscardHandler)

// errStopped is what waiters get after Stop.
var errStopped = errors.New("engine is stopped")

// Server is a supervised engine. Its methods are safe for concurrent use.
type Server struct {
	opts    Options
	logFile string
	stop    chan struct{} // closed by Stop
	done    chan struct{} // closed when nothing runs any more

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced at every change of what follows
	proc     *process
	healthy  bool
	planned  bool // the current process is to be restarted without a delay
	restarts int
	err      error // why the supervisor ended
	stopping bool
}

// Start runs an engine and returns once it is healthy. ctx bounds the start
// only. The caller must Stop the server; should the calling process be killed,
// the engine stops by itself.
//
// A port in use is a *PortInUseError; any other failure shows the end of the
// engine's log.
func Start(ctx context.Context, o Options) (*Server, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := waitForPredecessor(ctx, o); err != nil {
		return nil, err
	}
	if err := o.checkPorts(); err != nil {
		return nil, err
	}
	if o.Binary == "" {
		if o.Binary, err = enginebin.Ensure(ctx, o.Progress); err != nil {
			return nil, fmt.Errorf("devserver: %w", err)
		}
	}
	s := &Server{
		opts:    o,
		logFile: logFileIn(o.Dir),
		stop:    make(chan struct{}),
		done:    make(chan struct{}),
		changed: make(chan struct{}),
	}
	if err := s.launch(ctx, false); err != nil {
		return nil, err
	}
	go s.supervise()
	return s, nil
}

// waitForPredecessor waits while an engine of a killed supervisor still holds
// the database.
func waitForPredecessor(ctx context.Context, o Options) error {
	ctx, cancel := context.WithTimeout(ctx, predecessorLimit)
	defer cancel()
	tick := time.NewTicker(healthEvery)
	defer tick.Stop()
	for told := false; locked(o.DBFile + ".lock"); told = true {
		if !told {
			fmt.Fprintln(o.Progress, "waiting for an earlier engine to let go of the database")
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("database %s is in use by another engine: %w", o.DBFile, context.Cause(ctx))
		case <-tick.C:
		}
	}
	return nil
}

// locked reports whether an engine holds the lock file.
func locked(name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}

// launch starts one process and waits until it is healthy. On failure nothing
// is left running. Whoever sees that it is healthy sees it counted if it is started
// again.
func (s *Server) launch(ctx context.Context, again bool) error {
	p, err := launch(s.opts, s.logFile)
	if err != nil {
		return err
	}
	s.update(func() { s.proc, s.healthy, s.planned = p, false, false })
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := p.waitHealthy(ctx, s.HostPort()); err != nil {
		_ = p.cmd.Process.Kill()
		<-p.ended
		return fmt.Errorf("%w\nend of %s:\n%s", err, s.logFile, p.tail(s.logFile))
	}
	s.update(func() {
		if s.healthy = true; again {
			s.restarts++
		}
	})
	return nil
}

// supervise restarts the engine until Stop or until it cannot be started.
func (s *Server) supervise() {
	defer close(s.done)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { <-s.stop; cancel() }()

	log := s.opts.Logger
	backoff := minBackoff
	for failures := 0; ; {
		p, started := s.current(), time.Now()
		select {
		case <-p.ended:
		case <-s.stop:
		}
		if s.isStopping() {
			return // Stop ends the process
		}
		planned := false
		s.update(func() { s.healthy, planned = false, s.planned })
		if !planned {
			log.Warn("engine ended, restarting it", "error", exitError(p.err), "pid", p.cmd.Process.Pid, "log", s.logFile)
			if time.Since(started) > steadyAfter {
				backoff = minBackoff
			}
			if !s.pause(backoff) {
				return
			}
			backoff = min(2*backoff, maxBackoff)
		}
		err := s.launch(ctx, true)
		switch {
		case err == nil:
			failures = 0
			log.Info("engine restarted", "pid", s.PID())
		case s.isStopping():
			return
		default:
			failures++
			log.Error("engine start failed", "attempt", failures, "error", err)
			if failures >= maxFailures {
				s.update(func() { s.err = fmt.Errorf("engine could not be restarted %d times: %w", failures, err) })
				return
			}
		}
	}
}

// pause waits and reports whether the server is still wanted.
func (s *Server) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-s.stop:
		return false
	case <-t.C:
		return true
	}
}

// Stop stops the engine, after at most 15 s or the end of ctx by killing it,
// and returns when it is gone. Further calls return nil once it is.
func (s *Server) Stop(ctx context.Context) error {
	first := false
	s.update(func() {
		if first = !s.stopping; first {
			s.stopping = true
			close(s.stop)
		}
	})
	<-s.done
	if !first {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	p := s.current()
	if !p.alive() {
		return nil
	}
	err := p.stop(ctx)
	s.update(func() { s.healthy = false })
	return err
}

// Restart stops the engine and waits until its successor is healthy.
func (s *Server) Restart(ctx context.Context) error {
	s.update(func() { s.planned = true })
	stopCtx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	if err := s.current().stop(stopCtx); err != nil {
		return err
	}
	return s.WaitHealthy(ctx)
}

// Kill ends the engine with SIGKILL, as a crash would, and returns when it is
// gone. The supervisor starts it again.
func (s *Server) Kill() error {
	p := s.current()
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill the engine: %w", err)
	}
	<-p.ended
	return nil
}

// WaitHealthy returns once the engine is healthy. It fails when ctx ends or
// when the supervisor has given up.
func (s *Server) WaitHealthy(ctx context.Context) error {
	for {
		s.mu.Lock()
		ok := s.healthy && s.proc.alive()
		err, stopping, changed := s.err, s.stopping, s.changed
		s.mu.Unlock()
		switch {
		case ok:
			return nil
		case err != nil:
			return err
		case stopping:
			return errStopped
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for the engine: %w", context.Cause(ctx))
		}
	}
}

// Done is closed when the server has stopped or cannot be restarted; Err then
// says why, nil after Stop.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err is why the supervisor gave up, nil otherwise.
func (s *Server) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// HostPort is the address of the gRPC frontend.
func (s *Server) HostPort() string { return hostPort(s.opts.Port) }

// UIURL is the address of the Web UI, empty without one.
func (s *Server) UIURL() string {
	if s.opts.UIPort == 0 {
		return ""
	}
	return "http://" + hostPort(s.opts.UIPort)
}

// LogFile is where the engine's output goes.
func (s *Server) LogFile() string { return s.logFile }

// LogTail is the end of what the current engine has logged.
func (s *Server) LogTail() string { return s.current().tail(s.logFile) }

// DBFile is the engine's database.
func (s *Server) DBFile() string { return s.opts.DBFile }

// PID is the process id of the current engine.
func (s *Server) PID() int { return s.current().cmd.Process.Pid }

// Restarts is how often the engine was started again.
func (s *Server) Restarts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.restarts
}

func (s *Server) current() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc
}

func (s *Server) isStopping() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopping
}

// update changes the state and wakes who waits for it.
func (s *Server) update(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}
