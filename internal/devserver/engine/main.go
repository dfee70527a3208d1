// Command tollgate-engine is Temporal in one process for one machine: the
// server on a SQLite file and its Web UI, on loopback addresses only. It takes
// the arguments of "temporal server start-dev", so it also serves as
// testsuite.DevServerOptions.ExistingPath, and its defaults are those that make
// the server fast on one machine.
//
// It is a module of its own, because the server's dependencies would otherwise
// become those of the worker and the command line.
//
// Exit codes: 0 after a clean stop, 2 for wrong arguments, 3 when a port or the
// database is in use, 1 for everything else.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

const (
	exitFailure = 1
	exitUsage   = 2
	exitInUse   = 3
)

func main() {
	opts, err := parseArgs(os.Args[1:], os.Stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, "tollgate-engine:", err)
		os.Exit(exitUsage)
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if opts.exitWithStdin {
		ctx = endWithInput(ctx, os.Stdin)
	}
	if err := run(ctx, opts); err != nil {
		fmt.Fprintln(os.Stderr, "tollgate-engine:", err)
		if errors.Is(err, errInUse) {
			os.Exit(exitInUse)
		}
		os.Exit(exitFailure)
	}
}

// endWithInput returns a context that also ends when in does. The parent holds
// the other end of a pipe and never writes: the kernel closes it however the
// parent dies, SIGKILL included, which a parent-death signal does not promise
// (it follows the thread that forked, not the process).
func endWithInput(ctx context.Context, in io.Reader) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, in) // an error ends the input as well
	}()
	return ctx
}
