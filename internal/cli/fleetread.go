package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// pageSize is the number of workflows asked for at once. Visibility lags, which
// does no harm here: providers come and go with the configuration.
const pageSize = 100

// providers finds the configured providers: they have a fleet, a health
// workflow and a schedule. Whether each is there is asked of the workflow
// itself.
func (s *session) providers(ctx context.Context) ([]string, error) {
	found := map[string]bool{}
	req := &workflowservice.ListWorkflowExecutionsRequest{
		PageSize: pageSize,
		Query: fmt.Sprintf("WorkflowType IN ('%s', '%s') AND ExecutionStatus = 'Running'",
			workflows.TypeFleetWatch, workflows.TypeProviderHealth),
	}
	for {
		r, err := s.conn.Client.ListWorkflow(ctx, req)
		if err != nil {
			return nil, s.translate(ctx, "providers", err)
		}
		for _, e := range r.GetExecutions() {
			if p, ok := providerOf(e.GetExecution().GetWorkflowId()); ok {
				found[p] = true
			}
		}
		if req.NextPageToken = r.GetNextPageToken(); len(req.NextPageToken) == 0 {
			break
		}
	}
	schedules, err := s.schedules(ctx)
	if err != nil {
		return nil, err
	}
	for _, e := range schedules {
		if p := scheduleProvider(e.ID); p != "" {
			found[p] = true
		}
	}
	names := make([]string, 0, len(found))
	for p := range found {
		names = append(names, p)
	}
	slices.Sort(names)
	return names, nil
}

// providerOf reads the provider from fleet/<provider>/<shard> and
// health/<provider>.
func providerOf(id string) (string, bool) {
	parts := strings.Split(id, "/")
	switch {
	case len(parts) == 3 && parts[0] == "fleet", len(parts) == 2 && parts[0] == "health":
		return parts[1], parts[1] != ""
	}
	return "", false
}

// scheduleProvider reads the provider from gc/<provider> and
// reap/<provider>/<selector>.
func scheduleProvider(id string) string {
	if rest, ok := strings.CutPrefix(id, workflows.ReaperPrefix); ok {
		name, _, _ := strings.Cut(rest, "/")
		return name
	}
	name, _ := strings.CutPrefix(id, workflows.OrphanGCSchedule(""))
	if scheduleSource(id) != "" {
		return ""
	}
	return name
}

// scheduleSource is the source of an inventory's schedule, "" for another one.
func scheduleSource(id string) string {
	name, ok := strings.CutPrefix(id, workflows.InventoryPrefix)
	if !ok {
		return ""
	}
	return name
}

// schedules lists the schedules of Tollgate.
func (s *session) schedules(ctx context.Context) ([]*client.ScheduleListEntry, error) {
	it, err := s.conn.Client.ScheduleClient().List(ctx, client.ScheduleListOptions{PageSize: pageSize})
	if err != nil {
		return nil, s.translate(ctx, "schedules", err)
	}
	var out []*client.ScheduleListEntry
	for it.HasNext() {
		e, err := it.Next()
		if err != nil {
			return nil, s.translate(ctx, "schedules", err)
		}
		if strings.HasPrefix(e.ID, workflows.OrphanGCSchedule("")) || strings.HasPrefix(e.ID, workflows.ReaperPrefix) || strings.HasPrefix(e.ID, workflows.InventoryPrefix) {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b *client.ScheduleListEntry) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

// tables reads the fleet table of a provider, all shards.
func (s *session) tables(ctx context.Context, provider string) ([]api.FleetTable, error) {
	return shards(ctx, s, provider, workflows.QueryTable, func(t api.FleetTable) int { return t.Shards })
}

// fleets reads the status of a provider's fleet, all shards.
func (s *session) fleets(ctx context.Context, provider string) ([]api.Fleet, error) {
	return shards(ctx, s, provider, workflows.QueryStatus, func(f api.Fleet) int { return f.Spec.Shards })
}

// shards asks shard 0, which knows how many there are, and then the others. A
// shard that nobody has started has nothing to tell.
func shards[T any](ctx context.Context, s *session, provider, query string, count func(T) int) ([]T, error) {
	var first T
	ok, err := s.queryShard(ctx, provider, 0, query, &first)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, nil
	}
	n := max(count(first), 1)
	all, there := make([]T, n), make([]bool, n)
	all[0], there[0] = first, true
	var others []int
	for i := 1; i < n; i++ {
		others = append(others, i)
	}
	err = each(ctx, others, func(ctx context.Context, i int) (err error) {
		there[i], err = s.queryShard(ctx, provider, i, query, &all[i])
		return err
	})
	var out []T
	for i := range all {
		if there[i] {
			out = append(out, all[i])
		}
	}
	return out, err
}

func (s *session) queryShard(ctx context.Context, provider string, shard int, query string, into any) (bool, error) {
	id := workflows.FleetID(provider, shard)
	err := s.query(ctx, id, query, into)
	var closed *closedError
	if isNotFound(err) || errors.As(err, &closed) {
		return false, nil
	}
	return err == nil, s.translate(ctx, id, err)
}
