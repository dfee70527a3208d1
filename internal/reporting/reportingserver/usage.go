package reportingserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/tollgate-dev/tollgate/internal/reporting/api"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/reporting/reportingserver/store"
	"github.com/tollgate-dev/tollgate/internal/reporting/usage"
)

const maxIDs = 100

// ListResources lists what existed at a time.
func (s *Server) ListResources(w http.ResponseWriter, r *http.Request, p api.ListResourcesParams) {
	limit, err := limitOf(p.Limit)
	at := s.opts.Now().UTC()
	if p.At != nil {
		at = p.At.UTC()
	}
	f := store.ResourceFilter{ProjectID: text(p.ProjectID), Platform: text(p.Platform), ExternalID: text(p.ExternalID), Type: text(p.ResourceType)}
	if p.ResourceID != nil {
		f.IDs = *p.ResourceID
	}
	if len(f.IDs) > maxIDs {
		err = errors.Join(err, fmt.Errorf("resource_id: is given %d times: at most %d are allowed", len(f.IDs), maxIDs))
	}
	if err := errors.Join(err, inRange("at", p.At), readToken(p.PageToken, &f.After)); err != nil {
		s.fail(w, r, invalid("%v", err))
		return
	}
	out := api.ResourceList{At: at, Items: []api.ResourceState{}}
	var last store.ResourceKey
	for res, err := range s.store.Timelines(r.Context(), f) {
		if err != nil {
			s.fail(w, r, err)
			return
		}
		state, ok := resourceAt(res, at)
		if !ok || !state.Alive && (p.Ended == nil || !*p.Ended) {
			continue
		}
		if len(out.Items) == limit {
			out.NextPageToken = newToken(last)
			break
		}
		last = res.Key
		out.Items = append(out.Items, state)
	}
	answer(w, http.StatusOK, out)
}

func resourceAt(res store.Resource, at time.Time) (api.ResourceState, bool) {
	span, life, alive, ok := res.At(at)
	state := api.ResourceState{
		ProjectID: res.ProjectID, Platform: string(res.Platform), ExternalID: res.Account, Resource: res.Resource, Region: res.Region,
		Alive: alive, State: span.State, Size: sizeOf(span.Size), UnknownSize: namesOf(span.Unknown),
		Since: span.From, From: life.From, StartUnknown: life.StartUnknown,
	}
	if !life.To.IsZero() {
		state.To = &life.To
	}
	return state, ok
}

// Lists and maps of answers are never null.
func sizeOf(s event.Size) event.Size {
	if s == nil {
		return event.Size{}
	}
	return s
}

func namesOf(names []string) []string {
	if names == nil {
		return []string{}
	}
	return names
}

func amountsOf(m map[string]usage.Amount) api.Amounts {
	if m == nil {
		return api.Amounts{}
	}
	return m
}

// usageKey is the place of a resource in the order of a project's usage.
type usageKey struct {
	Type, ID string
}

// GetUsage answers what a project used in a period.
func (s *Server) GetUsage(w http.ResponseWriter, r *http.Request, id api.ProjectID, p api.GetUsageParams) {
	limit, err := limitOf(p.Limit)
	period := usage.Period{From: p.From.UTC(), To: p.To.UTC(), AsOf: s.opts.Now().UTC()}
	if p.AsOf != nil {
		period.AsOf = p.AsOf.UTC()
	}
	var after *usageKey
	err = errors.Join(err, inRange("from", &p.From), inRange("to", &p.To), inRange("as_of", p.AsOf), readToken(p.PageToken, &after))
	if period.To.Before(period.From) {
		err = errors.Join(err, fmt.Errorf("to: %s is before from %s", period.To.Format(time.RFC3339), period.From.Format(time.RFC3339)))
	}
	if err != nil {
		s.fail(w, r, invalid("%v", err))
		return
	}
	u, err := s.usage(r.Context(), id, period, after, limit)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	answer(w, http.StatusOK, u)
}

// usage is what a project used, with a page of its resources.
func (s *Server) usage(ctx context.Context, id string, period usage.Period, after *usageKey, limit int) (api.Usage, error) {
	project, err := s.store.Project(ctx, id)
	if err != nil {
		return api.Usage{}, err
	}
	sums, err := s.store.Usage(ctx, project, period)
	if err != nil {
		return api.Usage{}, err
	}
	out := api.Usage{Project: project.Project, From: period.From, To: period.To, AsOf: period.AsOf, ResourceCount: sums.Resources,
		Totals: []api.UsageTotal{}, CounterTotals: []api.CounterTotal{}, FindingCounts: sums.Findings, Resources: []api.ResourceUsage{}}
	for _, g := range sums.Groups() {
		out.Totals = append(out.Totals, api.UsageTotal{ResourceType: string(g.ResourceType), State: g.State, Words: sizeOf(g.Words),
			Seconds: g.Seconds, Amounts: amountsOf(g.Amounts), UnknownSeconds: amountsOf(g.UnknownSeconds)})
	}
	for _, c := range sums.Counters() {
		out.CounterTotals = append(out.CounterTotals, api.CounterTotal{ResourceType: string(c.ResourceType), Counter: c.Counter, Amount: c.Amount})
	}
	if after == nil {
		after = &usageKey{}
	}
	used, err := s.store.Used(ctx, project, period, after.Type, after.ID, limit+1)
	if err != nil {
		return api.Usage{}, err
	}
	for i, res := range used {
		if i == limit {
			last := used[i-1].Key
			out.NextPageToken = newToken(usageKey{last.Type, last.ID})
			break
		}
		// Something may have come in since it was chosen.
		if u, ok := res.Of(period); ok {
			out.Resources = append(out.Resources, resourceUsage(u))
		}
	}
	return out, nil
}

func resourceUsage(u usage.ResourceUsage) api.ResourceUsage {
	out := api.ResourceUsage{Resource: u.Resource, Region: u.Region, Seconds: u.Seconds, Amounts: amountsOf(u.Amounts),
		UnknownSeconds: amountsOf(u.UnknownSeconds), Counters: amountsOf(u.Counters), StartUnknown: u.StartUnknown, EndNotBefore: u.EndNotBefore,
		Intervals: []api.Interval{}, Findings: []api.Finding{}}
	for _, in := range u.Intervals {
		out.Intervals = append(out.Intervals, api.Interval{From: in.From, To: in.To, State: in.State, Size: sizeOf(in.Size),
			UnknownSize: namesOf(in.Unknown), Seconds: in.Seconds})
	}
	for _, f := range u.Findings {
		out.Findings = append(out.Findings, api.Finding{Code: f.Code, EventID: f.EventID, Time: f.Time})
	}
	return out
}

// GetOpenAPI answers the document.
func (s *Server) GetOpenAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(api.Document) // a client that has gone is no matter
}

// GetHealth answers whether events can be stored.
func (s *Server) GetHealth(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 3*time.Second)
	defer cancel()
	if err := s.store.Check(ctx); err != nil {
		s.opts.Logger.ErrorContext(ctx, "the database cannot be written to", "error", err)
		problem{api.UrnTollgateProblemUnavailable, http.StatusServiceUnavailable, "Unavailable", "the database cannot be written to"}.write(w)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("ok\n")) // a client that has gone is no matter
}
