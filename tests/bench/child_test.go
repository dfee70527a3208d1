//go:build bench

package bench

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/app"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/all"
	"github.com/tollgate-dev/tollgate/internal/provider/memory"
	"github.com/tollgate-dev/tollgate/internal/temporalclient"
)

// The roles of child processes. What they use of the CPU and the memory can be
// told from what the benchmark itself uses.
const (
	roleWorker = "worker" // Tollgate's worker over a cloud in its memory
	roleStub   = "stub"   // forward proxies that say yes
	roleLoop   = "loop"   // fetches and posts
)

// order is a line to a child, the first one included; answer is the line back.
type (
	order struct {
		// Of a worker's first line.
		Engine, StateDir, Config string
		PageSize                 int
		Addresses                []string
		// Of a stub's first line: where it writes its target's certificate.
		CAFile string
		// Of a loop's: pages of that API, to that sink.
		Endpoint, Sink, URL string
		From, Pages         int
		// Later lines of a worker: put instances into the cloud.
		Place []placed
	}
	answer struct {
		Error string
		// Of a stub.
		Addresses  []string
		Port       int
		Target     string
		TargetName string
		// Of a worker: requests to the cloud so far, by kind.
		Calls map[memory.Call]int
		// Of a loop.
		Took time.Duration
	}
	// placed is an instance whose owner exists.
	placed struct{ Name, UID, Proxy string }
)

// installation is the one of all workers here.
const installation = "bench"

func child(role string, in io.Reader, out io.Writer) error {
	orders, answers := json.NewDecoder(in), json.NewEncoder(out)
	var o order
	if err := orders.Decode(&o); err != nil {
		return err
	}
	serve := map[string]func(order, *json.Decoder, *json.Encoder) error{roleWorker: serveWorker, roleStub: serveStub, roleLoop: serveLoop}[role]
	if serve == nil {
		return fmt.Errorf("no role %q", role)
	}
	err := serve(o, orders, answers)
	if errors.Is(err, io.EOF) {
		return nil // the benchmark is done with us
	}
	return err
}

// serveWorker runs the app until its orders end.
func serveWorker(o order, orders *json.Decoder, answers *json.Encoder) error {
	addresses := o.Addresses
	backend := memory.NewBackend(memory.Options{
		PageSize: o.PageSize,
		Address:  func(key int64) netip.Addr { return addressOf(addresses, key) },
	})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if dir := os.Getenv("TOLLGATE_BENCH_PROFILES"); dir != "" {
		f, err := os.CreateTemp(dir, "worker-*.cpu.pprof")
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	a, err := app.New(ctx, app.Options{
		ConfigFile: o.Config, StateDir: o.StateDir, Types: append(all.Types(), memory.Type(backend)),
		Temporal: temporalclient.Options{Address: o.Engine, Namespace: "default", Isolated: true, Wait: 10 * time.Second},
		Logger:   slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	select {
	case <-a.Ready():
	case err := <-done:
		return err
	}
	for {
		if err := answers.Encode(answer{Calls: calls(backend)}); err != nil {
			return err
		}
		o = order{}
		if err := orders.Decode(&o); err != nil {
			cancel()
			return errors.Join(err, <-done)
		}
		for _, p := range o.Place {
			if err := place(ctx, backend, p); err != nil {
				return err
			}
		}
	}
}

// addressOf is the address of the server with that key. Keys are even: the ones
// between are those of addresses.
func addressOf(addresses []string, key int64) netip.Addr {
	return netip.MustParseAddr(addresses[key/2%int64(len(addresses))])
}

func calls(b *memory.Backend) map[memory.Call]int {
	out := map[memory.Call]int{}
	for _, c := range []memory.Call{
		memory.CallCreateServer, memory.CallGetServer, memory.CallFindServer, memory.CallDeleteServer, memory.CallListServers,
		memory.CallCreateAddress, memory.CallDetachAddress, memory.CallDeleteAddress, memory.CallListAddresses, memory.CallPing, memory.CallPrice,
	} {
		out[c] = b.Calls(c)
	}
	return out
}

// place puts an instance with its address into the cloud.
func place(ctx context.Context, b *memory.Backend, p placed) error {
	marks := provider.Marks{UID: p.UID, Installation: installation, Namespace: namespace, Proxy: p.Proxy, SpecHash: "bench"}
	a, err := b.CreateAddress(ctx, "", p.Name+"-ip", marks.Labels())
	if err != nil {
		return err
	}
	b.Place(memory.NewServer{Name: p.Name, Region: "north", Labels: marks.Labels(), AddressID: a.ID})
	return nil
}

// serveStub answers every CONNECT with 200 and then shakes hands as its target
// would, on several addresses, so that there are enough ports.
func serveStub(o order, orders *json.Decoder, answers *json.Encoder) error {
	target := httptest.NewTLSServer(nil)
	defer target.Close()
	pemBytes := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: target.Certificate().Raw})
	if err := os.WriteFile(o.CAFile, pemBytes, 0o600); err != nil {
		return err
	}
	a := answer{Target: target.Listener.Addr().String(), TargetName: "example.com"}
	for i := range 16 {
		addr := fmt.Sprintf("127.88.0.%d", i+1)
		l, err := net.Listen("tcp", net.JoinHostPort(addr, strconv.Itoa(a.Port)))
		if err != nil {
			return err
		}
		a.Port = l.Addr().(*net.TCPAddr).Port
		a.Addresses = append(a.Addresses, addr)
		go acceptAll(l, target)
	}
	if err := answers.Encode(a); err != nil {
		return err
	}
	return orders.Decode(&o)
}

// process is a child at work.
type process struct {
	b     *testing.B
	cmd   *exec.Cmd
	to    *json.Encoder
	from  *json.Decoder
	first answer
}

// spawn starts a child and waits for its first answer.
func spawn(b *testing.B, role string, o order, env ...string) *process {
	b.Helper()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	p := &process{b: b, cmd: exec.Command(self)}
	p.cmd.Env = append(append(os.Environ(), childEnv+"="+role), env...)
	log, err := os.Create(filepath.Join(b.TempDir(), role+".log"))
	if err != nil {
		b.Fatal(err)
	}
	defer log.Close()
	p.cmd.Stderr = log
	in, err := p.cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	p.to, p.from = json.NewEncoder(in), json.NewDecoder(out)
	if err := p.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = in.Close()
		late := time.AfterFunc(20*time.Second, func() { _ = p.cmd.Process.Kill() })
		defer late.Stop()
		if err := p.cmd.Wait(); err != nil {
			b.Errorf("%s: %v", role, err)
		}
		if b.Failed() {
			b.Logf("end of the %s's log:\n%s", role, tail(log.Name()))
		}
	})
	p.first = p.ask(o)
	return p
}

func tail(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(string(text), "\n")
	return strings.Join(lines[max(0, len(lines)-40):], "\n")
}

// ask sends an order and returns the answer.
func (p *process) ask(o order) answer {
	p.b.Helper()
	var a answer
	err := p.to.Encode(o)
	if err == nil {
		err = p.from.Decode(&a)
	}
	if err != nil {
		p.b.Fatalf("child process: %v", err)
	}
	return a
}

// calls are the requests to the worker's cloud so far.
func (p *process) calls() map[memory.Call]int { return p.ask(order{}).Calls }
