// Command tollgate-proxy is one instance of the local provider: a forward proxy
// in a process of its own. A worker starts it with an open lock, a listening
// socket and the reservation of its address; see package handoff. It ends on
// SIGTERM, and by itself once its directory is gone.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider/local/forward"
	"github.com/tollgate-dev/tollgate/internal/provider/local/handoff"
)

// watchInterval is how soon a process notices that its directory was removed.
const watchInterval = 2 * time.Second

const usage = `usage: tollgate-proxy --dir DIRECTORY

One forward proxy of the provider type "local". It is started by a Tollgate
worker, which hands it open descriptors; it cannot be started by hand.
`

func main() {
	log.SetFlags(log.LstdFlags | log.LUTC)
	dir := flag.String("dir", "", "directory of the instance")
	flag.Usage = func() { fmt.Fprint(os.Stderr, usage) }
	flag.Parse()
	if *dir == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	// Many of these run side by side, and each is mostly idle.
	debug.SetGCPercent(50)
	if err := run(*dir); err != nil {
		log.Print(err)
		os.Exit(1)
	}
}

func run(dir string) error {
	signal.Ignore(syscall.SIGHUP, syscall.SIGPIPE)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)

	if err := checkLock(dir); err != nil {
		return err
	}
	listener, err := inheritedListener()
	if err != nil {
		return err
	}
	config, err := handoff.ReadConfig(dir)
	if err != nil {
		return err
	}
	options := forward.Options{
		AllowPorts:  config.AllowPorts,
		IdleTimeout: config.IdleTimeout,
		Logger:      log.New(&limitedWriter{w: os.Stderr, left: 64 << 10}, "", log.LstdFlags|log.LUTC),
	}
	if config.Credentials != nil {
		options.Authorized = config.Credentials.Match
	}
	server := forward.NewServer(options)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	if err := announce(dir, listener.Addr().String()); err != nil {
		return err
	}

	watch := time.NewTicker(watchInterval)
	defer watch.Stop()
	for {
		select {
		case err := <-served:
			return fmt.Errorf("serve: %w", err)
		case <-stop:
			ctx, cancel := context.WithTimeout(context.Background(), config.Drain)
			server.Shutdown(ctx)
			cancel()
			return nil
		case <-watch.C:
			if removed() {
				return fmt.Errorf("%s was removed: nothing accounts for this process any more", filepath.Join(dir, handoff.LockFile))
			}
		}
	}
}

// checkLock refuses to run without the descriptor that accounts for this
// process. The descriptor is used by number only: a file object would close it
// when it is collected.
func checkLock(dir string) error {
	var have, want syscall.Stat_t
	if err := syscall.Fstat(handoff.LockFD, &have); err != nil {
		return fmt.Errorf("descriptor %d: %w: this program is started by a worker", handoff.LockFD, err)
	}
	path := filepath.Join(dir, handoff.LockFile)
	if err := syscall.Stat(path, &want); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if have.Dev != want.Dev || have.Ino != want.Ino {
		return fmt.Errorf("descriptor %d is not %s", handoff.LockFD, path)
	}
	return nil
}

// removed reports that the lock file has no name left.
func removed() bool {
	var st syscall.Stat_t
	return syscall.Fstat(handoff.LockFD, &st) == nil && st.Nlink == 0
}

func inheritedListener() (net.Listener, error) {
	f := os.NewFile(handoff.ListenerFD, "listener")
	l, err := net.FileListener(f) // a copy
	if err != nil {
		return nil, fmt.Errorf("descriptor %d: %w", handoff.ListenerFD, err)
	}
	return l, f.Close()
}

func announce(dir, address string) error {
	self, err := handoff.Identify(os.Getpid())
	if err != nil {
		return err
	}
	return handoff.WriteJSON(dir, handoff.ReadyFile, handoff.Ready{Process: self, Address: address, At: time.Now().UTC()}, false)
}

// limitedWriter keeps a process that lives for months from filling the disk.
// The log package serialises its calls.
type limitedWriter struct {
	w    io.Writer
	left int
}

func (l *limitedWriter) Write(p []byte) (int, error) {
	if len(p) <= l.left {
		l.left -= len(p)
		return l.w.Write(p)
	}
	l.left = 0
	return len(p), nil
}
