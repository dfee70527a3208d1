package activities

import (
	"context"
	"fmt"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting/sink"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// Follower acts on what a source's cursors read. It is told of the items of a
// page after the sink has answered for good about each, with a refusal too, and
// before the cursor moves: after a crash, a rewind, a backfill or a redrive it is
// told of the same items again, so what it does must be idempotent. It may be
// told by several goroutines and processes at once.
//
// Its error stops the reading as a failure of the source would: the page, which
// the sink has by then, is read and delivered again later. An error that is a
// provider.Error may say after what time; its class is taken for Transient.
type Follower interface {
	Follow(ctx context.Context, source string, items []source.Item) error
}

// follow tells the followers of a source.
func (a *Cursors) follow(ctx context.Context, name string, items []source.Item) error {
	if a.Followers == nil || len(items) == 0 {
		return nil
	}
	for _, f := range a.Followers(name) {
		if err := f.Follow(ctx, name, items); err != nil {
			return fmt.Errorf("what follows %s: %w", name, err)
		}
	}
	return nil
}

// followStop is what the workflow gets to know of a follower's failure.
func followStop(err error) api.Stop {
	return api.Stop{Class: string(provider.Transient), Reason: api.ReasonFollowerFailed, Message: sink.Reason(err.Error()),
		RetryAfter: api.Duration(provider.RetryAfterOf(err))}
}
