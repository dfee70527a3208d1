package proxy

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// Bounds of the steps. An attempt is cut off after attemptLimit; after
// statusLimit of failed attempts the proxy says so and goes on trying.
const (
	heartbeatLimit = 5 * time.Second
	attemptLimit   = 3 * time.Minute
	statusLimit    = 2 * time.Minute
	retryPause     = 10 * time.Second
	permanentPause = 5 * time.Minute
	deleteLimit    = 15 * time.Minute
	flushLimit     = 10 * time.Second
	// overtime is granted when a deadline passed and nobody looked.
	overtime = time.Minute
	minPoll  = 50 * time.Millisecond
)

var acts *activities.Proxies

func (p *proxy) do(s step) {
	switch s.kind {
	case stepResolve, stepCreate, stepBoot, stepProve, stepDelete:
		p.RetryAt = time.Time{} // it is past
	case stepBegin:
		p.CreateAt = time.Time{}
	}
	switch s.kind {
	case stepVerify:
		p.verify()
	case stepResolve:
		p.resolve()
	case stepRetire:
		p.retire(p.now(), s.next)
	case stepBegin:
		p.begin(s.next)
	case stepCreate:
		p.create(s.next)
	case stepBoot:
		p.boot(s.next)
	case stepProve:
		p.prove(s.next)
	case stepPromote:
		p.promote(p.now())
	case stepDelete:
		p.deleteOne()
	}
}

func (p *proxy) resolve() {
	generation, nudges := p.Generation, p.nudges
	ctx := workflow.WithLocalActivityOptions(p.ctx, workflow.LocalActivityOptions{
		ScheduleToCloseTimeout: 10 * time.Second,
		RetryPolicy:            &temporal.RetryPolicy{InitialInterval: 100 * time.Millisecond, MaximumAttempts: 3},
		Summary:                "read secrets and profile",
	})
	var r activities.ResolveSpecResult
	err := workflow.ExecuteLocalActivity(ctx, "ResolveSpec",
		activities.ResolveSpecInput{Namespace: p.namespace, Name: p.name, Spec: p.Spec}).Get(ctx, &r)
	now := p.now()
	if err != nil {
		if p.nudges != nudges {
			return // it failed before the change it is waiting for
		}
		f := failureOf(err)
		if f.class == provider.Transient {
			p.RetryAt = now.Add(retryPause)
		} else {
			p.Latched = true
		}
		p.unprovisioned(now, false, f)
		return
	}
	p.SpecHash, p.ReadyPoll, p.GonePoll, p.Settle, p.Surge = r.SpecHash, r.ReadyPoll, r.GonePoll, r.Settle, r.Surge
	p.ObservedGeneration = generation
	if c := p.Current; c != nil && c.SpecHash != p.SpecHash {
		p.wantReplace(api.ReasonSpecChanged, fmt.Sprintf("generation %d", generation))
	} else if c != nil && p.ReplaceReason == api.ReasonSpecChanged {
		// The spec went back to what runs before anything was done.
		p.ReplaceReason, p.ReplaceMessage = "", ""
	}
	if c := p.Current; c != nil && c.Proven && c.SpecHash == p.SpecHash {
		p.setCondition(now, api.CondProvisioned, api.True, api.ReasonRunning, "")
	}
}

// interrupted: what the running step works for is no longer wanted, or, for a
// successor, the serving instance needs a look first.
func (p *proxy) interrupted() bool {
	return p.DeleteReason != "" || p.Generation != p.ObservedGeneration || p.Next != nil && len(p.Observations) > 0
}

func (p *proxy) deleting() bool { return p.DeleteReason != "" }

// call runs one activity on the provider's task queue and gives it up when
// interrupted. It then waits for the activity's end, so that no call of ours is
// still on its way when the next step begins.
func (p *proxy) call(activity, in, out any, o workflow.ActivityOptions, interrupted func() bool) error {
	o.TaskQueue = workflows.ProviderTaskQueue(p.Spec.Provider)
	o.HeartbeatTimeout = heartbeatLimit
	if o.StartToCloseTimeout == 0 {
		o.StartToCloseTimeout = attemptLimit
	}
	o.WaitForCancellation = true
	ctx, cancel := workflow.WithCancel(workflow.WithActivityOptions(p.ctx, o))
	defer cancel()
	f := workflow.ExecuteActivity(ctx, activity, in)
	if interrupted != nil {
		_ = workflow.Await(p.ctx, func() bool { return f.IsReady() || interrupted() })
		if !f.IsReady() {
			cancel()
		}
	}
	return f.Get(p.ctx, out)
}

func (p *proxy) ref(i *api.CarriedInstance) activities.InstanceRef {
	return activities.InstanceRef{Provider: p.Spec.Provider, ID: i.ID, Name: i.Name, UID: p.uid, Namespace: p.namespace, Proxy: p.name}
}

func (p *proxy) create(next bool) {
	i := p.target(next)
	if !i.Tried { // later tries keep saying why the last one failed
		p.unready(next, api.ReasonCreating, i.Name)
	}
	i.Tried = true
	nudges := p.nudges
	var r activities.CreateInstanceResult
	err := p.call(acts.CreateInstance, activities.CreateInstanceInput{Ref: p.ref(i), Spec: p.Spec, SpecHash: i.SpecHash}, &r,
		workflow.ActivityOptions{
			ScheduleToCloseTimeout: statusLimit,
			RetryPolicy:            &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 30 * time.Second},
			Summary:                fmt.Sprintf("create %s on %s", i.Name, p.Spec.Provider),
		}, p.interrupted)
	now := p.now()
	if err == nil {
		i.ID, i.NeverHealthyAt = r.ID, now.Add(p.Spec.NeverHealthyAfter.Std())
		p.Conflicts = 0
		p.unready(next, api.ReasonBooting, string(i.ID))
		return
	}
	if temporal.IsCanceledError(err) || p.nudges != nudges {
		return
	}
	f := failureOf(err)
	switch f.class {
	case provider.Conflict:
		// The name may be taken by an instance of our own from before a reset.
		// It is given up, which deletes it only if it is ours, and the next name
		// is tried; a second conflict is for a person.
		p.Conflicts++
		p.abandon(next)
		if p.Conflicts > 1 {
			p.Latched = true
		}
	case provider.Permanent:
		p.Latched = true
	case provider.QuotaExceeded, provider.CapacityUnavailable:
		p.RetryAt = now.Add(max(f.retryAfter, provider.RuleFor(f.class).Delay))
	default:
		p.RetryAt = now.Add(max(f.retryAfter, retryPause))
	}
	p.unprovisioned(now, next, f)
}

// abandon gives up a target whose create cannot succeed; what replaces it has
// another name.
func (p *proxy) abandon(next bool) {
	if next {
		p.retire(p.now(), true)
		return
	}
	p.Retiring = append(p.Retiring, *p.Current)
	p.Current = nil
}

func (p *proxy) boot(next bool) {
	i, nudges := p.target(next), p.nudges
	var r activities.WaitRunningResult
	poll := max(p.ReadyPoll.Std(), minPoll)
	err := p.call(acts.WaitRunning, activities.WaitRunningInput{Ref: p.ref(i), Poll: api.Duration(poll)}, &r,
		p.until(i, poll, fmt.Sprintf("wait until %s runs", i.Name)), p.interrupted)
	if err == nil {
		i.IP, i.Price = r.IP, r.Price
		p.unready(next, api.ReasonProving, i.IP)
		return
	}
	p.notReady(next, nudges, err)
}

func (p *proxy) prove(next bool) {
	i, nudges := p.target(next), p.nudges
	poll := max(p.ReadyPoll.Std(), minPoll)
	var r activities.ProbeResult
	err := p.call(acts.Prove, p.probe(i, poll), &r,
		p.until(i, poll, "CONNECT through "+endpoint(i.IP, i.Port)), p.interrupted)
	if err != nil {
		p.notReady(next, nudges, err)
		return
	}
	now := p.now()
	first := i.ProvenAt.IsZero()
	i.Proven, i.ProvenAt = true, now
	if next {
		return // it is promoted next
	}
	if first {
		p.serve()
	}
	p.ready(now)
}

func (p *proxy) probe(i *api.CarriedInstance, poll time.Duration) activities.ProbeInput {
	in := activities.ProbeInput{Provider: p.Spec.Provider, IP: i.IP, Port: i.Port, Poll: api.Duration(poll)}
	if p.Spec.Auth != nil {
		in.AuthRef = p.Spec.Auth.SecretRef
	}
	return in
}

// until makes the options of a poll that ends at the instance's deadline.
func (p *proxy) until(i *api.CarriedInstance, poll time.Duration, summary string) workflow.ActivityOptions {
	if i.NeverHealthyAt.IsZero() {
		i.NeverHealthyAt = p.now().Add(p.Spec.NeverHealthyAfter.Std())
	}
	return workflow.ActivityOptions{
		ScheduleToCloseTimeout: max(i.NeverHealthyAt.Sub(p.now()), time.Second),
		StartToCloseTimeout:    time.Minute,
		RetryPolicy:            &temporal.RetryPolicy{InitialInterval: poll, BackoffCoefficient: 1},
		Summary:                summary,
	}
}

// notReady decides what the end of a poll says about the instance.
func (p *proxy) notReady(next bool, nudges int, err error) {
	if temporal.IsCanceledError(err) || p.nudges != nudges {
		return // nobody waits for this outcome any more; the step begins anew
	}
	now := p.now()
	i := p.target(next)
	f := failureOf(err)
	switch {
	case f.kind == string(provider.NotFound):
		p.fail(now, next, api.ReasonInstanceGone, f.message)
	case f.kind == activities.ErrStopped:
		p.fail(now, next, api.ReasonInstanceStopped, f.message)
	case f.kind == activities.ErrNotProven && f.probe.Class == probeTargetDown:
		// The proxy answers and what it was asked for does not: no fault of its own.
		i.NeverHealthyAt = now.Add(overtime)
		p.unhealthy(now, next, api.Unknown, f.probe.Class, f.message)
	case f.kind == activities.ErrNotProven && f.probe.Class == probeAuth:
		// A new instance would ask for the same credentials.
		i.NeverHealthyAt = now.Add(p.Spec.NeverHealthyAfter.Std())
		p.Latched = true
		p.unhealthy(now, next, api.False, f.probe.Class, f.message)
	case f.kind == activities.ErrNotProven || f.kind == activities.ErrNotReady:
		p.fail(now, next, api.ReasonNeverHealthy, f.message)
		p.unhealthy(now, next, api.False, api.ReasonNeverHealthy, f.message)
	case f.class == provider.Permanent:
		p.Latched = true
		p.unprovisioned(now, next, f)
	default:
		// Nobody could look, so nothing is known: the instance gets more time.
		if !i.NeverHealthyAt.After(now.Add(retryPause)) {
			i.NeverHealthyAt = now.Add(overtime)
		}
		p.RetryAt = now.Add(max(f.retryAfter, retryPause))
		p.unprovisioned(now, next, f)
	}
}

func (p *proxy) deleteOne() {
	// Nobody may be sent to a proxy that is about to go.
	p.flush(flushLimit)
	i, nudges := p.Retiring[0], p.nudges
	var r activities.DeleteInstanceResult
	err := p.call(acts.DeleteInstance, activities.DeleteInstanceInput{Ref: p.ref(&i), GonePoll: api.Duration(max(p.GonePoll.Std(), minPoll))}, &r,
		workflow.ActivityOptions{
			ScheduleToCloseTimeout: deleteLimit,
			RetryPolicy:            &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 1.5, MaximumInterval: 30 * time.Second},
			Summary:                "delete " + i.Name,
		}, nil)
	now := p.now()
	if err != nil && p.nudges != nudges {
		return
	}
	if err != nil {
		f := failureOf(err)
		wait := retryPause
		if f.class == provider.Permanent || f.class == provider.Conflict || f.class == provider.QuotaExceeded {
			wait = permanentPause
		}
		p.RetryAt = now.Add(max(f.retryAfter, wait))
		p.setCondition(now, api.CondProvisioned, api.False, f.reason, "delete of "+i.Name+": "+f.message)
		return
	}
	if r.ID == "" && i.ID == "" && i.MissedAt.IsZero() && p.Settle > 0 {
		p.Retiring[0].MissedAt = now
		return
	}
	p.Retiring = p.Retiring[1:]
	if r.ID != "" && p.DeleteReason != "" {
		p.Deleted = append(p.Deleted, r.ID)
	}
}
