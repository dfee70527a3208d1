//go:build bench

package bench

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"

	"github.com/tollgate-dev/tollgate/internal/probe"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/local"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// BenchmarkCreateToHealthy measures one proxy at a time, each beside a workflow
// that does nothing, so that both meet the same machine.
func BenchmarkCreateToHealthy(b *testing.B) {
	const times = 30
	w := newWorld(b, setting{})
	f := newFloors(b, w.engine)
	w.createAndWait("warm", w.spec())
	var trivial, healthy []time.Duration
	events, run := 0, 0
	for b.Loop() {
		run++
		var names []string
		for i := range times {
			name := fmt.Sprintf("one-%d-%d", run, i)
			names = append(names, name)
			trivial = append(trivial, f.trivial())
			healthy = append(healthy, w.createAndWait(name, w.spec()))
		}
		h, err := w.history(workflows.ProxyID(namespace, names[0]))
		if err != nil {
			b.Fatal(err)
		}
		events = len(h)
		b.StopTimer()
		w.remove(names)
		b.StartTimer()
	}
	t, h := p50(trivial), p50(healthy)
	summary.add(b, "trivial-p50-ms", "workflow that does nothing, p50", ms(t), "ms", info)
	summary.add(b, "healthy-p50-ms", "proxy, start to Healthy=True, backend takes no time, p50", ms(h), "ms", info)
	summary.add(b, "healthy-p90-ms", "the same, p90", ms(quantile(healthy, 0.9)), "ms", info)
	summary.add(b, "latencies-added", "that is, in trivial latencies", float64(h)/float64(t), "x", atMost(5))
	summary.add(b, "events/proxy", "history events of a proxy that serves", float64(events), "", info)
}

// BenchmarkCreateToHealthyLocal does the same with real proxy processes. The
// backend's own time is that of the driver alone, without an engine.
func BenchmarkCreateToHealthyLocal(b *testing.B) {
	const times = 10
	w := newWorld(b, setting{})
	f := newFloors(b, w.engine)
	d := newDirect(b, w.stub.first.Target)
	spec := api.ProxySpec{Provider: "local"}
	w.createAndWait("warm", spec)
	names, run := []string{"warm"}, 0
	var trivial, healthy, direct []time.Duration
	for b.Loop() {
		run++
		for i := range times {
			name := fmt.Sprintf("local-%d-%d", run, i)
			names = append(names, name)
			trivial = append(trivial, f.trivial())
			healthy = append(healthy, w.createAndWait(name, spec))
			direct = append(direct, d.life(name))
		}
		b.StopTimer()
		w.remove(names)
		names = nil
		b.StartTimer()
	}
	t, h, own := p50(trivial), p50(healthy), p50(direct)
	summary.add(b, "trivial-p50-ms", "workflow that does nothing, p50", ms(t), "ms", info)
	summary.add(b, "driver-p50-ms", "driver alone, create to a CONNECT, p50", ms(own), "ms", info)
	summary.add(b, "healthy-p50-ms", "proxy process, start to Healthy=True, p50", ms(h), "ms", info)
	summary.add(b, "latencies-added", "over the driver alone, in trivial latencies", float64(h-own)/float64(t), "x", info)
}

// direct calls the local provider without an engine.
type direct struct {
	b      *testing.B
	driver *local.Provider
	prober *probe.Prober
}

func newDirect(b *testing.B, target string) *direct {
	b.Helper()
	driver, err := local.New(provider.Config{
		Name: "direct", Installation: "direct", StateDir: filepath.Join(b.TempDir(), "direct"), Logger: slog.New(slog.DiscardHandler),
		Decode: func(into any) error {
			o := into.(*local.Options)
			o.Network, o.Binary = "127.90.0.0/16", program(b, "tollgate-proxy")
			return nil
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	prober, err := probe.New(probe.Config{Target: target})
	if err != nil {
		b.Fatal(err)
	}
	return &direct{b, driver, prober}
}

// life is the time from the create to the first CONNECT. The instance is deleted
// after it.
func (d *direct) life(name string) time.Duration {
	d.b.Helper()
	ctx, cancel := context.WithTimeout(d.b.Context(), time.Minute)
	defer cancel()
	const port = 3128
	start := time.Now()
	id, err := d.driver.Create(ctx, provider.CreateRequest{
		Name: provider.InstanceName(name, 0), Marks: provider.Marks{UID: name, Installation: "direct"}, Port: port,
	})
	if err != nil {
		d.b.Fatal(err)
	}
	var ip string
	eventually(d.b, time.Minute, time.Millisecond, func() string {
		got, err := d.driver.Get(ctx, id)
		if err != nil || got.State != provider.StateRunning {
			return fmt.Sprintf("%s is %s (%v)", id, got.State, err)
		}
		ip = got.IP.String()
		return ""
	})
	eventually(d.b, time.Minute, time.Millisecond, func() string {
		return d.prober.Probe(ctx, probe.Target{Addr: net.JoinHostPort(ip, strconv.Itoa(port))}).Message
	})
	took := time.Since(start)
	if err := d.driver.Delete(ctx, id); err != nil {
		d.b.Fatal(err)
	}
	return took
}

// BenchmarkBurst creates 200 proxies at once on a cloud that takes no time, and
// compares the rate of their activities with the engine's own, measured before
// and after, twice.
//
// The same is told in CPU time, which other users of the machine disturb less
// than time: it says what share of all work was not avoidable.
func BenchmarkBurst(b *testing.B) {
	const proxies, bursts = 200, 2
	w := newWorld(b, setting{})
	f := newFloors(b, w.engine)
	w.createAndWait("warm", w.spec())
	w.remove([]string{"warm"})
	var floors, floorCosts []float64
	var all []burst
	run := 0
	for b.Loop() {
		floors, floorCosts, all = nil, nil, nil
		floor := func() {
			engine, self := w.engineCPU(), cpu(b, os.Getpid())
			floors = append(floors, f.activityRate())
			floorCosts = append(floorCosts, ms(w.engineCPU()-engine+cpu(b, os.Getpid())-self)/(floorLoops*floorActivities))
		}
		floor()
		for range bursts {
			run++
			names := make([]string, proxies)
			engine, worker := w.engineCPU(), cpu(b, w.worker.cmd.Process.Pid)
			parallel(b, proxies, floorWidth, func(i int) error {
				names[i] = fmt.Sprintf("burst-%d-%d", run, i)
				_, err := w.create(b.Context(), names[i], w.spec())
				return err
			})
			w.waitHealthy(proxies, 5*time.Minute)
			engine, worker = w.engineCPU()-engine, cpu(b, w.worker.cmd.Process.Pid)-worker
			one := w.measure(names)
			one.engine, one.worker = ms(engine)/proxies, ms(worker)/proxies
			all = append(all, one)
			w.remove(names)
			floor()
		}
	}
	sum := burst{}
	share := 0.0
	for i, x := range all {
		sum.add(x)
		share += perSecond(x.activities, x.took) / ((floors[i] + floors[i+1]) / 2) / bursts
	}
	activities := float64(sum.activities) / proxies / bursts
	engine, worker := sum.engine/bursts, sum.worker/bursts
	shape := f.loops(proxies, max(int(activities), 1))
	summary.add(b, "floor-activities/s", fmt.Sprintf("engine: activities that do nothing, %d workflows at once", floorLoops), mean(floors), "/s", info)
	summary.add(b, "shape-activities/s", fmt.Sprintf("engine: the same in %d workflows of as many activities as a proxy", proxies), shape, "/s", info)
	summary.add(b, "proxies/s", fmt.Sprintf("%d proxies at once, start to Healthy=True", proxies), perSecond(proxies*bursts, sum.took), "/s", info)
	summary.add(b, "activities/proxy", "activities of a proxy", activities, "", info)
	summary.add(b, "tasks/proxy", "workflow tasks of a proxy", float64(sum.tasks)/proxies/bursts, "", info)
	summary.add(b, "upserts/proxy", "changes of search attributes of a proxy", float64(sum.upserts)/proxies/bursts, "", info)
	summary.add(b, "events/proxy", "history events of a proxy", float64(sum.events)/proxies/bursts, "", info)
	summary.add(b, "floor-share-%", "proxies/s x activities over the engine's own", 100*share, "%", atLeast(70))
	summary.add(b, "floor-cpu-ms/activity", "CPU time of an activity that does nothing, engine and worker", mean(floorCosts), "ms", info)
	summary.add(b, "engine-cpu-ms/proxy", "CPU time of a proxy, engine", engine, "ms", info)
	summary.add(b, "worker-cpu-ms/proxy", "CPU time of a proxy, worker", worker, "ms", info)
	summary.add(b, "floor-cpu-share-%", "share of the CPU time that as many activities that do nothing take", 100*activities*mean(floorCosts)/(engine+worker), "%", info)
}

func mean(all []float64) float64 {
	sum := 0.0
	for _, x := range all {
		sum += x
	}
	return sum / float64(len(all))
}

// burst is what histories say of proxies that were started together: from the
// first start until the last one is healthy.
type burst struct {
	took                               time.Duration
	activities, tasks, upserts, events int
	engine, worker                     float64 // CPU time of a proxy in milliseconds
}

func (x *burst) add(y burst) {
	x.took += y.took
	x.activities += y.activities
	x.tasks += y.tasks
	x.upserts += y.upserts
	x.events += y.events
	x.engine += y.engine
	x.worker += y.worker
}

func (w *world) measure(names []string) burst {
	w.b.Helper()
	var out burst
	var first, last time.Time
	for _, n := range names {
		h, err := w.history(workflows.ProxyID(namespace, n))
		if err != nil {
			w.b.Fatal(err)
		}
		out.events += len(h)
		if at := h[0].GetEventTime().AsTime(); first.IsZero() || at.Before(first) {
			first = at
		}
		for _, e := range h {
			switch e.GetEventType() {
			case enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
				out.activities++
			case enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
				out.tasks++
			case enumspb.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES:
				out.upserts++
			}
			if at := e.GetEventTime().AsTime(); becameHealthy(e) && at.After(last) {
				last = at
			}
		}
	}
	out.took = last.Sub(first)
	return out
}
