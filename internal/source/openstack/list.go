package openstack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tollgate-dev/tollgate/internal/openstack/cloud"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
)

// Words of a listing.
const (
	infoStatus  = "status"
	infoZone    = "zone"
	infoImage   = "image"
	infoServer  = "server"
	infoAddress = "address"
)

// List implements source.Lister: all regions, or none.
func (s *Source) List(ctx context.Context) (source.Snapshot, error) {
	ctx = provider.ContextWithOp(ctx, source.OpList)
	out := source.Snapshot{At: s.now().UTC()}
	for _, name := range s.regions() {
		if err := s.list(ctx, name, &out); err != nil {
			return source.Snapshot{}, s.wrap(ctx, source.OpList, err)
		}
	}
	return out, nil
}

// list adds a region. A page that cannot be found any more begins it anew.
func (s *Source) list(ctx context.Context, name string, out *source.Snapshot) error {
	r, err := s.at(ctx, name)
	if err != nil {
		return err
	}
	if err := s.mayReadAll(ctx, r); err != nil {
		return err
	}
	q, err := s.query(ctx)
	if err != nil {
		return err
	}
	before, err := s.before(ctx)
	if err != nil {
		return err
	}
	var found source.Snapshot
	for range markerTries {
		found = source.Snapshot{}
		err = cloud.Walk(ctx, s.kind.client(r), s.kind.path, s.kind.key, q, s.o.PageSize, func(p cloud.Page) error {
			if out.PlatformAt.IsZero() {
				out.PlatformAt = p.Date
			}
			if !p.Date.IsZero() {
				out.PlatformUntil = p.Date
			}
			if n := len(p.Entries); p.More && n > 0 && s.kind.adrift != nil && s.kind.adrift(p.Entries[n-1]) {
				return fmt.Errorf("so many servers are being scheduled that the list of %s cannot be read on", r.Name)
			}
			for i, id := range p.IDs {
				if id == "" {
					found.Unreadable = append(found.Unreadable, "an entry without an id")
					continue
				}
				x, project := s.kind.existing(p.Entries[i])
				x.Account, x.Region = s.accountOf(project), r.Name
				x.Resource.Type, x.Resource.ID = s.kind.Type, id
				if s.o.AllProjects && project == "" {
					found.Unreadable = append(found.Unreadable, fmt.Sprintf("%s %s does not say which project it is of", s.kind.Type, id))
					continue
				}
				if before.handed(id, x.Account) {
					x.CreatedAt = time.Time{} // nobody knows when it came into this account
				}
				found.Resources = append(found.Resources, x)
			}
			return nil
		})
		if !errors.Is(err, cloud.ErrMarker) {
			break
		}
	}
	if err != nil {
		return s.refused(source.OpList, err)
	}
	if s.kind.Type == event.Server {
		if down, err := s.downCells(ctx, r); err != nil {
			return err
		} else if down > 0 {
			return fmt.Errorf("the compute service of %s leaves out %d servers of cells that it cannot reach", r.Name, down)
		}
	}
	out.Resources = append(out.Resources, found.Resources...)
	out.Unreadable = append(out.Unreadable, found.Unreadable...)
	return nil
}

func existingServer(raw json.RawMessage) (source.Existing, string) {
	v := readServer(raw)
	x := source.Existing{
		Resource: event.Resource{Name: v.Name}, CreatedAt: v.created, Size: v.size(), State: v.state(),
		Coming: v.launched.IsZero(), Leaving: v.Task == "deleting" || v.Task == "soft-deleting" || v.over(),
		Info: map[string]string{infoStatus: strings.ToLower(v.Status), infoZone: v.Zone, infoImage: v.image()},
	}
	if v.moving() {
		x.Size = nil
	}
	if m, managed := provider.MarksFromLabels(v.Metadata); managed {
		x.Marks = &m
	}
	return x, v.Project
}
