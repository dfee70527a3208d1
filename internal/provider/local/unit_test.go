package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/local/handoff"
)

func TestTypeIsValid(t *testing.T) {
	t.Parallel()
	if err := provider.CheckType(Type()); err != nil {
		t.Error(err)
	}
}

func TestRequestsThatAreRefused(t *testing.T) {
	t.Parallel()
	auth := func(user, password string) *provider.BasicAuth {
		return &provider.BasicAuth{Username: user, Password: provider.NewSensitive([]byte(password))}
	}
	f := newFixture(t)
	p := f.open()
	for _, tt := range []struct {
		name   string
		change func(*provider.CreateRequest)
		want   []string
	}{
		{"name", func(r *provider.CreateRequest) { r.Name = "../up" }, []string{"name", "../up"}},
		{"no uid", func(r *provider.CreateRequest) { r.Marks.UID = "" }, []string{"marks.uid"}},
		{"no installation", func(r *provider.CreateRequest) { r.Marks.Installation = "" }, []string{"marks.installation"}},
		{"port 0", func(r *provider.CreateRequest) { r.Port = 0 }, []string{"port", "0", "1 to 65535"}},
		{"port too large", func(r *provider.CreateRequest) { r.Port = 65536 }, []string{"port", "65536"}},
		{"region", func(r *provider.CreateRequest) { r.Placement.Region = "moon" }, []string{"placement.region", "moon", `"local"`}},
		{"zone", func(r *provider.CreateRequest) { r.Placement.Zone = "z1" }, []string{"placement.zone", "z1", "none"}},
		{"machine type", func(r *provider.CreateRequest) { r.Placement.MachineType = "cx22" }, []string{"placement.machineType", "cx22"}},
		{"image", func(r *provider.CreateRequest) { r.Placement.Image = "debian" }, []string{"placement.image", "debian"}},
		{"user with a colon", func(r *provider.CreateRequest) { r.Auth = auth("a:b", "sentinel") }, []string{"auth.username", "a:b"}},
		{"no user", func(r *provider.CreateRequest) { r.Auth = auth("", "sentinel") }, []string{"auth.username"}},
		{"no password", func(r *provider.CreateRequest) { r.Auth = auth("alice", "") }, []string{"auth.password"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req := request()
			tt.change(&req)
			_, err := p.Create(t.Context(), req)
			wantClass(t, err, provider.Permanent)
			if got := provider.ReasonOf(err); got != provider.ReasonInvalidSpec {
				t.Errorf("reason %q, want %q", got, provider.ReasonInvalidSpec)
			}
			for _, w := range tt.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("the error does not name %q: %v", w, err)
				}
			}
			if strings.Contains(err.Error(), "sentinel") {
				t.Errorf("the error holds the password: %v", err)
			}
		})
	}
	if got := files(t, f.dir); len(got) != 0 {
		t.Errorf("refused requests left %v", got)
	}
}

func TestConfigurationThatIsRefused(t *testing.T) {
	t.Parallel()
	minute := time.Minute
	for _, tt := range []struct {
		name string
		o    Options
		want string
	}{
		{"no range", Options{Network: "many"}, `network: "many"`},
		{"an address", Options{Network: "127.77.0.1"}, `network: "127.77.0.1"`},
		{"a range elsewhere", Options{Network: "10.0.0.0/16"}, "127.0.0.0/8"},
		{"a range beyond the loopback", Options{Network: "126.0.0.0/7"}, "127.0.0.0/8"},
		{"a range too small", Options{Network: "127.1.1.0/31"}, "/30"},
		{"IPv6", Options{Network: "::1/128"}, "::1/128"},
		{"maxInstances", Options{MaxInstances: -1}, "maxInstances: -1"},
		{"allowPorts", Options{AllowPorts: []int{443, 0}}, "allowPorts[1]: 0"},
		{"idleTimeout", Options{IdleTimeout: time.Millisecond}, "idleTimeout: 1ms"},
		{"drain", Options{Drain: &minute}, "drain: 1m0s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := New(provider.Config{Name: "here", StateDir: t.TempDir(), Decode: decodeFrom(tt.o)})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
	if _, err := New(provider.Config{Name: "here"}); err == nil || !strings.Contains(err.Error(), "dir") {
		t.Errorf("without any directory: %v, want an error that names dir", err)
	}
	if _, err := New(provider.Config{Name: "here", StateDir: "x", Decode: func(any) error { return errLost }}); !errors.Is(err, errLost) {
		t.Errorf("an error of the decoder became %v", err)
	}
}

func TestClassify(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err    error
		class  provider.Class
		reason string
	}{
		{invalid{errors.New("x")}, provider.Permanent, provider.ReasonInvalidSpec},
		{errQuota, provider.QuotaExceeded, ""},
		{errPortBusy, provider.CapacityUnavailable, ""},
		{errNoAddress, provider.CapacityUnavailable, ""},
		{errNoBinary, provider.Permanent, reasonBinaryMissing},
		{exec.ErrNotFound, provider.Permanent, reasonBinaryMissing},
		{syscall.ENOEXEC, provider.Permanent, reasonBinaryMissing},
		{syscall.EADDRNOTAVAIL, provider.Permanent, reasonNetworkUnusable},
		{syscall.EACCES, provider.Permanent, provider.ReasonForbidden},
		{syscall.EPERM, provider.Permanent, provider.ReasonForbidden},
		{fs.ErrPermission, provider.Permanent, provider.ReasonForbidden},
		{syscall.EROFS, provider.Permanent, provider.ReasonForbidden},
		{syscall.ENOTDIR, provider.Permanent, provider.ReasonForbidden},
		{syscall.ENOSPC, provider.CapacityUnavailable, ""},
		{syscall.EDQUOT, provider.CapacityUnavailable, ""},
		{syscall.EAGAIN, provider.CapacityUnavailable, ""},
		{syscall.ENOMEM, provider.CapacityUnavailable, ""},
		{syscall.EMFILE, provider.CapacityUnavailable, ""},
		{syscall.ENFILE, provider.CapacityUnavailable, ""},
		{syscall.EIO, provider.Transient, ""},
		{context.Canceled, provider.Transient, ""},
		{errors.New("not an error of the system"), provider.Transient, ""},
	} {
		class, reason := classify(fmt.Errorf("op: %w", tt.err))
		if class != tt.class || reason != tt.reason {
			t.Errorf("%v: %s %q, want %s %q", tt.err, class, reason, tt.class, tt.reason)
		}
	}
	classed := provider.Wrap(provider.Conflict, provider.OpCreate, "here", "x", errLost)
	if got := (&Provider{}).wrap(provider.OpGet, "y", classed); got != classed {
		t.Errorf("an error with a class became %v", got)
	}
}

func TestState(t *testing.T) {
	t.Parallel()
	process, ready, since := &handoff.Process{PID: 1}, &handoff.Ready{}, time.Now()
	for _, tt := range []struct {
		m     meta
		ready *handoff.Ready
		alive bool
		want  provider.State
	}{
		{meta{}, nil, false, provider.StateProvisioning},
		{meta{}, nil, true, provider.StateProvisioning},
		{meta{}, ready, true, provider.StateRunning},
		{meta{}, ready, false, provider.StateStopped},
		{meta{Process: process}, nil, true, provider.StateProvisioning},
		{meta{Process: process}, nil, false, provider.StateStopped},
		{meta{Process: process}, ready, true, provider.StateRunning},
		{meta{Process: process}, ready, false, provider.StateStopped},
		{meta{DeletingSince: since}, ready, true, provider.StateTerminated},
		{meta{DeletingSince: since}, nil, false, provider.StateTerminated},
	} {
		if got, _ := state(tt.m, tt.ready, tt.alive); got != tt.want {
			t.Errorf("state(%+v, %v, %v) = %s, want %s", tt.m, tt.ready, tt.alive, got, tt.want)
		}
	}
}

func TestCandidates(t *testing.T) {
	t.Parallel()
	for network, want := range map[string]struct {
		n           int
		first, last string
	}{
		"127.77.0.0/16": {65534, "127.77.0.1", "127.77.255.254"},
		"127.1.2.4/30":  {2, "127.1.2.5", "127.1.2.6"},
		"127.0.0.0/16":  {65535 - 256, "127.0.1.0", "127.0.255.254"},
		"127.0.0.0/30":  {0, "", ""},
	} {
		var all []netip.Addr
		prefix := netip.MustParsePrefix(network)
		for a := range candidates(prefix, "x") {
			all = append(all, a)
		}
		if len(all) != want.n || capacity(prefix) != want.n {
			t.Errorf("%s: %d addresses, capacity %d, want %d", network, len(all), capacity(prefix), want.n)
			continue
		}
		if slices.SortFunc(all, netip.Addr.Compare); want.n > 0 && (all[0].String() != want.first || all[want.n-1].String() != want.last) {
			t.Errorf("%s: %v to %v, want %s to %s", network, all[0], all[want.n-1], want.first, want.last)
		}
		if len(slices.Compact(all)) != want.n {
			t.Errorf("%s: an address comes twice", network)
		}
	}
	if a, b := firstCandidate(t, "one"), firstCandidate(t, "one"); a != b || a == firstCandidate(t, "two") {
		t.Errorf("starts %v, %v and %v: want them to follow from the name", a, b, firstCandidate(t, "two"))
	}
}

func TestFindBinary(t *testing.T) {
	program, dir := filepath.Join(t.TempDir(), binaryName), t.TempDir()
	if err := os.WriteFile(program, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, config, env, path string
		want                    string
		wantErr                 []string
	}{
		{name: "configured", config: program, env: plain, want: program},
		{name: "environment", env: program, want: program},
		{name: "in PATH", path: filepath.Dir(program), want: program},
		{name: "nowhere", wantErr: []string{"make build", BinaryEnv}},
		{name: "configured and missing", config: dir + "/none", env: program, wantErr: []string{"binary", dir + "/none", "make build"}},
		{name: "in the environment and no program", env: plain, path: filepath.Dir(program), wantErr: []string{BinaryEnv, plain, "make build"}},
		{name: "a directory", config: dir, wantErr: []string{dir}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv(BinaryEnv, tt.env)
			t.Setenv("PATH", tt.path)
			p := &Provider{opt: options{binary: tt.config}}
			got, err := p.findBinary()
			if got != tt.want || (err != nil) != (tt.wantErr != nil) {
				t.Fatalf("%q, %v; want %q", got, err, tt.want)
			}
			for _, w := range tt.wantErr {
				if !strings.Contains(err.Error(), w) || !errors.Is(err, errNoBinary) {
					t.Errorf("%v does not say %q", err, w)
				}
			}
		})
	}
}

func TestCreateWithoutTheProgramTouchesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, err := f.open(func(o *Options) { o.Binary = f.dir + "/missing" }).Create(t.Context(), request())
	wantClass(t, err, provider.Permanent)
	if got := files(t, f.dir); len(got) != 0 {
		t.Errorf("left %v", got)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	file := filepath.Join(f.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	held, err := reserve(netip.MustParseAddr("127.92.0.1"))
	if held == nil || err != nil {
		t.Fatal(held, err)
	}
	defer func() { _ = held.Close() }()
	held2, err := reserve(netip.MustParseAddr("127.92.0.2"))
	if held2 == nil || err != nil {
		t.Fatal(held2, err)
	}
	defer func() { _ = held2.Close() }()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	ok := []string{"binary Reachable", "directory Reachable", "network Reachable"}
	for _, tt := range []struct {
		name   string
		ctx    context.Context
		change func(*Options)
		want   []string
	}{
		{"all well", t.Context(), func(*Options) {}, ok},
		{"no program", t.Context(), func(o *Options) { o.Binary = file }, []string{"binary BinaryMissing", ok[1], ok[2]}},
		{"no directory", t.Context(), func(o *Options) { o.Dir = file + "/sub" }, []string{ok[0], "directory DirectoryUnusable", "network NetworkUnusable"}},
		{"no free address", t.Context(), func(o *Options) { o.Network = "127.92.0.0/30" }, []string{ok[0], ok[1], "network NetworkUnusable"}},
		{"no time", ended, func(*Options) {}, []string{"binary Timeout", "directory Timeout", "network Timeout"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, s := range f.open(tt.change).Check(tt.ctx) {
				got = append(got, s.Target+" "+s.Reason)
				if s.Ready != (s.Reason == provider.ReasonReachable) || s.Ready == (s.Message != "") {
					t.Errorf("%+v contradicts itself", s)
				}
			}
			if diff := cmp.Diff(got, tt.want); diff != "" {
				t.Errorf("(-got +want):\n%s", diff)
			}
		})
	}
}

// lockedBuffer is a log that several goroutines write.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func TestSpansAndLogsHoldNoSecret(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	before := otel.GetTracerProvider()
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)))
	defer otel.SetTracerProvider(before)

	f, req := newFixture(t), request()
	var logs lockedBuffer
	p := f.open()
	p.log = slog.New(slog.NewJSONHandler(&logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	req.CloudInit = provider.NewSensitive([]byte("sentinel-of-cloud-init"))
	req.Auth = &provider.BasicAuth{Username: "alice", Password: provider.NewSensitive([]byte("sentinel-of-password"))}
	ctx, parent := otel.Tracer("test").Start(t.Context(), "operation")
	id, err := p.Create(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	f.running(p, id)
	if err := p.Delete(ctx, id); err != nil {
		t.Fatal(err)
	}
	parent.End()
	var got []string
	for _, s := range recorder.Ended() {
		if s.SpanContext().TraceID() != parent.SpanContext().TraceID() {
			t.Errorf("span %s is of another trace", s.Name())
		}
		got = append(got, s.Name())
	}
	if diff := cmp.Diff(got, []string{"local.allocate", "local.spawn", "local.stop", "operation"}); diff != "" {
		t.Errorf("spans (-got +want):\n%s", diff)
	}
	if !strings.Contains(logs.b.String(), "local provider call") || strings.Contains(logs.b.String(), "sentinel") {
		t.Errorf("log: %s\nwant outcomes and no secret", logs.b.String())
	}
}
