// Command tollgate-reporting serves the Reporting API and its pages from a SQLite
// file.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting/reportingserver"
)

// Exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	// exitUsage is for flags and tokens: trying again will not help.
	exitUsage = 2
)

const usage = `tollgate-reporting serves the Reporting API and its pages from a SQLite file.

Usage:
  tollgate-reporting [flags]

Examples:
  tollgate-reporting
  tollgate-reporting --listen :7270 --db /var/lib/tollgate/reporting.db --token-file /etc/tollgate/reporting-token

A token file has one token per line; each is let in, so that one can be replaced
while clients still use the other. Without a token everybody is let in, which is
allowed on the loopback interface only.

Signals: TERM and INT finish the requests under way and end.

Flags:
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

type flags struct {
	listen, metrics, db, tokenFile, logLevel string
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var f flags
	fs := flag.NewFlagSet("tollgate-reporting", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&f.listen, "listen", "127.0.0.1:7270", "address to listen on")
	fs.StringVar(&f.metrics, "metrics-listen", "", "`address` for the metrics alone, without a token; they are at /metrics of --listen too")
	fs.StringVar(&f.db, "db", "reporting.db", "database `file`; made when there is none")
	fs.StringVar(&f.tokenFile, "token-file", "", "`file` with the bearer tokens")
	fs.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
	fs.Usage = func() {
		_, _ = fmt.Fprint(fs.Output(), usage)
		fs.PrintDefaults()
	}
	switch err := fs.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return exitUsage
	case fs.NArg() > 0:
		return fail(stderr, exitUsage, fmt.Errorf("%q is no flag", fs.Arg(0)))
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.logLevel)); err != nil {
		return fail(stderr, exitUsage, fmt.Errorf("--log-level: %q is unknown: want debug, info, warn or error", f.logLevel))
	}
	tokens, err := readTokens(f.tokenFile)
	if err != nil {
		return fail(stderr, exitUsage, err)
	}
	if len(tokens) == 0 && !loopback(f.listen) {
		return fail(stderr, exitUsage, fmt.Errorf("--listen: %q is not on the loopback interface, where alone no token is needed: set --token-file", f.listen))
	}
	logger := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	if err := serve(ctx, f, tokens, logger, stdout); err != nil {
		return fail(stderr, exitFailure, err)
	}
	return exitOK
}

func fail(stderr io.Writer, code int, err error) int {
	_, _ = fmt.Fprintf(stderr, "tollgate-reporting: %v\n", err)
	return code
}

// loopback reports whether an address can be reached from this machine only.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func readTokens(path string) ([]provider.Sensitive, error) {
	if path == "" {
		return nil, nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--token-file: %w", err)
	}
	var tokens []provider.Sensitive
	for line := range bytes.Lines(b) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			tokens = append(tokens, provider.NewSensitive(line))
		}
	}
	if len(tokens) == 0 {
		return nil, fmt.Errorf("--token-file: %s has no token", path)
	}
	return tokens, nil
}

func serve(ctx context.Context, f flags, tokens []provider.Sensitive, logger *slog.Logger, stdout io.Writer) error {
	if err := os.MkdirAll(filepath.Dir(f.db), 0o700); err != nil {
		return fmt.Errorf("--db: %w", err)
	}
	s, err := reportingserver.New(ctx, reportingserver.Options{Path: f.db, Tokens: tokens, Logger: logger})
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", f.listen)
	if err != nil {
		return errors.Join(fmt.Errorf("--listen: %w", err), s.Close())
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	metrics := make(chan error, 1)
	var m net.Listener
	if f.metrics != "" {
		if m, err = (&net.ListenConfig{}).Listen(ctx, "tcp", f.metrics); err != nil {
			return errors.Join(fmt.Errorf("--metrics-listen: %w", err), l.Close(), s.Close())
		}
	}
	_, _ = fmt.Fprintf(stdout, "http://%s\n", l.Addr())
	if m != nil {
		_, _ = fmt.Fprintf(stdout, "http://%s/metrics\n", m.Addr())
		go func() { metrics <- s.ServeMetrics(ctx, m) }()
	} else {
		metrics <- nil
	}
	logger.InfoContext(ctx, "serving", "address", l.Addr().String(), "database", f.db, "tokens", len(tokens))
	err = s.Serve(ctx, l)
	cancel()
	return errors.Join(err, <-metrics, s.Close())
}
