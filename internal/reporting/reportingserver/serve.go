package reportingserver

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// shutdownTime is how long requests under way may take at the end.
const shutdownTime = 15 * time.Second

// Serve answers on a listener until ctx ends; then it finishes the requests under
// way, for at most 15 seconds. It closes the listener, not the Server.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	return serve(ctx, l, s, s.opts.Logger)
}

// ServeMetrics is Serve for a listener that has the metrics alone, at /metrics, and
// asks for no token.
func (s *Server) ServeMetrics(ctx context.Context, l net.Listener) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", s.metrics.handler())
	return serve(ctx, l, mux, s.opts.Logger)
}

func serve(ctx context.Context, l net.Listener, handler http.Handler, logger *slog.Logger) error {
	h := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelWarn)}
	served := make(chan error, 1)
	go func() { served <- h.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancel()
	err := h.Shutdown(stop)
	if errors.Is(err, context.DeadlineExceeded) {
		err = errors.Join(err, h.Close())
	}
	<-served
	return err
}
