package reporting

import (
	"context"
	"net/http"
	"time"

	"github.com/tollgate-dev/tollgate/internal/reporting/api"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
)

// EnsureProject creates a project or finds the one of the platform and external
// id.
func (c *Client) EnsureProject(ctx context.Context, p api.ProjectCreate) (api.Project, error) {
	out, err := call(ctx, c, "create project",
		func(ctx context.Context) (*http.Response, error) { return c.api.CreateProject(ctx, p) },
		api.ParseCreateProjectResponse, func(r *api.CreateProjectResponse) *api.Project {
			if r.JSON201 != nil {
				return r.JSON201
			}
			return r.JSON200
		})
	return value(out, err)
}

// FindProject finds a project; ok is false when there is none.
func (c *Client) FindProject(ctx context.Context, platform, externalID string) (p api.Project, ok bool, err error) {
	out, err := call(ctx, c, "find project",
		func(ctx context.Context) (*http.Response, error) {
			return c.api.ListProjects(ctx, &api.ListProjectsParams{Platform: &platform, ExternalID: &externalID})
		},
		api.ParseListProjectsResponse, func(r *api.ListProjectsResponse) *api.ProjectList { return r.JSON200 })
	if err != nil || len(out.Items) == 0 {
		return api.Project{}, false, err
	}
	return out.Items[0], true, nil
}

// Projects lists the projects of a platform, or of all for "", all pages.
func (c *Client) Projects(ctx context.Context, platform string) ([]api.Project, error) {
	limit := 1000
	p := api.ListProjectsParams{Platform: optional(platform), Limit: &limit}
	var all []api.Project
	for token := ""; ; {
		p.PageToken = optional(token)
		out, err := call(ctx, c, "list projects",
			func(ctx context.Context) (*http.Response, error) { return c.api.ListProjects(ctx, &p) },
			api.ParseListProjectsResponse, func(r *api.ListProjectsResponse) *api.ProjectList { return r.JSON200 })
		if err != nil {
			return nil, err
		}
		if all = append(all, out.Items...); out.NextPageToken == "" {
			return all, nil
		}
		token = out.NextPageToken
	}
}

// Project reads a project by its id.
func (c *Client) Project(ctx context.Context, id string) (api.Project, error) {
	out, err := call(ctx, c, "read project",
		func(ctx context.Context) (*http.Response, error) { return c.api.GetProject(ctx, id) },
		api.ParseGetProjectResponse, func(r *api.GetProjectResponse) *api.Project { return r.JSON200 })
	return value(out, err)
}

// EnsureRelation relates a project to another one or finds the relation. Give
// ValidFrom: it makes the call idempotent for ever.
func (c *Client) EnsureRelation(ctx context.Context, projectID string, r api.RelationCreate) (api.Relation, error) {
	out, err := call(ctx, c, "create relation",
		func(ctx context.Context) (*http.Response, error) { return c.api.CreateRelation(ctx, projectID, r) },
		api.ParseCreateRelationResponse, func(r *api.CreateRelationResponse) *api.Relation {
			if r.JSON201 != nil {
				return r.JSON201
			}
			return r.JSON200
		})
	return value(out, err)
}

// CloseRelation sets the end of a relation. Doing it again with the same time
// changes nothing.
func (c *Client) CloseRelation(ctx context.Context, projectID, relationID string, validTo time.Time) (api.Relation, error) {
	out, err := call(ctx, c, "close relation",
		func(ctx context.Context) (*http.Response, error) {
			return c.api.CloseRelation(ctx, projectID, relationID, api.RelationClose{ValidTo: validTo})
		},
		api.ParseCloseRelationResponse, func(r *api.CloseRelationResponse) *api.Relation { return r.JSON200 })
	return value(out, err)
}

// Relations lists the relations of a project, all pages. Limit and PageToken of p
// are not used.
func (c *Client) Relations(ctx context.Context, projectID string, p api.ListRelationsParams) ([]api.Relation, error) {
	limit := 1000
	p.Limit = &limit
	var all []api.Relation
	for token := ""; ; {
		p.PageToken = optional(token)
		out, err := call(ctx, c, "list relations",
			func(ctx context.Context) (*http.Response, error) { return c.api.ListRelations(ctx, projectID, &p) },
			api.ParseListRelationsResponse, func(r *api.ListRelationsResponse) *api.RelationList { return r.JSON200 })
		if err != nil {
			return nil, err
		}
		if all = append(all, out.Items...); out.NextPageToken == "" {
			return all, nil
		}
		token = out.NextPageToken
	}
}

// Resources lists resources at a time, all pages. Limit and PageToken of p are
// not used.
func (c *Client) Resources(ctx context.Context, p api.ListResourcesParams) ([]api.ResourceState, error) {
	limit := 1000
	p.Limit = &limit
	var all []api.ResourceState
	for token := ""; ; {
		p.PageToken = optional(token)
		out, err := call(ctx, c, "list resources",
			func(ctx context.Context) (*http.Response, error) { return c.api.ListResources(ctx, &p) },
			api.ParseListResourcesResponse, func(r *api.ListResourcesResponse) *api.ResourceList { return r.JSON200 })
		if err != nil {
			return nil, err
		}
		if all = append(all, out.Items...); out.NextPageToken == "" {
			return all, nil
		}
		token = out.NextPageToken
	}
}

// maxIDs is how many ids one call may ask for.
const maxIDs = 100

// LastKnown asks what resources of an account were at a time, or last before it.
// Those that no event tells of are missing in the result.
func (c *Client) LastKnown(ctx context.Context, platform event.Platform, account string, t event.ResourceType, ids []string, at time.Time) (map[string]api.ResourceState, error) {
	known := make(map[string]api.ResourceState, len(ids))
	p, rt, ended := string(platform), string(t), true
	for len(ids) > 0 {
		n := min(len(ids), maxIDs)
		some := ids[:n]
		ids = ids[n:]
		states, err := c.Resources(ctx, api.ListResourcesParams{Platform: &p, ExternalID: &account, ResourceType: &rt, ResourceID: &some, At: &at, Ended: &ended})
		if err != nil {
			return nil, err
		}
		for _, s := range states {
			known[s.Resource.ID] = s
		}
	}
	return known, nil
}

// Usage reads what a project used in a period, all pages of resources in one. The
// totals are as of asOf: with the zero time, as of the server's time at the first
// page.
func (c *Client) Usage(ctx context.Context, projectID string, from, to, asOf time.Time) (api.Usage, error) {
	var all *api.Usage
	limit := 1000
	p := api.GetUsageParams{From: from, To: to, Limit: &limit}
	if !asOf.IsZero() {
		p.AsOf = &asOf
	}
	for {
		out, err := call(ctx, c, "read usage",
			func(ctx context.Context) (*http.Response, error) { return c.api.GetUsage(ctx, projectID, &p) },
			api.ParseGetUsageResponse, func(r *api.GetUsageResponse) *api.Usage { return r.JSON200 })
		if err != nil {
			return api.Usage{}, err
		}
		if all == nil {
			all = out
		} else {
			all.Resources = append(all.Resources, out.Resources...)
		}
		if out.NextPageToken == "" {
			all.NextPageToken = ""
			return *all, nil
		}
		p.PageToken, p.AsOf = optional(out.NextPageToken), &all.AsOf
	}
}

// Events lists events in the order of arrival, all pages, and hands each to f
// until f returns false.
func (c *Client) Events(ctx context.Context, p api.ListEventsParams, f func(api.StoredEvent) bool) error {
	limit := 1000
	p.Limit = &limit
	for token := ""; ; {
		p.PageToken = optional(token)
		out, err := call(ctx, c, "list events",
			func(ctx context.Context) (*http.Response, error) { return c.api.ListEvents(ctx, &p) },
			api.ParseListEventsResponse, func(r *api.ListEventsResponse) *api.EventList { return r.JSON200 })
		if err != nil {
			return err
		}
		for _, e := range out.Items {
			if !f(e) {
				return nil
			}
		}
		if out.NextPageToken == "" {
			return nil
		}
		token = out.NextPageToken
	}
}

func value[T any](v *T, err error) (T, error) {
	if err != nil {
		var zero T
		return zero, err
	}
	return *v, nil
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
