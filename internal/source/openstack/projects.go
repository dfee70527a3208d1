package openstack

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/tollgate-dev/tollgate/internal/openstack/cloud"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
)

// mayReadAll checks that the credential may read all projects, when it is to. The
// volume and network services show others their own project without a word, and
// everything else would be taken for gone; the compute service refuses.
func (s *Source) mayReadAll(ctx context.Context, r *cloud.Region) error {
	if !s.o.AllProjects || s.kind.Type == event.Server {
		return nil // the list of servers is refused itself
	}
	_, err := cloud.ReadPage(ctx, r.Compute, "servers", "servers", url.Values{"all_tenants": {"1"}, "limit": {"1"}})
	return s.refused(source.OpList, err)
}

// refused says what is missing when all projects may not be read.
func (s *Source) refused(op provider.Op, err error) error {
	if !s.o.AllProjects || cloud.StatusOf(err) != http.StatusForbidden {
		return err
	}
	return provider.WithReason(provider.Wrap(provider.Permanent, op, s.name, "", fmt.Errorf(
		"allProjects: %q may not read all projects: that takes the role admin (policy os_compute_api:servers:detail:get_all_tenants): %w",
		s.o.Auth.Username, cloud.Stable(err))), provider.ReasonForbidden)
}

// owners are the accounts in which resources are open as far as was reported, by id.
type owners map[string][]string

// before tells in which accounts volumes are, as far as was reported. A volume may be
// handed from one project to another, and keeps the time at which it was made.
func (s *Source) before(ctx context.Context) (owners, error) {
	if !s.o.AllProjects || s.kind.Type != event.Volume || s.open == nil {
		return nil, nil
	}
	list, err := s.open(ctx, TypeName, s.kind.Type)
	if err != nil {
		return nil, err
	}
	out := owners{}
	for _, o := range list {
		out[o.Resource.ID] = append(out[o.Resource.ID], o.Account)
	}
	return out, nil
}

// handed reports whether a resource was in another account before.
func (o owners) handed(id, account string) bool {
	other := false
	for _, a := range o[id] {
		if a == account {
			return false
		}
		other = true
	}
	return other
}
