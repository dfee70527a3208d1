//go:build e2e

package e2e

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// crew are several worker processes of a world, each of which is started again
// when it is killed.
type crew struct {
	w       *world
	mu      sync.Mutex
	members []*member
	ended   bool
	starts  sync.WaitGroup
}

type member struct {
	c       *crew
	command func() *exec.Cmd
	cmd     *exec.Cmd
	dead    chan struct{}
}

// start starts n workers beside the world's own.
func (c *crew) start(n int) {
	w := c.w
	w.t.Helper()
	for i := range n {
		http, metr := w.freeAddr(), w.freeAddr()
		m := &member{c: c, command: func() *exec.Cmd {
			cmd := exec.Command(bins(w.t, "tollgate-worker"), "--config", filepath.Join(w.dir, "tollgate.yaml"),
				"--state-dir", filepath.Join(w.dir, fmt.Sprint("state-", i)), "--http-addr", http, "--metrics-addr", metr)
			cmd.Env = append(cleanEnv(), append(w.env, "TEMPORAL_ADDRESS="+w.engine.HostPort())...)
			return cmd
		}}
		c.members = append(c.members, m)
		m.start()
	}
	w.t.Cleanup(func() {
		c.mu.Lock()
		c.ended = true
		c.mu.Unlock()
		c.starts.Wait()
		for _, m := range c.members {
			_ = m.cmd.Process.Kill()
			<-m.dead
		}
	})
}

func (m *member) start() {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	if m.c.ended || m.alive() {
		return // two strikes at one worker are one
	}
	log, err := os.OpenFile(filepath.Join(m.c.w.dir, "worker.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		m.c.w.t.Error(err)
		return
	}
	defer log.Close()
	cmd := m.command()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		m.c.w.t.Error(err)
		return
	}
	dead := make(chan struct{})
	go func() {
		_ = cmd.Wait() // it is killed
		close(dead)
	}()
	m.cmd, m.dead = cmd, dead
}

// alive reports whether the worker runs; the crew's lock is held.
func (m *member) alive() bool {
	if m.dead == nil {
		return false
	}
	select {
	case <-m.dead:
		return false
	default:
		return true
	}
}

// kill ends a worker with SIGKILL, and has it started again.
func (m *member) kill() {
	m.c.mu.Lock()
	cmd, dead := m.cmd, m.dead
	m.c.mu.Unlock()
	_ = cmd.Process.Kill()
	<-dead
	m.c.starts.Go(m.start)
}

// at is the member at the other end of a connection to this process, nil if it is
// none.
func (c *crew) at(remote string) *member {
	_, port, err := net.SplitHostPort(remote)
	if err != nil {
		return nil
	}
	inode := socketOf(port)
	if inode == "" {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.members {
		fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", m.cmd.Process.Pid))
		for _, fd := range fds {
			if to, err := os.Readlink(fd); err == nil && to == "socket:["+inode+"]" {
				return m
			}
		}
	}
	return nil
}

// socketOf is the inode of the socket that is bound to a local port and connected.
func socketOf(port string) string {
	n, err := strconv.Atoi(port)
	if err != nil {
		return ""
	}
	f, err := os.Open("/proc/net/tcp")
	if err != nil {
		return ""
	}
	defer f.Close()
	suffix := fmt.Sprintf(":%04X", n)
	for s := bufio.NewScanner(f); s.Scan(); {
		// sl local_address rem_address st ... inode, the tenth
		fields := strings.Fields(s.Text())
		const established = "01"
		if len(fields) > 9 && strings.HasSuffix(fields[1], suffix) && fields[3] == established {
			return fields[9]
		}
	}
	return ""
}

// strikes says what is struck next: each stage as often as it is asked for.
type strikes struct {
	mu   sync.Mutex
	left map[string]int
	done map[string]int
}

func newStrikes(each int, stages ...string) *strikes {
	s := &strikes{left: map[string]int{}, done: map[string]int{}}
	for _, stage := range stages {
		s.left[stage] = each
	}
	return s
}

// take strikes the one of the stages that is most in arrears; "" means none.
func (s *strikes) take(stages ...string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	best := ""
	for _, stage := range stages {
		if s.left[stage] > 0 && (best == "" || s.left[stage] > s.left[best]) {
			best = stage
		}
	}
	if best != "" {
		s.left[best]--
		s.done[best]++
	}
	return best
}

// over reports whether everything was struck.
func (s *strikes) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.left {
		if n > 0 {
			return false
		}
	}
	return true
}

// count is how often stages with a prefix were struck.
func (s *strikes) count(prefix string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for stage, k := range s.done {
		if strings.HasPrefix(stage, prefix) {
			n += k
		}
	}
	return n
}

func (s *strikes) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("struck %v, left %v", s.done, s.left)
}
