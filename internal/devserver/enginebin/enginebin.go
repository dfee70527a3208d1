// Package enginebin finds the embedded engine's binary and builds it when there
// is none. The engine is a module of its own and takes minutes to compile, so
// builds are kept in the user's cache under the hash of what they were built
// from; every checkout and every test shares them. The command lines that tests and
// checks use are built and kept in the same way.
package enginebin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

const (
	// Name is the file name of the binary.
	Name = "tollgate-engine"
	// EnvPath is the environment variable that names a binary to use as it is.
	EnvPath = "TOLLGATE_ENGINE"
	// EnvCache is the environment variable that names another cache directory.
	EnvCache = "TOLLGATE_ENGINE_CACHE"

	mainModule = "module github.com/tollgate-dev/tollgate"
	// keepBuilds is how many builds the cache keeps, the last ones used.
	keepBuilds = 4
	// progressEvery is the time between two lines of progress during a build.
	progressEvery = 20 * time.Second
)

// program is something that is built out of a module of its own.
type program struct {
	name  string // file name of the binary
	what  string // in messages
	took  string // how long a build takes, for whoever waits
	dir   string // the module, in the source tree
	pkg   string // the package in it
	under string // folder of the cache
	tags  string // of the build
}

var engine = program{
	name: Name, what: "embedded engine", took: "about 7 minutes on two cores",
	dir: "internal/devserver/engine", pkg: ".",
}

// ErrNoSource is returned when there is no binary and no source to build one.
var ErrNoSource = errors.New("no engine binary and no source tree to build it from")

// Find returns the path of a binary, in this order: the one EnvPath names, the
// one beside the running executable, the one in the cache that was built from
// the source tree around the working directory. The error is fs.ErrNotExist
// when a build would make one and ErrNoSource when it could not.
func Find() (string, error) {
	if p := os.Getenv(EnvPath); p != "" {
		if err := executable(p); err != nil {
			return "", fmt.Errorf("%s=%q: %w", EnvPath, p, err)
		}
		return p, nil
	}
	if self, err := os.Executable(); err == nil {
		if p := filepath.Join(filepath.Dir(self), Name); executable(p) == nil {
			return p, nil
		}
	}
	src, err := source(engine)
	if err != nil {
		return "", err
	}
	p, err := cached(engine, src)
	if err != nil {
		return "", err
	}
	if err := executable(p); err != nil {
		return "", fmt.Errorf("the engine is not built: %w", fs.ErrNotExist)
	}
	used(p)
	return p, nil
}

// Ensure is Find, but builds the binary if there is none. Lines of progress go
// to progress. Concurrent calls, in other processes too, build once; ctx ends a
// build or the wait for one.
func Ensure(ctx context.Context, progress io.Writer) (string, error) {
	p, err := Find()
	if !errors.Is(err, fs.ErrNotExist) || os.Getenv(EnvPath) != "" {
		return p, err
	}
	return Build(ctx, progress)
}

// Build returns the binary of the source tree, out of the cache if it is there.
// Unlike Ensure it looks nowhere else.
func Build(ctx context.Context, progress io.Writer) (string, error) {
	return engine.build(ctx, progress)
}

func (p program) build(ctx context.Context, progress io.Writer) (string, error) {
	src, err := source(p)
	if err != nil {
		return "", err
	}
	target, err := cached(p, src)
	if err != nil {
		return "", err
	}
	if executable(target) == nil {
		used(target)
		return target, nil
	}
	dir := filepath.Dir(target)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("%s cache: %w", p.what, err)
	}
	unlock, err := lock(ctx, p.what, filepath.Join(filepath.Dir(dir), "build.lock"), progress)
	if err != nil {
		return "", err
	}
	defer unlock()
	if executable(target) == nil { // another process has built it meanwhile
		return target, nil
	}
	if err := p.compile(ctx, src, target, progress); err != nil {
		return "", err
	}
	p.prune(filepath.Dir(dir), dir)
	return target, nil
}

func (p program) compile(ctx context.Context, src, target string, progress io.Writer) error {
	fmt.Fprintf(progress, "building the %s once, takes %s\n", p.what, p.took)
	draft := target + ".new"
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-tags="+p.tags, "-o", draft, p.pkg)
	cmd.Dir = src
	// The module stands outside any workspace of the main one.
	cmd.Env = append(os.Environ(), "GOWORK=off")
	// An interrupted go build ends its compilers too; a killed one leaves them.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	started := time.Now()
	finished := make(chan struct{})
	reported := make(chan struct{})
	go func() {
		defer close(reported)
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			select {
			case <-finished:
				return
			case <-tick.C:
				fmt.Fprintf(progress, "  still building the %s, %v so far\n", p.what, time.Since(started).Round(time.Second))
			}
		}
	}()
	err := cmd.Run()
	close(finished)
	<-reported
	if err != nil {
		return fmt.Errorf("build the %s in %s: %w\n%s", p.what, src, errors.Join(err, ctx.Err()), out.String())
	}
	fmt.Fprintf(progress, "%s built in %v\n", p.what, time.Since(started).Round(time.Second))
	if err := os.Rename(draft, target); err != nil {
		return fmt.Errorf("%s cache: %w", p.what, err)
	}
	return nil
}

// source is the program's module in the source tree that the working
// directory or the running executable is in.
func source(p program) (string, error) {
	var starts []string
	if wd, err := os.Getwd(); err == nil {
		starts = append(starts, wd)
	}
	if self, err := os.Executable(); err == nil {
		starts = append(starts, filepath.Dir(self))
	}
	for _, dir := range starts {
		for {
			if b, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil && hasLine(string(b), mainModule) {
				return filepath.Join(dir, p.dir), nil
			}
			parent := filepath.Dir(dir)
			if parent == dir {
				break
			}
			dir = parent
		}
	}
	return "", fmt.Errorf("%w: set %s to a %s binary, put one beside this executable, or run inside the source tree", ErrNoSource, EnvPath, Name)
}

func hasLine(text, line string) bool {
	for l := range strings.Lines(text) {
		if strings.TrimSpace(l) == line {
			return true
		}
	}
	return false
}

// cached is where the binary built from src is kept.
func cached(p program, src string) (string, error) {
	root := os.Getenv(EnvCache)
	if root == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("%s cache: %w; set %s", p.what, err, EnvCache)
		}
		root = filepath.Join(user, "tollgate", "engine")
	}
	sum, err := hashSource(src)
	if err != nil {
		return "", fmt.Errorf("hash the source of the %s: %w", p.what, err)
	}
	return filepath.Join(root, p.under, sum, p.name), nil
}

// hashSource covers everything a build reads: sources without tests, the
// modules' versions and checksums, the toolchain and the platform.
func hashSource(src string) (string, error) {
	entries, err := os.ReadDir(src)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	fmt.Fprintln(h, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	for _, e := range entries { // sorted by name
		name := e.Name()
		isSource := strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
		if !isSource && name != "go.mod" && name != "go.sum" {
			continue
		}
		b, err := os.ReadFile(filepath.Join(src, name))
		if err != nil {
			return "", err
		}
		fmt.Fprintln(h, name, len(b))
		h.Write(b)
	}
	return hex.EncodeToString(h.Sum(nil))[:24], nil
}

// used makes the build the newest, so that prune spares it.
func used(path string) {
	now := time.Now()
	_ = os.Chtimes(path, now, now) // only its rank is lost
}

// prune removes the builds that were not used for the longest time. A running engine keeps its deleted file.
func (p program) prune(root, current string) {
	dirs, err := filepath.Glob(filepath.Join(root, "*", p.name))
	if err != nil {
		return
	}
	type build struct {
		dir string
		at  time.Time
	}
	var builds []build
	for _, path := range dirs {
		if info, err := os.Stat(path); err == nil && filepath.Dir(path) != current {
			builds = append(builds, build{filepath.Dir(path), info.ModTime()})
		}
	}
	slices.SortFunc(builds, func(a, b build) int { return b.at.Compare(a.at) })
	for i, b := range builds {
		if i >= keepBuilds-1 {
			_ = os.RemoveAll(b.dir) // only space is lost
		}
	}
}

func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return errors.New("not an executable file")
	}
	return nil
}
