// Command mkengine builds the embedded engine, or a tool of the tests, into the
// cache if it is not there and links it to the path given: what "make engine" and
// "make tools" run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/tollgate-dev/tollgate/internal/devserver/enginebin"
)

func main() {
	link := flag.String("o", "", "`path` of a symbolic link to the binary")
	tool := flag.String("tool", "", "`name` of a tool to build instead of the engine: "+strings.Join(enginebin.Tools(), ", "))
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *tool, *link); err != nil {
		fmt.Fprintln(os.Stderr, "mkengine:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, tool, link string) (err error) {
	var path string
	if tool == "" {
		path, err = enginebin.Build(ctx, os.Stderr)
	} else {
		path, err = enginebin.BuildTool(ctx, tool, os.Stderr)
	}
	if err != nil {
		return err
	}
	if link == "" {
		fmt.Println(path)
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		return err
	}
	if old, err := os.Readlink(link); err == nil && old == path {
		return nil
	}
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Symlink(path, link)
}
