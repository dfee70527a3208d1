package config

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// DefaultPoll is how often a Watcher looks at the file.
const DefaultPoll = 2 * time.Second

// Watcher reloads a configuration file when it changes. It reads the file
// rather than its time stamps: that is cheap at this size, sees every way in
// which a file can be replaced (in place, by rename, by the symbolic links of a
// Kubernetes ConfigMap), and needs no support of the file system.
//
// A file is taken once two looks in a row have seen the same bytes, so that an
// editor's half-written file is never applied.
type Watcher struct {
	// Current is the configuration at work.
	Current func() *Config
	// Load reads the file anew, as in the function Load.
	Load func() (*Config, error)
	// Apply makes a configuration the current one, or fails and leaves the old
	// one at work. It is called from Run only, one call at a time.
	Apply func(ctx context.Context, c *Config) error
	// Poll is the time between two looks. Zero means DefaultPoll.
	Poll time.Duration
	// Now asks for a look and a reload at once, whether or not anything has
	// changed; SIGHUP ends up here. It may be nil.
	Now    <-chan struct{}
	Logger *slog.Logger
	// Metrics may be nil.
	Metrics *Metrics
}

// Run watches until ctx ends.
func (w *Watcher) Run(ctx context.Context) {
	poll := w.Poll
	if poll == 0 {
		poll = DefaultPoll
	}
	tick := time.NewTicker(poll)
	defer tick.Stop()
	// tried is what was last loaded, with or without success, so that a bad file
	// is reported once and not at every look; seen is what the last look saw.
	tried := inputs{file: w.Current().Version, secrets: w.Current().secrets}
	seen, unreadable := tried, false
	for {
		forced := false
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-w.Now:
			forced = true
		}
		b, err := readLimited(w.Current().File, maxConfigFile)
		if err != nil {
			if !unreadable || forced {
				w.failed("the configuration cannot be read, the old one stays in force", err)
			}
			unreadable = true
			continue
		}
		now := inputs{file: version(b), secrets: w.Current().secretsVersion()}
		settled := now == seen
		seen = now
		if forced || settled && (now != tried || unreadable) {
			unreadable = false
			tried = w.reload(ctx, now)
			seen = tried
		}
	}
}

// inputs are hashes of all that a configuration is made of.
type inputs struct{ file, secrets string }

// reload returns what it has tried: the bytes that were really loaded, which
// may be newer than those of the look.
func (w *Watcher) reload(ctx context.Context, look inputs) inputs {
	c, err := w.Load()
	if err != nil {
		w.failed("the new configuration is wrong, the old one stays in force", err)
		return look
	}
	if err := w.Apply(ctx, c); err != nil {
		w.failed("the new configuration could not be applied, the old one stays in force", err)
		return inputs{file: c.Version, secrets: w.Current().secretsVersion()}
	}
	w.Logger.Info("configuration reloaded", "file", c.File, "version", c.Version, "providers", len(c.Providers))
	w.Metrics.succeeded()
	return inputs{file: c.Version, secrets: c.secrets}
}

func (w *Watcher) failed(msg string, err error) {
	w.Logger.Error(msg, "error", err)
	w.Metrics.failed()
}

func version(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

// Metrics count what became of reloads. A nil *Metrics counts nothing.
type Metrics struct {
	reloads *prometheus.CounterVec
	ok      prometheus.Gauge
	at      prometheus.Gauge
}

// NewMetrics registers the metrics of the configuration.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tollgate_config_reloads_total",
			Help: "Reloads of the configuration file by result (success, failure).",
		}, []string{"result"}),
		ok: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tollgate_config_last_reload_successful",
			Help: "1 when the configuration at work is what the file says, 0 when the last reload failed.",
		}),
		at: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tollgate_config_last_reload_success_timestamp_seconds",
			Help: "Unix time of the last successful load of the configuration.",
		}),
	}
	reg.MustRegister(m.reloads, m.ok, m.at)
	m.reloads.WithLabelValues("success")
	m.reloads.WithLabelValues("failure")
	m.ok.Set(1)
	m.at.SetToCurrentTime()
	return m
}

func (m *Metrics) succeeded() {
	if m == nil {
		return
	}
	m.reloads.WithLabelValues("success").Inc()
	m.ok.Set(1)
	m.at.SetToCurrentTime()
}

func (m *Metrics) failed() {
	if m == nil {
		return
	}
	m.reloads.WithLabelValues("failure").Inc()
	m.ok.Set(0)
}
