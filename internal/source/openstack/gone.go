package openstack

import (
	"context"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
)

var _ source.Confirmer = (*Source)(nil)

// Gone implements source.Confirmer. A server of a cell that cannot be reached is in
// no list, and is not gone: the compute service says of one that it is asked for
// that its state is unknown, or fails, whatever its release and however many servers
// there are. Source: nova/compute/api.py _get_instance_from_cell (Zed).
//
// What nobody knows the region of is gone if it is gone from all of them.
func (s *Source) Gone(ctx context.Context, account, region string, r event.Resource) (bool, error) {
	ctx = provider.ContextWithOp(ctx, source.OpGone)
	regions := []string{region}
	if region == "" {
		regions = s.regions()
	}
	for _, name := range regions {
		if gone, err := s.gone(ctx, account, name, r); err != nil || !gone {
			return false, err
		}
	}
	return true, nil
}

func (s *Source) gone(ctx context.Context, account, region string, r event.Resource) (bool, error) {
	var out source.Page
	rd, err := s.reading(ctx, region, &place{}, &out)
	if err != nil {
		return false, s.wrap(ctx, source.OpGone, err)
	}
	project, there, err := s.kind.find(ctx, rd, r.ID)
	if err != nil {
		return false, s.wrap(ctx, source.OpGone, err)
	}
	if !there || project == "" {
		return !there, nil
	}
	// What was handed to another project is gone from this account.
	session, err := s.cloud.Connect(ctx)
	if err != nil {
		return false, s.wrap(ctx, source.OpGone, err)
	}
	handed := !s.o.AllProjects && session.Project != "" && session.Project != project
	return handed || s.accountOf(project) != account, nil
}
