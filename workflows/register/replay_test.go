package register_test

import (
	"testing"

	"github.com/tollgate-dev/tollgate/internal/historytest"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/register"
)

// TestReplay replays every recorded history. A failure means that runs like it
// cannot go on under the changed code: version the change; recorded histories
// are never changed or deleted for it.
func TestReplay(t *testing.T) {
	t.Parallel()
	historytest.Replay(t, register.All,
		workflows.TypeProxy, workflows.TypeFleetWatch, workflows.TypeOrphanGC, workflows.TypeProviderHealth, workflows.TypeReaper, workflows.TypeEventCursor,
		workflows.TypeShootRegistration, workflows.TypeInventory)
}
