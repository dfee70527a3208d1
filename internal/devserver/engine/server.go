package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/membership/static"
	"go.temporal.io/server/common/metrics"
	"go.temporal.io/server/common/primitives"
	"go.temporal.io/server/temporal"
)

const (
	clusterName = "active"
	storeName   = "sqlite"
	// readyLine is all that is written to standard output, once, when the server
	// can be used. Logs go to standard error.
	readyLine = "ready"
	// stopLimit bounds a stop. The database survives a killed process, so waiting
	// longer for stragglers gains nothing.
	stopLimit = 10 * time.Second
)

// run serves until ctx ends and then stops cleanly.
func run(ctx context.Context, o *options) error {
	started := time.Now()
	for _, p := range []struct {
		flag, ip string
		port     int
	}{
		{"--port", o.ip, o.port},
		{"--http-port", o.ip, o.httpPort},
		{"--ui-port", o.ui.ip, o.uiPort},
		{"--metrics-port", o.ip, o.metricsPort},
	} {
		if p.port == 0 {
			continue
		}
		if err := listenable(p.flag, p.ip, p.port); err != nil {
			return err
		}
	}
	db, err := openDatabase(o.dbFile, o.pragmas)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.createNamespaces(o.namespaces, o); err != nil {
		return err
	}
	srv, err := newServer(o, db)
	if err != nil {
		return err
	}
	if err := srv.Start(); err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	frontend := hostPort(o.ip, o.port)
	stops := []func(){func() { _ = srv.Stop() }}

	err = ensureSearchAttributes(ctx, frontend, o.namespaces, o.searchAttributes)
	switch {
	case ctx.Err() != nil: // told to stop meanwhile
		return stopAll(stops)
	case err != nil:
		return errors.Join(err, stopAll(stops))
	}
	if o.uiPort != 0 {
		stops = append(stops, startUI(o, frontend))
		fmt.Fprintf(os.Stderr, "web ui on http://%s\n", hostPort(o.ui.ip, o.uiPort))
	}
	fmt.Fprintf(os.Stderr, "temporal frontend on %s after %v\n", frontend, time.Since(started).Round(time.Millisecond))
	fmt.Println(readyLine)
	<-ctx.Done()
	return stopAll(stops)
}

// stopAll runs the functions, last first.
func stopAll(stops []func()) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := len(stops) - 1; i >= 0; i-- {
			stops[i]()
		}
	}()
	select {
	case <-done:
		return nil
	case <-time.After(stopLimit):
		return fmt.Errorf("not stopped after %v", stopLimit)
	}
}

func newServer(o *options, db *database) (temporal.Server, error) {
	logger := newLogger(o)
	cfg, hosts, err := serverConfig(o, db.sql)
	if err != nil {
		return nil, err
	}
	// The zero authorization config allows everything: the listeners are loopback.
	claims, err := authorization.GetClaimMapperFromConfig(&cfg.Global.Authorization, logger)
	if err != nil {
		return nil, fmt.Errorf("claim mapper: %w", err)
	}
	fresh := newFreshness(o.dynamicConfig)
	srv, err := temporal.NewServer(
		temporal.WithConfig(cfg),
		temporal.ForServices(temporal.DefaultServices),
		temporal.WithStaticHosts(hosts),
		temporal.WithLogger(logger),
		temporal.WithAuthorizer(authorization.NewNoopAuthorizer()),
		temporal.WithClaimMapper(func(*config.Config) authorization.ClaimMapper { return claims }),
		temporal.WithDynamicConfigClient(fresh),
		temporal.WithChainedFrontendGrpcInterceptors(fresh.intercept),
	)
	if err != nil {
		return nil, fmt.Errorf("build the server: %w", err)
	}
	return srv, nil
}

func newLogger(o *options) log.Logger {
	c := log.Config{Level: o.logLevel, Format: "console"}
	if o.logFormat == "json" {
		c.Format = "json"
	}
	if o.logLevel == "never" {
		c.Level = "fatal"
	}
	return log.NewZapLogger(log.BuildZapLogger(c))
}

// serverConfig describes all services in this process, each on a port of its
// own.
func serverConfig(o *options, sql *config.SQL) (*config.Config, map[primitives.ServiceName]static.Hosts, error) {
	ports := map[primitives.ServiceName]int{primitives.FrontendService: o.port}
	for _, s := range []primitives.ServiceName{primitives.HistoryService, primitives.MatchingService, primitives.WorkerService} {
		p, err := freePort(o.ip)
		if err != nil {
			return nil, nil, err
		}
		ports[s] = p
	}
	httpPort := o.httpPort
	if httpPort == 0 {
		var err error
		if httpPort, err = freePort(o.ip); err != nil {
			return nil, nil, err
		}
	}

	cfg := &config.Config{Services: map[string]config.Service{}}
	hosts := map[primitives.ServiceName]static.Hosts{}
	for s, p := range ports {
		rpc := config.RPC{GRPCPort: p, BindOnIP: o.ip}
		if s == primitives.FrontendService {
			rpc.HTTPPort = httpPort
		}
		cfg.Services[string(s)] = config.Service{RPC: rpc}
		hosts[s] = static.SingleLocalHost(hostPort(o.ip, p))
	}
	frontend := hostPort(o.ip, o.port)
	cfg.PublicClient.HostPort = frontend
	cfg.Global.Membership = config.Membership{MaxJoinDuration: 30 * time.Second, BroadcastAddress: o.ip}
	if o.metricsPort != 0 {
		cfg.Global.Metrics = &metrics.Config{Prometheus: &metrics.PrometheusConfig{
			ListenAddress: hostPort(o.ip, o.metricsPort),
			HandlerPath:   "/metrics",
		}}
	}
	cfg.Persistence = config.Persistence{
		DefaultStore:     storeName,
		VisibilityStore:  storeName,
		NumHistoryShards: 1,
		DataStores:       map[string]config.DataStore{storeName: {SQL: sql}},
	}
	cfg.ClusterMetadata = &cluster.Config{
		FailoverVersionIncrement: 10,
		MasterClusterName:        clusterName,
		CurrentClusterName:       clusterName,
		ClusterInformation: map[string]cluster.ClusterInformation{clusterName: {
			Enabled:                true,
			InitialFailoverVersion: 1,
			RPCAddress:             frontend,
			HTTPAddress:            hostPort(o.ip, httpPort),
		}},
	}
	cfg.DCRedirectionPolicy.Policy = "noop"
	const disabled = "disabled"
	cfg.Archival.History.State, cfg.Archival.Visibility.State = disabled, disabled
	cfg.NamespaceDefaults.Archival.History.State, cfg.NamespaceDefaults.Archival.Visibility.State = disabled, disabled
	return cfg, hosts, nil
}
