package enginebin_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/devserver/enginebin"
)

// These tests change the working directory and the environment: they cannot
// run in parallel.

const program = `package main

func main() { print("engine one") }
`

// tree makes a source tree with a small engine, goes into it and gives it a
// cache of its own.
func tree(t *testing.T) (engine, cache string) {
	t.Helper()
	root := t.TempDir()
	engine = filepath.Join(root, "internal", "devserver", "engine")
	cache = filepath.Join(t.TempDir(), "cache")
	for path, content := range map[string]string{
		filepath.Join(root, "go.mod"):         "module github.com/tollgate-dev/tollgate\n\ngo 1.26.0\n",
		filepath.Join(engine, "go.mod"):       "module engine\n\ngo 1.26.0\n",
		filepath.Join(engine, "go.sum"):       "",
		filepath.Join(engine, "main.go"):      program,
		filepath.Join(engine, "main_test.go"): "package main\n",
	} {
		write(t, path, content)
	}
	deep := filepath.Join(root, "internal", "somewhere")
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(deep)
	t.Setenv(enginebin.EnvPath, "")
	t.Setenv(enginebin.EnvCache, cache)
	return engine, cache
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func output(t *testing.T, path string) string {
	t.Helper()
	b, err := exec.Command(path).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return string(b)
}

func TestEnsureBuildsOnce(t *testing.T) {
	tree(t)
	if _, err := enginebin.Find(); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("Find before the build: %v", err)
	}
	var progress bytes.Buffer
	first, err := enginebin.Ensure(t.Context(), &progress)
	if err != nil {
		t.Fatal(err)
	}
	if got := output(t, first); got != "engine one" {
		t.Errorf("the binary says %q", got)
	}
	if !strings.Contains(progress.String(), "building the embedded engine once") {
		t.Errorf("progress is %q", &progress)
	}
	progress.Reset()
	second, err := enginebin.Ensure(t.Context(), &progress)
	if err != nil {
		t.Fatal(err)
	}
	if first != second || progress.Len() != 0 {
		t.Errorf("second call: %s after %s, progress %q", second, first, &progress)
	}
	if found, err := enginebin.Find(); err != nil || found != first {
		t.Errorf("Find after the build: %s, %v", found, err)
	}
}

func TestBuildFollowsTheSource(t *testing.T) {
	engine, _ := tree(t)
	build := func() string {
		t.Helper()
		path, err := enginebin.Build(t.Context(), io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	first := build()
	write(t, filepath.Join(engine, "main_test.go"), "package main\n\n// Another test.\n")
	if got := build(); got != first {
		t.Error("a changed test makes another binary")
	}
	write(t, filepath.Join(engine, "main.go"), strings.Replace(program, "one", "two", 1))
	second := build()
	if second == first {
		t.Fatal("a changed source does not make another binary")
	}
	if got := output(t, second); got != "engine two" {
		t.Errorf("the binary says %q", got)
	}
	write(t, filepath.Join(engine, "main.go"), program)
	if got := build(); got != first {
		t.Error("the old source does not find its old binary")
	}
	write(t, filepath.Join(engine, "go.mod"), "module engine\n\ngo 1.25.0\n")
	if got := build(); got == first {
		t.Error("another go.mod does not make another binary")
	}
}

func TestConcurrentCallsBuildOnce(t *testing.T) {
	tree(t)
	const callers = 4
	var (
		wg       sync.WaitGroup
		progress [callers]bytes.Buffer
		paths    [callers]string
		errs     [callers]error
	)
	for i := range callers {
		wg.Go(func() { paths[i], errs[i] = enginebin.Ensure(t.Context(), &progress[i]) })
	}
	wg.Wait()
	builds := 0
	for i := range callers {
		if errs[i] != nil {
			t.Fatal(errs[i])
		}
		if paths[i] != paths[0] {
			t.Errorf("%s and %s", paths[0], paths[i])
		}
		builds += strings.Count(progress[i].String(), "engine built in")
	}
	if builds != 1 {
		t.Errorf("%d builds", builds)
	}
}

func TestFailedBuildShowsTheCompiler(t *testing.T) {
	engine, cache := tree(t)
	write(t, filepath.Join(engine, "main.go"), "package main\n\nfunc main() { undefined() }\n")
	_, err := enginebin.Ensure(t.Context(), io.Discard)
	if err == nil || !strings.Contains(err.Error(), "undefined: undefined") {
		t.Errorf("got error %v", err)
	}
	left, err := filepath.Glob(filepath.Join(cache, "*", "*"))
	if err != nil || len(left) != 0 {
		t.Errorf("the failed build left %v, %v", left, err)
	}
}

func TestOldBuildsAreRemoved(t *testing.T) {
	_, cache := tree(t)
	old := time.Now().Add(-time.Hour)
	for i := range 6 {
		path := filepath.Join(cache, fmt.Sprint("build", i), enginebin.Name)
		write(t, path, "")
		at := old.Add(time.Duration(i) * time.Minute)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	current, err := enginebin.Build(t.Context(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(cache, "*", enginebin.Name))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{current: true}
	for _, i := range []int{3, 4, 5} {
		want[filepath.Join(cache, fmt.Sprint("build", i), enginebin.Name)] = true
	}
	if len(left) != len(want) {
		t.Errorf("left %v, want %v", left, want)
	}
	for _, path := range left {
		if !want[path] {
			t.Errorf("%s was not removed", path)
		}
	}
}

func TestNamedBinaryIsUsedAsItIs(t *testing.T) {
	tree(t)
	path := filepath.Join(t.TempDir(), "mine")
	t.Setenv(enginebin.EnvPath, path)
	if _, err := enginebin.Ensure(t.Context(), io.Discard); err == nil || !strings.Contains(err.Error(), enginebin.EnvPath) {
		t.Errorf("missing file: got error %v", err)
	}
	write(t, path, "#!/bin/sh\n")
	if _, err := enginebin.Ensure(t.Context(), io.Discard); err == nil || !strings.Contains(err.Error(), "not an executable file") {
		t.Errorf("not executable: got error %v", err)
	}
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if got, err := enginebin.Ensure(t.Context(), io.Discard); err != nil || got != path {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestNoSourceIsSaid(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv(enginebin.EnvPath, "")
	_, err := enginebin.Ensure(t.Context(), io.Discard)
	if !errors.Is(err, enginebin.ErrNoSource) || !strings.Contains(err.Error(), enginebin.EnvPath) {
		t.Errorf("got error %v", err)
	}
}

func TestToolsAreBuiltLikeTheEngine(t *testing.T) {
	engine, cache := tree(t)
	if _, err := enginebin.BuildTool(t.Context(), "tdbg", io.Discard); err == nil || !strings.Contains(err.Error(), `tool "tdbg" is not known: use one of promtool, tctl, temporal`) {
		t.Errorf("an unknown tool: %v", err)
	}
	// A package of that path, in place of the real one and its dependencies.
	dir := filepath.Join(filepath.Dir(engine), "tools", "tctl")
	write(t, filepath.Join(dir, "go.mod"), "module github.com/temporalio/tctl\n\ngo 1.26.0\n")
	write(t, filepath.Join(dir, "go.sum"), "")
	write(t, filepath.Join(dir, "cmd", "tctl", "main.go"), strings.Replace(program, "engine", "tool", 1))
	var progress bytes.Buffer
	first, err := enginebin.BuildTool(t.Context(), "tctl", &progress)
	if err != nil {
		t.Fatal(err)
	}
	if got := output(t, first); got != "tool one" {
		t.Errorf("the binary says %q", got)
	}
	if !strings.HasPrefix(first, filepath.Join(cache, "tools", "tctl")+"/") || !strings.Contains(progress.String(), "building the tctl command line once") {
		t.Errorf("built %s, progress %q", first, &progress)
	}
	progress.Reset()
	if second, err := enginebin.BuildTool(t.Context(), "tctl", &progress); err != nil || second != first || progress.Len() != 0 {
		t.Errorf("again: %s, %v, progress %q", second, err, &progress)
	}
	write(t, filepath.Join(dir, "go.sum"), "\n")
	if third, err := enginebin.BuildTool(t.Context(), "tctl", io.Discard); err != nil || third == first {
		t.Errorf("another go.sum makes %s, %v", third, err)
	}
}
