package workflows_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/devserver/devservertest"
	"github.com/tollgate-dev/tollgate/internal/historytest"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// doomedVariable makes this test binary a worker that gets stuck in its first
// probe. Its value is the engine's address.
const doomedVariable = "TOLLGATE_TEST_DOOMED_WORKER"

func TestMain(m *testing.M) {
	if address := os.Getenv(doomedVariable); address != "" {
		if err := doomed(address); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// doomed is the worker that will be killed: it says so on its output when it is
// in the middle of a probe, and stays there.
func doomed(address string) error {
	c, err := client.Dial(client.Options{HostPort: address})
	if err != nil {
		return err
	}
	w := worker.New(c, workflows.TaskQueue, devservertest.WorkerOptions())
	registerWatchers(w)
	w.RegisterWorkflowWithOptions(proxyStub, workflow.RegisterOptions{Name: workflows.TypeProxy})
	w.RegisterActivity(&activities.Fleet{
		Temporal: c, Shards: func(string) int { return 1 },
		ProbeProxy: func(ctx context.Context, _ string, _ *provider.BasicAuth) activities.ProbeResult {
			fmt.Println("probing")
			<-ctx.Done()
			return activities.ProbeResult{}
		},
	})
	return w.Run(nil)
}

// TestFleetGoesOnWhenItsWorkerIsKilled kills a worker in the middle of a probe
// round and looks for how long the engine waits for it.
func TestFleetGoesOnWhenItsWorkerIsKilled(t *testing.T) {
	t.Parallel()
	w := newIdleWorld(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), doomedVariable+"="+w.engine)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()

	config := fleetConfig()
	config.DriftInterval = api.Duration(time.Hour)
	w.report(api.FleetReport{Row: row(w.proxy("p"), "p")})
	w.configure(0, config)
	for scan := bufio.NewScanner(out); ; {
		if !scan.Scan() {
			t.Fatal("the worker ended without a probe")
		}
		if strings.Contains(scan.Text(), "probing") {
			break
		}
	}
	killed := time.Now()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	w.serve()
	w.eventually("the round to be made by another worker", func() bool { return w.fleetStatus(0).Probe.Probed == 1 })
	for _, e := range historytest.Fetch(t, w.client, fleetID, "").GetEvents() {
		started := e.GetActivityTaskStartedEventAttributes()
		if e.GetEventType() != enumspb.EVENT_TYPE_ACTIVITY_TASK_STARTED || started.GetAttempt() < 2 {
			continue
		}
		took := e.GetEventTime().AsTime().Sub(killed)
		t.Logf("taken over after %s: %s", took.Round(time.Millisecond), started.GetLastFailure().GetMessage())
		// The heartbeat timeout is 5 s; without one it would be minutes.
		if took > time.Minute {
			t.Errorf("the round was taken over after %s", took)
		}
		return
	}
	t.Error("no second attempt in the history")
}
