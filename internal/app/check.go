package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/tollgate-dev/tollgate/internal/config"
	"github.com/tollgate-dev/tollgate/internal/probe"
	"github.com/tollgate-dev/tollgate/internal/provider"
)

// Check reads and checks a configuration as New does, the providers' blocks
// included, without connecting to anything or keeping anything.
func Check(ctx context.Context, o Options) (*config.Config, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	cfg, err := o.load()
	if err != nil {
		return nil, err
	}
	a := &App{opts: o, log: slog.New(slog.DiscardHandler), registry: provider.NewRegistry(o.Types, nil)}
	v := &version{cfg: cfg}
	a.define(v)
	return cfg, errors.Join(a.checkBlocks(ctx, v), checkProbe(cfg))
}

// checkProbe reads the CA file.
func checkProbe(cfg *config.Config) error {
	if cfg.Probe.Target == "" {
		return nil
	}
	if _, err := probe.New(probeConfig(cfg.Probe)); err != nil {
		return fmt.Errorf("%s: probe.%w", cfg.File, err)
	}
	return nil
}
