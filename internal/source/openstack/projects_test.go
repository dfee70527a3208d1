package openstack_test

import (
	"context"
	"strings"
	"testing"

	"github.com/tollgate-dev/tollgate/internal/openstack/cloudtest"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacksim"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/internal/source/openstack"
	"github.com/tollgate-dev/tollgate/internal/source/sourcetest"
)

// Whoever may not read all projects is told so, also by services that show him his
// own without a word: everything else would count as gone.
func TestAllProjectsWithoutTheRight(t *testing.T) {
	t.Parallel()
	for _, kind := range []event.ResourceType{event.Server, event.Volume, event.FloatingIP} {
		p := simulated(t, kind, func(o *openstacksim.Options) { o.Admins = []string{"root"} })
		p.create(t, nil)
		s := p.open(t, sourcetest.OpenOptions{}, func(o *openstack.Options, _ *source.Config) { o.AllProjects = true })
		page, err := s.Next(t.Context(), "")
		snap, listErr := s.List(t.Context())
		for _, err := range []error{err, listErr} {
			if provider.ClassOf(err) != provider.Permanent || provider.ReasonOf(err) != provider.ReasonForbidden ||
				!strings.Contains(err.Error(), `allProjects: "demo" may not read all projects: that takes the role admin`) {
				t.Errorf("%s: %v", kind, err)
			}
		}
		if len(page.Items)+len(snap.Resources) > 0 {
			t.Errorf("%s: %v and %v beside the error", kind, said(page.Items), snap.Resources)
		}
	}
}

// A volume that was handed from one project to another is not listed as if it had
// been of the other one since it was made: that time was billed already.
func TestHandedVolume(t *testing.T) {
	t.Parallel()
	p := simulated(t, event.Volume, func(o *openstacksim.Options) { o.Admins, o.Projects = []string{"root"}, []string{"other"} })
	own := p.Project
	p.Project = cloudtest.LogIn(t, own.Identity, "demo", "any", "other")
	id := p.create(t, nil)
	p.settled(t, id, "available")
	now := sourcetest.Account + "/" + p.sim.Objects()[0].Project
	p.Project = own
	for name, tt := range map[string]struct {
		reported []string
		handed   bool
	}{
		"never reported":                   {nil, false},
		"reported of its project":          {[]string{now}, false},
		"reported of another":              {[]string{sourcetest.Account + "/before"}, true},
		"reported of both, not yet of one": {[]string{sourcetest.Account + "/before", now}, false},
	} {
		s := p.open(t, sourcetest.OpenOptions{}, func(o *openstack.Options, c *source.Config) {
			o.Auth.Username, o.AllProjects = "root", true
			c.Open = func(context.Context, event.Platform, event.ResourceType) (out []source.OpenResource, _ error) {
				for _, account := range tt.reported {
					out = append(out, source.OpenResource{Account: account, Resource: event.Resource{Type: event.Volume, ID: id}})
				}
				return out, nil
			}
		})
		snap, err := s.List(t.Context())
		if err != nil || len(snap.Resources) != 1 || snap.Resources[0].Account != now || snap.Resources[0].CreatedAt.IsZero() != tt.handed {
			t.Errorf("%s: %+v, %v; want handed %v", name, snap.Resources, err, tt.handed)
		}
	}
}
