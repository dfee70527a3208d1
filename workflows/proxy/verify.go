package proxy

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// Probe classes that say nothing against the instance itself. The strings are
// those of package probe, which workflow code must not import.
const (
	probeAuth       = "auth"
	probeTargetDown = "target_down"
)

// verify looks itself before it believes an observation. What cannot be
// verified is dropped: the fleet watch repeats what still holds.
func (p *proxy) verify() {
	o := p.Observations[0]
	p.Observations = p.Observations[1:]
	if o.Kind == api.ObservedExtra {
		if !p.owns(o.InstanceName) {
			p.log.Info("instance of this proxy that it does not use is deleted", "instance", string(o.InstanceID))
			p.Retiring = append(p.Retiring, api.CarriedInstance{Name: o.InstanceName, ID: o.InstanceID, Tried: true})
		}
		return
	}
	c := p.Current
	if c == nil || c.ID != o.InstanceID || p.ReplaceReason != "" {
		return
	}
	if o.Kind == api.ObservedHealthy {
		p.ready(p.now())
		return
	}
	once := workflow.ActivityOptions{
		ScheduleToCloseTimeout: time.Minute, StartToCloseTimeout: 30 * time.Second,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second},
		Summary:     fmt.Sprintf("seen %s: look at %s", o.Kind, c.Name),
	}
	var got activities.GetInstanceResult
	if err := p.call(acts.GetInstance, p.ref(c), &got, once, p.deleting); err != nil {
		return
	}
	now := p.now()
	switch {
	case !got.Exists:
		p.fail(now, false, api.ReasonInstanceGone, fmt.Sprintf("%s is gone at the provider", c.ID))
		return
	case got.State == provider.StateStopped || got.State == provider.StateTerminated:
		p.fail(now, false, api.ReasonInstanceStopped, fmt.Sprintf("%s is %s", c.ID, got.State))
		return
	case got.State == provider.StateRunning && got.IP != c.IP:
		c.IP, c.Proven = got.IP, false
		c.NeverHealthyAt = now.Add(p.Spec.NeverHealthyAfter.Std())
		p.setCondition(now, api.CondHealthy, api.Unknown, api.ReasonProving, "the address changed to "+got.IP)
		return
	case o.Kind != api.ObservedUnhealthy:
		return // a false alarm
	}
	once.Summary = fmt.Sprintf("seen %s (%s): probe %s", o.Kind, o.Reason, endpoint(c.IP, c.Port))
	var r activities.ProbeResult
	if err := p.call(acts.ProbeOnce, p.probe(c, 0), &r, once, p.deleting); err != nil {
		return
	}
	now = p.now()
	switch {
	case r.OK:
		p.ready(now)
		p.forceReport = true
	case r.Class == probeTargetDown:
	case r.Class == probeAuth:
		p.setCondition(now, api.CondHealthy, api.False, r.Class, r.Message)
	default:
		p.setCondition(now, api.CondHealthy, api.False, api.ReasonUnhealthy, r.Class+": "+r.Message)
		p.fail(now, false, api.ReasonUnhealthy, r.Class+": "+r.Message)
	}
}
