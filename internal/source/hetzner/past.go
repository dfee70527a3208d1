package hetzner

import (
	"context"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
)

// pastList is all that exists, read once for very many pages of old changes: what
// a change has led to is seen in it as well as in a new one, if the change had
// ended when it was read.
type pastList struct {
	// asOf is a time by the vendor's clock at which the listing had not begun; zero
	// means that there was no action to tell it from.
	asOf time.Time
	// made is when it was read, by our clock.
	made time.Time
	all  map[int64]state
}

const (
	// listingMargin is what changes have to be older than a listing by: times are
	// of whole seconds, and the vendor's lists may lag behind.
	listingMargin = 5 * time.Minute
	// listEvery is the least time between two of these listings.
	listEvery = 15 * time.Minute
)

// past is a listing that changes up to latest had ended before, unless there is
// none. While pages follow in bulk it is made when it is not there.
func (z *sizer) past(ctx context.Context, latest time.Time, bulk bool) (all map[int64]state, ok bool, err error) {
	cache := &z.s.sizes
	cache.mu.Lock()
	l := cache.past
	cache.mu.Unlock()
	now := z.s.now()
	if l != nil && latest.Before(l.asOf) {
		return l.all, true, nil
	}
	if !bulk || l != nil && now.Sub(l.made).Abs() < listEvery {
		return nil, false, nil
	}
	l = &pastList{made: now}
	// The vendor's clock, by what happened last: it shows at least this time when
	// the listing begins.
	newest, _, err := z.s.kind.list(ctx, z.s.client, hcloud.ActionListOpts{ListOpts: hcloud.ListOpts{Page: 1, PerPage: 1}, Sort: []string{"id:desc"}})
	if err != nil {
		return nil, false, err
	}
	if len(newest) > 0 {
		l.asOf = newest[0].Started.Add(-listingMargin)
	}
	if latest.Before(l.asOf) {
		if l.all, err = z.list(ctx); err != nil {
			return nil, false, err
		}
		if len(l.all) > maxCached {
			return l.all, true, nil // too many to keep
		}
	}
	cache.mu.Lock()
	cache.past = l
	cache.mu.Unlock()
	return l.all, latest.Before(l.asOf), nil
}
