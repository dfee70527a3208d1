// Command tollgate creates, shows, changes and deletes egress proxies. See
// package cli for what it does, and docs/reference/cli.md for its commands.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/tollgate-dev/tollgate/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal ends the wait; a second one ends the process.
	context.AfterFunc(ctx, stop)
	os.Exit(int(cli.Main(ctx, os.Args[1:], cli.SystemEnv())))
}
