// Package openstack reads what happens in a project of an OpenStack cloud, or in
// all of them: servers, volumes and floating IPs, each kind from a feed of its own
// with a cursor of its own.
//
// Three things about the services shape the package. The compute service lists
// what has changed since a time, deleted servers included, and not what has
// changed about it: that comes from each server's own list of actions. Times are
// those of several machines and become visible late: each sweep begins before the
// one before it began, and the cursor remembers what was said. And a list that is
// sorted by what may change loses what moves: pages are in the order of creation.
//
// Volumes and floating IPs end without a trace; their ends are the inventory's.
package openstack

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/tollgate-dev/tollgate/internal/openstack/cloud"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
)

// TypeName is the source type's name in the configuration, and the platform in
// events.
const TypeName = "openstack"

// Options is the block "openstack" of a source's configuration.
type Options struct {
	// Access says how to get into the cloud. All of Regions are read.
	cloud.Access `yaml:",inline"`

	// Kinds are the kinds that are read. Default: all.
	Kinds []string `yaml:"kinds"`
	// AllProjects reads all projects of the cloud, which takes an administrator:
	// events are of the accounts <account>/<project id>.
	AllProjects bool `yaml:"allProjects"`
	// Overlap is how long before the last look a look begins: what the services show
	// later than that is missed. Default 10m.
	Overlap time.Duration `yaml:"overlap"`
	// GapAfter is how long a feed may stay unread before the cloud is suspected of
	// having forgotten deleted servers meanwhile. Default 1h.
	GapAfter time.Duration `yaml:"gapAfter"`
	// PageSize is how many entries are asked for at once. Default 500.
	PageSize int `yaml:"pageSize"`
}

// Type describes the source type.
func Type() source.Type {
	return source.Type{
		Name:         TypeName,
		Summary:      "servers, volumes and floating IPs of an OpenStack project or cloud",
		SecretFields: cloud.SecretFields(),
		Kinds:        kinds(),
		Exports:      exports(),
		// With allProjects each project has an account of its own below the source's.
		SubAccounts: true,
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

// New builds one source for each configured kind. It fails on bad configuration
// only and makes no request.
func New(cfg source.Config) ([]*Source, error) {
	o, target, err := decodeOptions(cfg)
	if err != nil {
		return nil, err
	}
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	c := cloud.New(target, cloud.Config{Secret: cfg.Secret, Needs: needs(o.Kinds), Wrap: func(base http.RoundTripper) http.RoundTripper {
		if cfg.Transport != nil {
			base = cfg.Transport(base, target.Account)
		}
		return base
	}})
	if target.Insecure {
		log.Warn("the certificates of this source's API are not checked", "source", cfg.Name, "field", "verify")
	}
	var out []*Source
	for _, k := range specs() {
		if !slices.Contains(o.Kinds, string(k.Type)) {
			continue
		}
		out = append(out, &Source{
			name: cfg.Name, account: cfg.Account, o: o, kind: k, cloud: c, known: cfg.Known, open: cfg.Open, now: time.Now, pages: pagesPerRead,
			log: log.With("source", cfg.Name, "kind", string(k.Type)),
		})
	}
	return out, nil
}

// needs are the services that the kinds are read from, besides compute.
func needs(kinds []string) (out []string) {
	if slices.Contains(kinds, string(event.Volume)) {
		out = append(out, cloud.Volume)
	}
	if slices.Contains(kinds, string(event.FloatingIP)) {
		out = append(out, cloud.Network)
	}
	return out
}

func decodeOptions(cfg source.Config) (Options, cloud.Target, error) {
	var o Options
	if cfg.Decode != nil {
		if err := cfg.Decode(&o); err != nil {
			return o, cloud.Target{}, err
		}
	}
	var p source.Problems
	target := o.Check(TypeName, p.Bad)
	o.Access = target.Access
	p.Kinds(&o.Kinds, kinds())
	if len(o.Regions) > maxRegions {
		p.Bad("regions: %d are too many: at most %d, or use several sources with accounts of their own", len(o.Regions), maxRegions)
	}
	p.Duration("overlap", &o.Overlap, 10*time.Minute, 10*time.Second, 24*time.Hour)
	p.Duration("gapAfter", &o.GapAfter, time.Hour, time.Minute, 30*24*time.Hour)
	if o.PageSize == 0 {
		o.PageSize = 500
	}
	if o.PageSize < 1 || o.PageSize > 1000 {
		p.Bad("pageSize: %d is out of range: use 1 to 1000", o.PageSize)
	}
	return o, target, p.Err()
}

// accountOf is the account of what belongs to a project.
func (s *Source) accountOf(project string) string {
	if s.o.AllProjects {
		return s.account + "/" + project
	}
	return s.account
}
