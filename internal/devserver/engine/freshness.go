package main

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"go.temporal.io/server/common/dynamicconfig"
	"google.golang.org/grpc"
)

// freshFor is for how long every read goes to the database after somebody has
// changed search attributes: longer than all caches of namespaces take to follow,
// which are renewed every two seconds.
const freshFor = 10 * time.Second

// freshness makes new search attributes usable at once and everywhere. The
// server's own switch for that makes every look at them wait for a read of the
// database, one after the other: each description of a workflow, each start, each
// change of attributes. It is on only while caches may be behind.
type freshness struct {
	settings dynamicconfig.Client
	now      func() time.Time
	until    atomic.Int64 // Unix time in nanoseconds
}

func newFreshness(settings dynamicconfig.Client) *freshness {
	return &freshness{settings: settings, now: time.Now}
}

// freshOn is one value for all calls, because the server keeps what it made of it.
var freshOn = []dynamicconfig.ConstrainedValue{{Value: true}}

// GetValue implements dynamicconfig.Client. A switch that was set by hand stays
// as it was set.
func (f *freshness) GetValue(key dynamicconfig.Key) []dynamicconfig.ConstrainedValue {
	v := f.settings.GetValue(key)
	if v == nil && key == dynamicconfig.ForceSearchAttributesCacheRefreshOnRead.Key() && f.now().UnixNano() < f.until.Load() {
		return freshOn
	}
	return v
}

// intercept notices changes of search attributes.
func (f *freshness) intercept(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if !strings.HasSuffix(info.FullMethod, "SearchAttributes") || strings.HasSuffix(info.FullMethod, "ListSearchAttributes") ||
		strings.HasSuffix(info.FullMethod, "GetSearchAttributes") {
		return handler(ctx, req)
	}
	// From before the change on, for whoever reads the moment it is made.
	f.until.Store(f.now().Add(freshFor).UnixNano())
	resp, err := handler(ctx, req)
	f.until.Store(f.now().Add(freshFor).UnixNano())
	return resp, err
}
