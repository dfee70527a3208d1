package app

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/tollgate-dev/tollgate/internal/config"
	"github.com/tollgate-dev/tollgate/workflows"
)

// StickyCacheSize is how many workflows a worker process keeps in memory. A
// proxy that sleeps needs no place in it: what falls out is replayed when it
// wakes up.
const StickyCacheSize = 4096

const (
	// stickyTimeout is how long a workflow task waits for the worker that had the
	// workflow last, before any other may take it: after a crash, nothing else
	// holds the workflow up.
	stickyTimeout = 3 * time.Second
	// Heartbeats carry the progress of a delete and notice a cancellation; the
	// SDK's default throttle of up to a minute would hold both up.
	heartbeatThrottle    = time.Second
	maxHeartbeatThrottle = 2 * time.Second

	workflowPollers = 8
	activityPollers = 8
	providerPollers = 4
	sourcePollers   = 2
	// providerActivities bounds the calls of one account that are under way.
	providerActivities = 200
)

var stickyOnce sync.Once

// pool has a worker for workflows and for what calls no provider, and one for
// each provider's task queue.
type pool struct {
	client   client.Client
	log      *slog.Logger
	main     func(worker.Worker) // registers what runs on workflows.TaskQueue
	provider func(worker.Worker) // registers what runs on a provider's queue
	source   func(worker.Worker) // registers what runs on a source's queue

	mu       sync.Mutex
	fatal    func(error)
	running  worker.Worker
	byName   map[string]*providerWorker
	bySource map[string]worker.Worker
	stopped  bool
	leaving  sync.WaitGroup
}

type providerWorker struct {
	worker worker.Worker
	rate   float64
}

func options(fatal func(error)) worker.Options {
	return worker.Options{
		Identity:                         identity(),
		WorkerStopTimeout:                WorkerStopTimeout,
		StickyScheduleToStartTimeout:     stickyTimeout,
		DefaultHeartbeatThrottleInterval: heartbeatThrottle,
		MaxHeartbeatThrottleInterval:     maxHeartbeatThrottle,
		MaxConcurrentWorkflowTaskPollers: workflowPollers,
		MaxConcurrentActivityTaskPollers: activityPollers,
		OnFatalError:                     fatal,
	}
}

// start starts the worker that serves no provider; serve the others. fatal hears
// of a worker that cannot go on.
func (p *pool) start(fatal func(error)) error {
	stickyOnce.Do(func() { worker.SetStickyWorkflowCacheSize(StickyCacheSize) })
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fatal = fatal
	w := worker.New(p.client, workflows.TaskQueue, options(fatal))
	p.main(w)
	if err := w.Start(); err != nil {
		return fmt.Errorf("worker of task queue %q: %w", workflows.TaskQueue, err)
	}
	p.running = w
	return nil
}

// serve starts and stops workers until exactly these providers are served. It
// goes on after a failure; call it again to try the rest again.
func (p *pool) serve(providers []config.Provider) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return nil
	}
	var errs []error
	wanted := map[string]bool{}
	for _, c := range providers {
		wanted[c.Name] = true
		old := p.byName[c.Name]
		if old != nil && old.rate == c.Budget.RequestsPerSecond {
			continue
		}
		queue := workflows.ProviderTaskQueue(c.Name)
		o := options(p.fatal)
		o.DisableWorkflowWorker = true
		o.MaxConcurrentActivityTaskPollers = providerPollers
		o.MaxConcurrentActivityExecutionSize = providerActivities
		// Enforced by the server over all workers of the queue.
		o.TaskQueueActivitiesPerSecond = c.Budget.RequestsPerSecond
		w := worker.New(p.client, queue, o)
		p.provider(w)
		if err := w.Start(); err != nil {
			errs = append(errs, fmt.Errorf("worker of task queue %q: %w", queue, err))
			continue
		}
		p.byName[c.Name] = &providerWorker{worker: w, rate: c.Budget.RequestsPerSecond}
		if old != nil {
			p.retire(old.worker)
		}
		p.log.Info("serving provider", "provider", c.Name, "activities_per_second", c.Budget.RequestsPerSecond)
	}
	for name, w := range p.byName {
		if !wanted[name] {
			delete(p.byName, name)
			p.retire(w.worker)
			p.log.Info("no longer serving provider", "provider", name)
		}
	}
	return errors.Join(errs...)
}

// retire stops a worker without waiting for its activities.
func (p *pool) retire(w worker.Worker) { p.leaving.Go(w.Stop) }

// stop stops all workers at once and waits until they have stopped.
func (p *pool) stop() {
	p.mu.Lock()
	p.stopped = true
	for _, w := range p.byName {
		p.retire(w.worker)
	}
	clear(p.byName)
	for _, w := range p.bySource {
		p.retire(w)
	}
	clear(p.bySource)
	if p.running != nil {
		p.retire(p.running)
	}
	p.mu.Unlock()
	p.leaving.Wait()
}
