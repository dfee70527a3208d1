//go:build bench

package bench

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/codec"
	"github.com/tollgate-dev/tollgate/internal/devserver"
	"github.com/tollgate-dev/tollgate/internal/devserver/devservertest"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// BenchmarkFailover kills one of two workers with SIGKILL while proxies are
// created, and measures how long those that stood still for it stood still.
func BenchmarkFailover(b *testing.B) {
	const kills, proxies = 4, 16
	p := newPair(b)
	var stalls []time.Duration
	run, doubled := 0, 0
	for b.Loop() {
		run++
		for kill := range kills {
			victim := kill % 2
			names := make([]string, proxies)
			ready := make(chan struct{})
			go func() {
				defer close(ready)
				parallel(b, proxies, proxies, func(i int) error {
					names[i] = fmt.Sprintf("kill-%d-%d-%d", run, kill, i)
					_, err := p.create(b.Context(), names[i], api.ProxySpec{Provider: "local"})
					return err
				})
			}()
			<-ready
			// A different moment of the lives each time.
			time.Sleep(time.Duration(kill) * 40 * time.Millisecond)
			at := time.Now()
			p.kill(victim)
			p.waitRunning(names)
			for _, n := range names {
				stalls = append(stalls, p.stall(n, at))
			}
			doubled += p.instances() - proxies
			p.remove(names)
			p.start(victim)
		}
	}
	if doubled != 0 {
		b.Errorf("%d instances too many", doubled)
	}
	summary.add(b, "resumed-max-s", fmt.Sprintf("longest standstill of %d proxies under way at %d kills", proxies*kills, kills), quantile(stalls, 1).Seconds(), "s", atMost(10))
	summary.add(b, "resumed-p50-s", "the same, p50", p50(stalls).Seconds(), "s", info)
}

// pair is two worker processes of one installation on one machine.
type pair struct {
	*world
	processes [2]*exec.Cmd
	http      [2]string
}

func newPair(b *testing.B) *pair {
	b.Helper()
	p := &pair{world: &world{b: b, dir: b.TempDir(), engine: devservertest.Start(b)}}
	if _, err := codec.Create(p.keyFile()); err != nil {
		b.Fatal(err)
	}
	p.client = p.dial()
	target := httptestTarget(b)
	text := fmt.Sprintf(`installation: %s
providers:
  - {name: local, type: local, local: {dir: %s, network: %s}}
probe: {target: %q, interval: 1m}
gc: {interval: 24h}
health: {interval: 1h}
codec: {keyFile: %s}
log: {level: warn}
`, installation, p.localDir(), localNetwork, target, p.keyFile())
	if err := os.WriteFile(filepath.Join(p.dir, "tollgate.yaml"), []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	for i := range p.processes {
		p.start(i)
	}
	b.Cleanup(func() {
		for i := range p.processes {
			p.kill(i)
		}
	})
	return p
}

func (p *pair) localDir() string { return filepath.Join(p.dir, "local") }

// httptestTarget is something that probes can connect to.
func httptestTarget(b *testing.B) string {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	s := &http.Server{Handler: http.NotFoundHandler()}
	go func() { _ = s.Serve(l) }() // ends with Close
	b.Cleanup(func() { _ = s.Close() })
	return l.Addr().String()
}

// start starts worker i and waits until it is ready.
func (p *pair) start(i int) {
	p.b.Helper()
	port, err := devserver.FreePort()
	if err != nil {
		p.b.Fatal(err)
	}
	p.http[i] = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	cmd := exec.Command(program(p.b, "tollgate-worker"), "--config", filepath.Join(p.dir, "tollgate.yaml"),
		"--state-dir", filepath.Join(p.dir, fmt.Sprintf("state-%d", i)), "--http-addr", p.http[i], "--metrics-addr", "")
	cmd.Env = append(os.Environ(), "TEMPORAL_ADDRESS="+p.engine.HostPort())
	log, err := os.OpenFile(filepath.Join(p.dir, fmt.Sprintf("worker-%d.log", i)), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		p.b.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		p.b.Fatal(err)
	}
	p.processes[i] = cmd
	eventually(p.b, time.Minute, 50*time.Millisecond, func() string {
		resp, err := http.Get("http://" + p.http[i] + "/readyz")
		if err != nil {
			return fmt.Sprintf("worker %d: %v\n%s", i, err, tail(log.Name()))
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Sprintf("worker %d: %s\n%s", i, resp.Status, tail(log.Name()))
		}
		return ""
	})
}

// kill ends worker i with SIGKILL.
func (p *pair) kill(i int) {
	if p.processes[i] == nil {
		return
	}
	_ = p.processes[i].Process.Kill()
	_ = p.processes[i].Wait() // it was killed
	p.processes[i] = nil
}

// waitRunning waits until all are Running.
func (p *pair) waitRunning(names []string) {
	p.b.Helper()
	for _, n := range names {
		eventually(p.b, 3*time.Minute, 50*time.Millisecond, func() string {
			h, err := p.history(workflows.ProxyID(namespace, n))
			if err != nil {
				return err.Error()
			}
			for _, e := range h {
				if becameHealthy(e) {
					return ""
				}
			}
			return n + " does not serve"
		})
	}
}

// stall is the longest time after the kill in which nothing happened to a proxy
// that did not serve yet; zero for one that did.
func (p *pair) stall(name string, at time.Time) time.Duration {
	p.b.Helper()
	h, err := p.history(workflows.ProxyID(namespace, name))
	if err != nil {
		p.b.Fatal(err)
	}
	last, longest := at, time.Duration(0)
	for _, e := range h {
		t := e.GetEventTime().AsTime()
		if t.After(last) {
			longest, last = max(longest, t.Sub(last)), t
		}
		if becameHealthy(e) {
			break
		}
	}
	return longest
}

// instances is how many the provider has on disk.
func (p *pair) instances() int {
	p.b.Helper()
	entries, err := os.ReadDir(filepath.Join(p.localDir(), "instances"))
	if err != nil {
		p.b.Fatal(err)
	}
	return len(entries)
}
