//go:build bench

package bench

import (
	"fmt"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/memory"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// nobody is a task queue without a worker. A workflow on it runs, and costs
// nothing.
const nobody = "bench-nobody"

// populate makes n running workflows with the ids of proxies, and an instance of
// each in the worker's cloud. That is what sweeps and listings see of n proxies,
// and takes a fraction of the time that n proxies take.
func (w *world) populate(n int) []placed {
	w.b.Helper()
	all := make([]placed, n)
	parallel(w.b, n, 32, func(i int) error {
		name := fmt.Sprintf("p-%05d", i)
		run, err := w.client.ExecuteWorkflow(w.b.Context(), client.StartWorkflowOptions{ID: workflows.ProxyID(namespace, name), TaskQueue: nobody},
			workflows.TypeProxy, api.ProxyInput{Spec: w.spec()})
		if err != nil {
			return err
		}
		all[i] = placed{Name: provider.InstanceName(run.GetRunID(), 0), UID: run.GetRunID(), Proxy: name}
		return nil
	})
	return all
}

// report tells the fleet of proxies that serve, as the proxies would.
func (w *world) report(b *testing.B, all []placed, seq int64) {
	b.Helper()
	options, in := activities.FleetStart("mem", 0)
	stub := w.stub.first
	parallel(b, len(all), 32, func(i int) error {
		p := all[i]
		// The worker's cloud numbers what it is told to place from 1 on, address
		// and server in turn.
		key := int64(2 * (i + 1))
		row := api.FleetRow{
			UID: p.UID, Namespace: namespace, Name: p.Proxy, Seq: seq, Phase: api.PhaseRunning, Healthy: true, Reason: api.ReasonProven,
			InstanceID: memory.ID(memory.Server{ID: key, Name: p.Name}), InstanceName: p.Name, Own: []string{p.Name},
			IP: addressOf(stub.Addresses, key).String(), Port: stub.Port,
			Placement: provider.Placement{Region: "north"}, Labels: map[string]string{"team": "bench"},
			Since: time.Now().Add(-time.Hour).UTC(), CreatedAt: time.Now().Add(-time.Hour).UTC(),
		}
		_, err := w.client.SignalWithStartWorkflow(b.Context(), options.ID, workflows.SignalReport, api.FleetReport{Row: row}, options, workflows.TypeFleetWatch, in)
		return err
	})
}
