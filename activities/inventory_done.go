package activities

import (
	"context"

	"go.temporal.io/sdk/activity"

	"github.com/tollgate-dev/tollgate/internal/metrics"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// Inventories are the activities of inventories that call nothing; they belong on
// workflows.TaskQueue, where workflows run them locally.
type Inventories struct {
	// Metrics may be nil.
	Metrics *metrics.InventoryRuns
}

// RecordInventory counts the end of an inventory, and logs it.
func (a *Inventories) RecordInventory(ctx context.Context, in InventoryDoneInput) error {
	a.Metrics.Done(in.Source, string(in.Outcome))
	log := activity.GetLogger(ctx)
	args := []any{"source", in.Source, "outcome", string(in.Outcome), "differences", in.Count, "message", in.Message}
	switch in.Outcome {
	case api.InventoryUnreadable, api.InventoryHeld:
		log.Error("inventory repaired nothing", args...)
	case api.InventoryIncomplete, api.InventoryDiffers:
		log.Warn("inventory leaves differences", args...)
	default:
		log.Info("inventory done", args...)
	}
	return nil
}
