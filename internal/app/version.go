package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"

	"github.com/tollgate-dev/tollgate/internal/codec"
	"github.com/tollgate-dev/tollgate/internal/config"
	"github.com/tollgate-dev/tollgate/internal/discovery"
	"github.com/tollgate-dev/tollgate/internal/probe"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/telemetry"
)

// version is a configuration with all that is made of it. It is never changed.
type version struct {
	cfg *config.Config
	seq int64
	// hashes are the providers' (config.ProviderHash), by name.
	hashes map[string]string
	defs   []provider.Definition
	fleets []discovery.Fleet
	prober *probe.Prober
	tolls  tolls
	// codec is the codec endpoint, nil without one.
	codec http.Handler
}

// prepare makes everything of a configuration that can fail because of what is
// in it, and changes nothing.
func (a *App) prepare(ctx context.Context, cfg *config.Config) (*version, error) {
	v := &version{cfg: cfg, seq: a.prepared.Add(1)}
	if err := a.unchangeable(cfg); err != nil {
		return nil, err
	}
	a.define(v)
	errs := []error{a.checkBlocks(ctx, v), a.prepareTolls(ctx, v)}
	var err error
	if v.prober, err = a.newProber(cfg.Probe); err != nil {
		errs = append(errs, fmt.Errorf("%s: probe.%w", cfg.File, err))
	}
	if v.codec, err = a.newCodecHandler(ctx, cfg); err != nil {
		errs = append(errs, fmt.Errorf("%s: %w", cfg.File, err))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return v, nil
}

// define lists what the registry is to build.
func (a *App) define(v *version) {
	v.hashes = map[string]string{}
	for _, p := range v.cfg.Providers {
		v.hashes[p.Name] = v.cfg.ProviderHash(p, a.hashKey)
		v.fleets = append(v.fleets, discovery.Fleet{Provider: p.Name, Shards: p.Shards})
		var transport provider.Transport
		if a.requests != nil {
			transport = a.requests.Transport(p.Name)
		}
		v.defs = append(v.defs, provider.Definition{
			Type: p.Type, ConfigHash: v.hashes[p.Name],
			Config: provider.Config{
				Name: p.Name, Installation: v.cfg.Installation, StateDir: a.providerDir(p.Name),
				Decode: p.Decode, Secret: a.tokenOf(v), Transport: transport,
				Logger: telemetry.Component(a.log, "provider").With("type", p.Type),
			},
		})
	}
}

// unchangeable refuses what a running process cannot take over.
func (a *App) unchangeable(cfg *config.Config) error {
	was := a.current.Load()
	if was == nil {
		return nil
	}
	var errs []error
	refuse := func(field, from, to string) {
		if from != to {
			errs = append(errs, fmt.Errorf("%s: %s: a reload cannot change it from %q to %q: restart the worker", cfg.File, field, from, to))
		}
	}
	// The marks of every instance carry it: with another one, all would be
	// somebody else's.
	refuse("installation", was.cfg.Installation, cfg.Installation)
	refuse("codec.keyFile", was.cfg.Codec.KeyFile, cfg.Codec.KeyFile)
	refuse("log.format", was.cfg.Log.Format, cfg.Log.Format)
	return errors.Join(errs...)
}

// checkBlocks builds each new provider once and throws it away, so that a
// mistake in its block refuses the whole file. A provider that fails because a
// secret cannot be read is no mistake in the file: it is kept as broken, and
// tried again once the secret is there.
func (a *App) checkBlocks(ctx context.Context, v *version) error {
	var errs []error
	for i, def := range v.defs {
		if e, ok := a.registry.Lookup(def.Config.Name); ok && e.Err == nil && e.Type == def.Type && e.ConfigHash == def.ConfigHash {
			continue
		}
		secretMissing := false
		secret := def.Config.Secret
		def.Config.Secret = func(ctx context.Context, name string) (provider.Sensitive, error) {
			s, err := secret(ctx, name)
			secretMissing = secretMissing || err != nil
			return s, err
		}
		for _, t := range a.opts.Types {
			if t.Name != def.Type {
				continue
			}
			_, err := t.New(ctx, def.Config)
			if err != nil && !secretMissing {
				errs = append(errs, v.cfg.Providers[i].Annotate(err))
			}
		}
	}
	return errors.Join(errs...)
}

// newest is the newer one of v and the version at work: a provider that was
// built from an old file looks its secrets up where the new one says.
func (a *App) newest(v *version) *config.Config {
	if cur := a.current.Load(); cur != nil && cur.seq > v.seq {
		return cur.cfg
	}
	return v.cfg
}

func (a *App) tokenOf(v *version) func(context.Context, string) (provider.Sensitive, error) {
	return func(ctx context.Context, name string) (provider.Sensitive, error) {
		return a.newest(v).Token(ctx, name)
	}
}

// newProber makes the prober. Without a target in the file, probes go to this
// process's own HTTP server and look for what only it answers.
func (a *App) newProber(c config.Probe) (*probe.Prober, error) {
	p := probeConfig(c)
	if p.Target == "" {
		if a.http == nil {
			return nil, errors.New("target: is required without an HTTP server of this process: use host:port, such as example.com:443")
		}
		if c.TLS.Enabled {
			return nil, errors.New("tls: needs a target: this process's own HTTP server speaks no TLS")
		}
		p.Target = loopback(a.http.Addr())
		p.HTTP = probe.HTTP{Path: "/healthz", Expect: `{"status":"ok"}`}
	}
	return probe.New(p)
}

func probeConfig(c config.Probe) probe.Config {
	return probe.Config{
		Target: c.Target, Timeout: c.Timeout,
		TLS: probe.TLS{Enabled: c.TLS.Enabled, ServerName: c.TLS.ServerName, CAFile: c.TLS.CAFile},
	}
}

// loopback is how this machine reaches a listener.
func loopback(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return addr.String()
	}
	return net.JoinHostPort("127.0.0.1", fmt.Sprint(tcp.Port))
}

// newCodecHandler makes the codec endpoint. A token that cannot be read leaves
// the endpoint out until it can.
func (a *App) newCodecHandler(ctx context.Context, cfg *config.Config) (http.Handler, error) {
	token, ui := a.opts.CodecToken, a.opts.UIURL
	if cfg.Codec.Token != "" {
		t, err := cfg.Token(ctx, cfg.Codec.Token)
		if err != nil {
			a.log.Error("no codec endpoint: its token cannot be read", "error", err)
			return nil, nil
		}
		token, ui = t, cfg.Codec.UIURL
	}
	if token.Len() == 0 {
		return nil, nil
	}
	u, err := url.Parse(ui)
	if err != nil {
		return nil, fmt.Errorf("codec.uiURL: %w", err)
	}
	return codec.NewHandler(codec.HandlerOptions{
		Codec: codec.New(a.keys), Token: token, AllowedOrigins: origins(u), LoginRedirect: ui, Logger: a.log,
	})
}

// origins are those of the web UI. On loopback a browser may use either name.
func origins(u *url.URL) []string {
	out := []string{u.Scheme + "://" + u.Host}
	other := map[string]string{"127.0.0.1": "localhost", "localhost": "127.0.0.1"}[u.Hostname()]
	if other != "" {
		host := other
		if p := u.Port(); p != "" {
			host = net.JoinHostPort(other, p)
		}
		out = append(out, u.Scheme+"://"+host)
	}
	return out
}
