package inventory

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tollgate-dev/tollgate/internal/reporting"
	rapi "github.com/tollgate-dev/tollgate/internal/reporting/api"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
)

// Receiver tells what was reported.
type Receiver interface {
	// Open lists the resources of these types that have not ended, of an account
	// and, with parts, of all accounts that begin with it and a slash.
	Open(ctx context.Context, p event.Platform, account string, parts bool, types []event.ResourceType) (map[Key]Reported, error)
	// Ended tells of those of these resources that have ended.
	Ended(ctx context.Context, p event.Platform, keys []Key) (map[Key]Reported, error)
}

// clocks is how far the clocks of platforms may be ahead: what was reported of the
// near future is reported.
const clocks = 24 * time.Hour

// ReceiverOf asks a Reporting API.
func ReceiverOf(c *reporting.Client) Receiver { return receiver{c} }

type receiver struct{ c *reporting.Client }

func (r receiver) Open(ctx context.Context, p event.Platform, account string, parts bool, types []event.ResourceType) (map[Key]Reported, error) {
	out := map[Key]Reported{}
	for _, t := range types {
		platform, kind, at := string(p), string(t), time.Now().Add(clocks)
		q := rapi.ListResourcesParams{Platform: &platform, ResourceType: &kind, At: &at}
		if !parts {
			q.ExternalID = &account
		}
		states, err := r.c.Resources(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("what was reported: %w", err)
		}
		for _, s := range states {
			if s.ExternalID == account || parts && strings.HasPrefix(s.ExternalID, account+"/") {
				rep := reportedOf(s)
				out[KeyOf(rep.Account, rep.Resource)] = rep
			}
		}
	}
	return out, nil
}

func (r receiver) Ended(ctx context.Context, p event.Platform, keys []Key) (map[Key]Reported, error) {
	type group struct {
		account string
		t       event.ResourceType
	}
	ids := map[group][]string{}
	for _, k := range keys {
		g := group{k.Account, k.Type}
		ids[g] = append(ids[g], k.ID)
	}
	out := map[Key]Reported{}
	for g, some := range ids {
		states, err := r.c.LastKnown(ctx, p, g.account, g.t, some, time.Now().Add(clocks))
		if err != nil {
			return nil, fmt.Errorf("what was reported: %w", err)
		}
		for _, s := range states {
			if !s.Alive {
				rep := reportedOf(s)
				out[KeyOf(rep.Account, rep.Resource)] = rep
			}
		}
	}
	return out, nil
}

func reportedOf(s rapi.ResourceState) Reported {
	r := Reported{
		Account:  s.ExternalID,
		Resource: event.Resource{Type: event.ResourceType(s.Resource.Type), ID: s.Resource.ID, Name: s.Resource.Name},
		Region:   s.Region, State: event.State(s.State), Size: s.Size, Unknown: s.UnknownSize, From: s.From.UTC(), Since: s.Since.UTC(),
	}
	if s.To != nil {
		r.To = s.To.UTC()
	}
	return r
}
