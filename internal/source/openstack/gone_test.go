package openstack_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/openstack/cloudtest"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacksim"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/internal/source/openstack"
	"github.com/tollgate-dev/tollgate/internal/source/sourcetest"
)

// What is there is not gone, what was deleted is, and of what cannot be asked nobody
// says so.
func TestGone(t *testing.T) {
	t.Parallel()
	for _, kind := range []event.ResourceType{event.Server, event.Volume, event.FloatingIP} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			p := simulated(t, kind, nil)
			s := p.open(t, sourcetest.OpenOptions{}, nil)
			id := p.create(t, nil)
			p.settled(t, id, "ACTIVE", "available")
			r := event.Resource{Type: kind, ID: id}
			ask := func(region string) (bool, error) { return s.Gone(t.Context(), sourcetest.Account, region, r) }
			if gone, err := ask("RegionOne"); gone || err != nil {
				t.Errorf("there: %v, %v", gone, err)
			}
			for status, class := range map[int]provider.Class{503: provider.Transient, 429: provider.RateLimited, 401: provider.Transient} {
				heal := p.Add(openstacksim.Fault{Kind: openstacksim.FaultAnswer, Status: status, Path: "/" + id})
				if gone, err := ask("RegionOne"); gone || provider.ClassOf(err) != class && status != 401 || err == nil {
					t.Errorf("%d: %v, %v", status, gone, err)
				}
				heal()
			}
			if gone, err := ask("elsewhere"); gone || err == nil {
				t.Errorf("in a region that is not known: %v, %v", gone, err)
			}
			p.remove(t, id)
			for _, region := range []string{"RegionOne", ""} {
				if gone, err := ask(region); !gone || err != nil {
					t.Errorf("deleted: %v, %v", gone, err)
				}
			}
		})
	}
}

// A floating IP that the credential may not see any more is not gone.
func TestGoneFromSight(t *testing.T) {
	t.Parallel()
	p := simulated(t, event.FloatingIP, nil)
	s := p.open(t, sourcetest.OpenOptions{}, nil)
	id := p.create(t, nil)
	for name, want := range map[string]bool{"HTTPNotFound": false, "FloatingIPNotFound": true} {
		heal := p.Add(openstacksim.Fault{Kind: openstacksim.FaultAnswer, Status: 404, Path: "/" + id, Name: name, Message: "The resource could not be found."})
		gone, err := s.Gone(t.Context(), sourcetest.Account, "RegionOne", event.Resource{Type: event.FloatingIP, ID: id})
		if gone != want || (err == nil) != want {
			t.Errorf("%s: gone %v, %v; want %v", name, gone, err, want)
		}
		heal()
	}
}

// Servers of a cell that cannot be reached are not gone, also where no list can say
// which these are.
func TestGoneOfDownCell(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2.58", "2.69", "2.96"} {
		p := simulated(t, event.Server, func(o *openstacksim.Options) { o.Microversion = version })
		s := p.open(t, sourcetest.OpenOptions{}, nil)
		id := p.create(t, nil)
		p.settled(t, id, "ACTIVE")
		up := p.sim.DownCell(id)
		if gone, err := s.Gone(t.Context(), sourcetest.Account, "RegionOne", event.Resource{Type: event.Server, ID: id}); gone || (err != nil) != (version == "2.58") {
			t.Errorf("%s: %v, %v", version, gone, err)
		}
		up()
	}
}

// A server that was deleted softly is gone.
func TestGoneSoftly(t *testing.T) {
	t.Parallel()
	p := simulated(t, event.Server, func(o *openstacksim.Options) { o.SoftDelete = true })
	s := p.open(t, sourcetest.OpenOptions{}, nil)
	id := p.create(t, nil)
	p.settled(t, id, "ACTIVE")
	p.pass(time.Minute)
	p.Do(t, "DELETE", p.path(id), nil, nil)
	if gone, err := s.Gone(t.Context(), sourcetest.Account, "", event.Resource{Type: event.Server, ID: id}); !gone || err != nil {
		t.Errorf("%v, %v", gone, err)
	}
}

// What an administrator can see of another project is gone from the account of the
// one that had it, as after a transfer.
func TestGoneToAnotherProject(t *testing.T) {
	t.Parallel()
	for _, all := range []bool{false, true} {
		p := simulated(t, event.Volume, func(o *openstacksim.Options) { o.Admins, o.Projects = []string{"root"}, []string{"other"} })
		s := p.open(t, sourcetest.OpenOptions{}, func(o *openstack.Options, _ *source.Config) { o.Auth.Username, o.AllProjects = "root", all })
		own := p.Project
		p.Project = cloudtest.LogIn(t, own.Identity, "demo", "any", "other")
		id := p.create(t, nil)
		p.settled(t, id, "available")
		r := event.Resource{Type: event.Volume, ID: id}
		project := ""
		for _, o := range p.sim.Objects() {
			project = o.Project
		}
		for account, want := range map[string]bool{sourcetest.Account + "/before": true, sourcetest.Account + "/" + project: !all} {
			if !all {
				account, want = sourcetest.Account, true
			}
			if gone, err := s.Gone(t.Context(), account, "", r); err != nil || gone != want {
				t.Errorf("all %v, of %s: %v, %v", all, account, gone, err)
			}
		}
	}
}

// The list without a query has room for so many servers only. With more of them an
// administrator is still told of a cell that cannot be reached, and anybody else is
// told that nobody can say.
func TestDownCellAmongMany(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		user, version string
		many          bool
		held          bool
		log           string
	}{
		"an administrator":             {"root", "2.96", true, true, "of cells that it cannot reach"},
		"anybody else":                 {"demo", "2.96", true, false, "more servers than the compute service names"},
		"few servers":                  {"demo", "2.96", false, true, "of cells that it cannot reach"},
		"a service that is too old":    {"demo", "2.68", false, false, "microversion 2.69"},
		"one, asked by administrators": {"root", "2.68", true, false, "microversion 2.69"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := simulated(t, event.Server, func(o *openstacksim.Options) {
				o.Admins, o.PageSize, o.Microversion = []string{"root"}, 1000, tt.version
			})
			if tt.many {
				for range 1000 {
					p.sim.PlaceServer("RegionOne", "many", nil, nil)
				}
			}
			id := p.sim.PlaceServer("RegionOne", "cut", nil, nil)
			var logs bytes.Buffer
			s := p.open(t, sourcetest.OpenOptions{Logger: slog.New(slog.NewTextHandler(&logs, nil))}, func(o *openstack.Options, _ *source.Config) {
				o.PageSize, o.Auth.Username, o.AllProjects = 1000, tt.user, tt.user == "root"
			})
			defer p.sim.DownCell(id)()
			for range 2 {
				_, err := s.List(t.Context())
				if (err != nil) != tt.held {
					t.Errorf("listed: %v", err)
				}
			}
			if !tt.held && strings.Count(logs.String(), "level=WARN") != 1 {
				t.Errorf("it has to be said once: %s", logs.String())
			}
			if text := logs.String(); !tt.held && !strings.Contains(text, tt.log) {
				t.Errorf("%q is not said: %s", tt.log, text)
			}
		})
	}
}
