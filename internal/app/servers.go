package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/tollgate-dev/tollgate/internal/codec"
	"github.com/tollgate-dev/tollgate/internal/discovery"
)

// servers are the HTTP servers of a running App.
type servers struct {
	http, metrics *http.Server
}

// serve starts the servers. fatal hears of one that cannot go on.
func (a *App) serve(fatal func(error)) *servers {
	s := &servers{}
	if a.http != nil {
		s.http = start("http", a.http, a.handler(), fatal)
	}
	if a.prom != nil {
		mux := http.NewServeMux()
		mux.Handle("GET /metrics", a.telemetry.Handler())
		s.metrics = start("metrics", a.prom, mux, fatal)
	}
	return s
}

func start(name string, l net.Listener, h http.Handler, fatal func(error)) *http.Server {
	s := &http.Server{
		Handler: h,
		// No ReadTimeout: it would end long polls, too.
		ReadHeaderTimeout: 5 * time.Second,
		WriteTimeout:      discovery.MaxWait + 30*time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
	}
	go func() {
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			fatal(fmt.Errorf("%s server: %w", name, err))
		}
	}()
	return s
}

func (a *App) handler() http.Handler {
	api := http.NewServeMux()
	a.discovery.Register(api)
	var traced http.Handler = api
	if a.opts.Tracing != nil {
		traced = a.opts.Tracing.Middleware("discovery", api)
	}
	mux := http.NewServeMux()
	mux.Handle("/v1/", traced)
	discovery.RegisterHealth(mux, a.checks)
	a.inventoryPage().Register(mux)
	mux.HandleFunc(codec.PathPrefix+"/", func(w http.ResponseWriter, r *http.Request) {
		if h := a.current.Load().codec; h != nil {
			h.ServeHTTP(w, r)
			return
		}
		http.Error(w, "there is no codec endpoint here: set codec.token and codec.uiURL in the configuration", http.StatusNotFound)
	})
	return mux
}

// checks are what /readyz looks at.
func (a *App) checks(ctx context.Context) []discovery.Check {
	serving := discovery.Check{Name: "serving", OK: !a.draining.Load()}
	if !serving.OK {
		serving.Detail = "this process is shutting down"
	}
	configured := discovery.Check{Name: "configured", OK: a.announce.done.Load() != nil}
	if !configured.OK {
		configured.Detail = "the schedules and fleets have not been told of the configuration yet"
	}
	temporal := discovery.Check{Name: "temporal", OK: true}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if _, err := a.conn.Client.CheckHealth(ctx, nil); err != nil {
		temporal = discovery.Check{Name: "temporal", Detail: "the Temporal server does not answer"}
	}
	return []discovery.Check{serving, configured, temporal}
}

func (s *servers) stopHTTP()    { stop(s.http) }
func (s *servers) stopMetrics() { stop(s.metrics) }

func stop(s *http.Server) {
	if s == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), httpStopTimeout)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		_ = s.Close() // those who did not finish in time are cut off
	}
}
