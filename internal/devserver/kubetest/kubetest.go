// Package kubetest runs real control planes for tests: the API server of
// Kubernetes, alone or with that of Gardener, with an etcd of their own, on free
// ports of 127.0.0.1. The scripts under deploy/dev do the work, so that tests and
// people run the same thing.
//
// There are no nodes, no controllers and no gardenlet. A cluster takes 5 to 15
// seconds to start; tests of one package share one (Shared).
package kubetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Kind is a kind of control plane: the name of its folder under deploy/dev.
type Kind string

// The kinds.
const (
	Kubernetes Kind = "kubernetes"
	Gardener   Kind = "gardener"
)

// Names of the processes, for Stop and Up.
const (
	Etcd      = "etcd"
	APIServer = "kube-apiserver"
	// GardenerAPIServer is there in clusters of kind Gardener only.
	GardenerAPIServer = "gardener-apiserver"
)

// startTimeout covers the build of the programs on a machine that never made it.
const startTimeout = 20 * time.Minute

// Options change how a cluster is started.
type Options struct {
	Kind Kind
	// APIServerArgs and GardenerArgs are more arguments of the servers.
	APIServerArgs, GardenerArgs []string
}

// Cluster is a running control plane. Its methods are safe for concurrent use,
// those that stop and start processes excepted.
type Cluster struct {
	// Kubeconfig is the path of a kubeconfig of a user who may do everything.
	Kubeconfig string
	// Dir holds the logs and keys of the cluster.
	Dir string

	opts  Options
	ports []int // etcd, etcd's peers, kube-apiserver, gardener-apiserver
}

// Start starts a cluster of its own, which ends with the test.
func Start(tb testing.TB, o Options) *Cluster {
	tb.Helper()
	dir, err := os.MkdirTemp("", "tollgate-"+string(o.Kind)+"-")
	if err != nil {
		tb.Fatal(err)
	}
	c := &Cluster{Dir: dir, Kubeconfig: filepath.Join(dir, "kubeconfig"), opts: o}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("the end of the logs of %s:\n%s", dir, c.logs())
		}
		if err := c.end(); err != nil {
			tb.Error(err)
		}
	})
	if err := c.start(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return c
}

var shared struct {
	sync.Mutex
	clusters map[Kind]*sharedCluster
}

type sharedCluster struct {
	once sync.Once
	c    *Cluster
	err  error
}

// Shared returns the cluster of that kind that all tests of the process share. It
// is started when it is first asked for. It ends with Main, and with the process
// in any case.
func Shared(tb testing.TB, k Kind) *Cluster {
	tb.Helper()
	shared.Lock()
	if shared.clusters == nil {
		shared.clusters = map[Kind]*sharedCluster{}
	}
	s := shared.clusters[k]
	if s == nil {
		s = &sharedCluster{}
		shared.clusters[k] = s
	}
	shared.Unlock()
	s.once.Do(func() {
		dir, err := os.MkdirTemp("", "tollgate-"+string(k)+"-")
		if err != nil {
			s.err = err
			return
		}
		s.c = &Cluster{Dir: dir, Kubeconfig: filepath.Join(dir, "kubeconfig"), opts: Options{Kind: k}}
		s.err = s.c.start(context.Background())
	})
	if s.err != nil {
		tb.Fatal(s.err)
	}
	return s.c
}

// Main runs the tests of a package and ends what they shared:
//
//	func TestMain(m *testing.M) { os.Exit(kubetest.Main(m)) }
func Main(m *testing.M) int {
	code := m.Run()
	shared.Lock()
	defer shared.Unlock()
	for _, s := range shared.clusters {
		if s.c == nil {
			continue
		}
		if err := s.c.end(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	return code
}

// Config is the configuration of a client that may do everything, without a limit
// on its requests. It is the caller's.
func (c *Cluster) Config(tb testing.TB) *rest.Config {
	tb.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		tb.Fatal(err)
	}
	cfg.QPS = -1
	return cfg
}

// Stop ends the processes of those names, all of them if there are none.
func (c *Cluster) Stop(tb testing.TB, names ...string) {
	tb.Helper()
	if err := c.script(context.WithoutCancel(tb.Context()), "down.sh", names...); err != nil {
		tb.Fatal(err)
	}
}

// Up starts what was stopped, with the data that there was, and returns when it
// serves.
func (c *Cluster) Up(tb testing.TB) {
	tb.Helper()
	if err := c.script(tb.Context(), "up.sh"); err != nil {
		tb.Fatal(err)
	}
}

// start starts the cluster on free ports. Another process may take a port first:
// then others are tried.
func (c *Cluster) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	var err error
	for range 3 {
		if c.ports, err = freePorts(4); err != nil {
			return err
		}
		if err = c.script(ctx, "up.sh"); err == nil || !strings.Contains(err.Error(), "is in use") {
			return err
		}
		if downErr := c.script(ctx, "down.sh"); downErr != nil {
			return errors.Join(err, downErr)
		}
	}
	return err
}

func (c *Cluster) end() error {
	err := c.script(context.Background(), "down.sh")
	return errors.Join(err, os.RemoveAll(c.Dir))
}

func (c *Cluster) script(ctx context.Context, name string, args ...string) error {
	_, self, _, _ := runtime.Caller(0)
	path := filepath.Join(filepath.Dir(self), "..", "..", "..", "deploy", "dev", string(c.opts.Kind), name)
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.WaitDelay = 10 * time.Second
	cmd.Env = append(os.Environ(),
		"RUN_DIR="+c.Dir, "OWNER_PID="+strconv.Itoa(os.Getpid()),
		"APISERVER_ARGS="+strings.Join(c.opts.APIServerArgs, " "), "GARDENER_ARGS="+strings.Join(c.opts.GardenerArgs, " "))
	for i, env := range []string{"ETCD_PORT", "ETCD_PEER_PORT", "APISERVER_PORT", "GARDENER_PORT"} {
		if i < len(c.ports) {
			cmd.Env = append(cmd.Env, env+"="+strconv.Itoa(c.ports[i]))
		}
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s of %s: %w\n%s", name, c.opts.Kind, errors.Join(err, ctx.Err()), out.String())
	}
	return nil
}

// logs are the last lines of each log.
func (c *Cluster) logs() string {
	files, _ := filepath.Glob(filepath.Join(c.Dir, "*.log"))
	var out strings.Builder
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		lines := strings.Split(strings.TrimSpace(string(b)), "\n")
		fmt.Fprintf(&out, "%s:\n%s\n", filepath.Base(f), strings.Join(lines[max(0, len(lines)-15):], "\n"))
	}
	return out.String()
}

// freePorts returns ports that nobody listens on.
func freePorts(n int) (ports []int, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("free port: %w", err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
