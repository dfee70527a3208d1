//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/reporting/api"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
)

// Environment of a process of this binary that receives CloudEvents instead of
// running tests: where it listens and the file that it keeps them in.
const (
	receiverAddr = "E2E_RECEIVER_ADDR"
	receiverFile = "E2E_RECEIVER_FILE"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(receiverAddr); addr != "" {
		fmt.Fprintln(os.Stderr, serveReceiver(addr, os.Getenv(receiverFile)))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// receiver stores events by id: a line each, on disk before it answers. What it
// has already it refuses in one of the ways that receivers do.
type receiver struct {
	mu         sync.Mutex
	file       *os.File
	stored     map[string]bool
	duplicates int
}

func serveReceiver(addr, path string) error {
	// Only one at a time may touch the file.
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	r := &receiver{stored: map[string]bool{}}
	ids, whole, err := readReceived(path)
	if err != nil {
		return err
	}
	for _, id := range ids {
		r.stored[id] = true
	}
	// A line that was cut off is of an event that was never answered.
	if r.file, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600); err != nil {
		return err
	}
	if err := r.file.Truncate(whole); err != nil {
		return err
	}
	if _, err := r.file.Seek(whole, io.SeekStart); err != nil {
		return err
	}
	return http.Serve(l, r)
}

// readReceived reads what was stored, and how many bytes of whole lines that is.
func readReceived(path string) (ids []string, whole int64, err error) {
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	for r := bufio.NewReader(f); ; {
		line, err := r.ReadString('\n')
		if err == io.EOF {
			return ids, whole, nil
		}
		if err != nil {
			return nil, 0, err
		}
		ids, whole = append(ids, line[:len(line)-1]), whole+int64(len(line))
	}
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.Method != http.MethodPost {
		return
	}
	b, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	var e event.Event
	if err := json.Unmarshal(b, &e); err != nil || e.Validate() != nil {
		http.Error(w, fmt.Sprint(err, e.Validate()), http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stored[e.ID] {
		r.duplicates++
		switch r.duplicates % 3 {
		case 0:
			http.Error(w, "this event exists", http.StatusConflict)
		case 1:
			http.Error(w, "duplicate event", http.StatusBadRequest)
		default:
			w.WriteHeader(http.StatusOK)
		}
		return
	}
	if _, err := fmt.Fprintln(r.file, e.ID); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if err := r.file.Sync(); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	r.stored[e.ID] = true
	w.WriteHeader(http.StatusAccepted)
}

// sinkProcess is a receiver of events as a process that can be killed and comes
// back with what it has on disk.
type sinkProcess struct {
	t       testing.TB
	addr    string
	command func() *exec.Cmd

	mu    sync.Mutex
	cmd   *exec.Cmd
	dead  chan struct{}
	ended bool
}

// referenceServer is tollgate-reporting on a database in dir.
func referenceServer(w *world) *sinkProcess {
	p := &sinkProcess{t: w.t, addr: w.freeAddr()}
	p.command = func() *exec.Cmd {
		return exec.Command(bins(w.t, "tollgate-reporting"), "--listen", p.addr, "--db", filepath.Join(w.dir, "reporting.db"), "--log-level", "error")
	}
	p.begin()
	return p
}

// eventReceiver is a receiver of CloudEvents with a file in dir.
func eventReceiver(w *world) *sinkProcess {
	p := &sinkProcess{t: w.t, addr: w.freeAddr()}
	p.command = func() *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(cleanEnv(), receiverAddr+"="+p.addr, receiverFile+"="+receivedFile(w))
		return cmd
	}
	p.begin()
	return p
}

func receivedFile(w *world) string { return filepath.Join(w.dir, "received") }

func (p *sinkProcess) begin() {
	p.t.Helper()
	if err := p.start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.ended = true
		_ = p.cmd.Process.Kill()
		<-p.dead
	})
}

// start starts the process and waits until it accepts connections.
func (p *sinkProcess) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return nil
	}
	p.cmd = p.command()
	p.cmd.Stderr = os.Stderr
	if err := p.cmd.Start(); err != nil {
		return err
	}
	cmd, dead := p.cmd, make(chan struct{})
	p.dead = dead
	go func() {
		_ = cmd.Wait() // it is killed
		close(dead)
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.addr)
		if err == nil {
			return c.Close()
		}
		select {
		case <-dead:
			return fmt.Errorf("%s ended at its start: %v", cmd.Path, cmd.ProcessState)
		case <-ctx.Done():
			return fmt.Errorf("%s is not there: %w", p.addr, err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// kill ends the process with SIGKILL.
func (p *sinkProcess) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.cmd.Process.Kill()
	<-p.dead
}

// storedByReference lists the ids of all events that the reference server has, or
// why it does not say so.
func storedByReference(t testing.TB, addr string) []string {
	t.Helper()
	c, err := api.NewClientWithResponses("http://" + addr)
	if err != nil {
		t.Fatal(err)
	}
	limit, token := 1000, ""
	ids := []string{}
	for {
		p := &api.ListEventsParams{Limit: &limit}
		if token != "" {
			p.PageToken = &token
		}
		out, err := c.ListEventsWithResponse(t.Context(), p)
		if err != nil {
			return []string{err.Error()}
		}
		if out.JSON200 == nil {
			return []string{out.Status()}
		}
		for _, e := range out.JSON200.Items {
			ids = append(ids, e.Event.ID)
		}
		if token = out.JSON200.NextPageToken; token == "" {
			slices.Sort(ids)
			return ids
		}
	}
}

// storedByReceiver lists the ids of all events that the receiver has, one that it
// has twice twice.
func storedByReceiver(t testing.TB, w *world) []string {
	t.Helper()
	ids, _, err := readReceived(receivedFile(w))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(ids)
	return ids
}
