// Package register is the one list of Tollgate's workflows. Workers, replay
// tests and tests of single workflows share it.
package register

import (
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/eventcursor"
	"github.com/tollgate-dev/tollgate/workflows/fleetwatch"
	"github.com/tollgate-dev/tollgate/workflows/inventory"
	"github.com/tollgate-dev/tollgate/workflows/orphangc"
	"github.com/tollgate-dev/tollgate/workflows/providerhealth"
	"github.com/tollgate-dev/tollgate/workflows/proxy"
	"github.com/tollgate-dev/tollgate/workflows/reaper"
	"github.com/tollgate-dev/tollgate/workflows/shoot"
)

// All registers every workflow under its public name.
func All(r worker.WorkflowRegistry) {
	for name, w := range map[string]any{
		workflows.TypeProxy:          proxy.Workflow,
		workflows.TypeFleetWatch:     fleetwatch.Workflow,
		workflows.TypeOrphanGC:       orphangc.Workflow,
		workflows.TypeProviderHealth: providerhealth.Workflow,
		workflows.TypeEventCursor:    eventcursor.Workflow,
		workflows.TypeReaper:         reaper.Workflow,
		workflows.TypeInventory:      inventory.Workflow,

		workflows.TypeShootRegistration: shoot.Workflow,
	} {
		r.RegisterWorkflowWithOptions(w, workflow.RegisterOptions{Name: name})
	}
}
