// Package hetzner reads what happens in a project of Hetzner Cloud: the actions of
// servers, volumes, floating IPs and load balancers, each kind from a list of its
// own with a cursor of its own.
//
// Three things about the vendor's lists shape the package. An action is listed
// while it runs, and its end does not change its number: a cursor holds the
// numbers of unfinished actions and looks them up until they have ended. Lists
// have page numbers only, which shift: a page counts only if it overlaps with what
// was read before. And actions do not say how large anything is: sizes come from
// the resource as it is, when nothing has changed it since, or from what was
// reported last; what neither can tell is marked unknown.
//
// Volumes and floating IPs end without an action, and a floating IP begins without
// one. Beginnings come from the list of floating IPs; ends are the inventory's.
package hetzner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/internal/telemetry"
)

// TypeName is the source type's name in the configuration, and the platform in
// events.
const TypeName = "hetzner"

// Options is the block "hetzner" of a source's configuration.
type Options struct {
	// Token names the secret that holds the API token; a token that may only read
	// is enough. Default: the environment variable HCLOUD_TOKEN.
	Token string `yaml:"token"`
	// Endpoint is the base URL of the API. Default: the environment variable
	// HCLOUD_ENDPOINT, then the vendor's.
	Endpoint string `yaml:"endpoint"`
	// Kinds are the kinds that are read. Default: all.
	Kinds []string `yaml:"kinds"`
	// CallTimeout bounds each request. Default 30s.
	CallTimeout time.Duration `yaml:"callTimeout"`
	// GapAfter is how long a feed may stay unread before entries are suspected to
	// be missing when nothing that was read is in it any more. Default 1h.
	GapAfter time.Duration `yaml:"gapAfter"`
}

const (
	envToken    = "HCLOUD_TOKEN" //nolint:gosec // the name of a variable
	envEndpoint = "HCLOUD_ENDPOINT"
)

// Type describes the source type.
func Type() source.Type {
	return source.Type{
		Name:         TypeName,
		Summary:      "actions of a Hetzner Cloud project",
		SecretFields: []string{"token"},
		Kinds:        kinds(),
		Exports:      exports(),
		New: func(_ context.Context, cfg source.Config) ([]source.Stream, error) {
			sources, err := New(cfg)
			if err != nil {
				return nil, err
			}
			var out []source.Stream
			for _, s := range sources {
				out = append(out, source.Stream{Name: string(s.kind.Type), Source: s})
			}
			return out, nil
		},
	}
}

func kinds() (out []source.Kind) {
	for _, k := range specs() {
		out = append(out, k.Kind)
	}
	return out
}

// New builds one source for each configured kind. It fails on bad configuration
// only and makes no request.
func New(cfg source.Config) ([]*Source, error) {
	o, err := decodeOptions(cfg)
	if err != nil {
		return nil, err
	}
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	client, book := newClient(cfg, o), &priceBook{}
	var out []*Source
	for _, k := range specs() {
		if !slices.Contains(o.Kinds, string(k.Type)) {
			continue
		}
		out = append(out, &Source{
			name: cfg.Name, account: cfg.Account, kind: k, client: client, known: cfg.Known, gapAfter: o.GapAfter, now: time.Now, book: book,
			log: log.With("source", cfg.Name, "kind", string(k.Type)),
		})
	}
	return out, nil
}

func decodeOptions(cfg source.Config) (Options, error) {
	var o Options
	if cfg.Decode != nil {
		if err := cfg.Decode(&o); err != nil {
			return o, err
		}
	}
	var p source.Problems
	if o.Token == "" && os.Getenv(envToken) == "" {
		p.Bad("token: is required: the name of a secret with an API token, unless $%s holds one", envToken)
	}
	for _, e := range []string{os.Getenv(envEndpoint), hcloud.Endpoint} {
		if o.Endpoint == "" {
			o.Endpoint = e
		}
	}
	if u, err := url.Parse(o.Endpoint); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		p.Bad("endpoint: %q is no URL: want one such as %s", o.Endpoint, hcloud.Endpoint)
	} else if u.User != nil || u.RawQuery != "" {
		p.Bad("endpoint: must hold neither credentials nor a query: use token")
	}
	p.Kinds(&o.Kinds, kinds())
	p.Duration("callTimeout", &o.CallTimeout, 30*time.Second, time.Second, 5*time.Minute)
	p.Duration("gapAfter", &o.GapAfter, time.Hour, time.Minute, 30*24*time.Hour)
	return o, p.Err()
}

// newClient builds the vendor's client with its retries switched off: Temporal
// retries.
func newClient(cfg source.Config, o Options) *hcloud.Client {
	var base http.RoundTripper = &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		ForceAttemptHTTP2:     true,
		MaxIdleConnsPerHost:   8,
		IdleConnTimeout:       90 * time.Second,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: o.CallTimeout,
	}
	if cfg.Transport != nil {
		base = cfg.Transport(base, "")
	}
	rt := telemetry.Transport(&authorized{token: o.Token, secret: cfg.Secret, base: base})
	return hcloud.NewClient(
		hcloud.WithEndpoint(o.Endpoint),
		hcloud.WithApplication("tollgate", ""),
		hcloud.WithHTTPClient(&http.Client{Timeout: o.CallTimeout, Transport: rt}),
		hcloud.WithRetryOpts(hcloud.RetryOpts{MaxRetries: 0}),
	)
}

// authorized adds the token, as it is now: a rotated one needs no restart.
type authorized struct {
	token  string
	secret func(ctx context.Context, name string) (provider.Sensitive, error)
	base   http.RoundTripper
}

// errToken is a token that cannot be had.
type errToken struct{ err error }

func (e *errToken) Error() string { return "token: " + e.err.Error() }
func (e *errToken) Unwrap() error { return e.err }

// RoundTrip implements http.RoundTripper.
func (t *authorized) RoundTrip(r *http.Request) (*http.Response, error) {
	token := os.Getenv(envToken)
	if t.token != "" {
		s, err := t.secret(r.Context(), t.token)
		if err != nil {
			return nil, &errToken{err}
		}
		token = string(s.Reveal())
	}
	if token = strings.TrimSpace(token); token == "" || strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return nil, &errToken{errors.New("is empty or holds characters that no token has")}
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	return t.base.RoundTrip(r)
}

// resource is a resource of this source's kind in events.
func (s *Source) resource(id int64) event.Resource {
	return event.Resource{Type: s.kind.Type, ID: fmt.Sprint(id)}
}
