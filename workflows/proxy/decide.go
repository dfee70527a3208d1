package proxy

import (
	"fmt"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

type stepKind string

const (
	stepVerify  stepKind = "verify"  // look at what the fleet watch saw
	stepResolve stepKind = "resolve" // read the spec's secrets and the provider's profile
	stepRetire  stepKind = "retire"  // give up instances: they are deleted next
	stepBegin   stepKind = "begin"   // fix the name of a new instance
	stepCreate  stepKind = "create"
	stepBoot    stepKind = "boot"    // wait until the instance runs
	stepProve   stepKind = "prove"   // CONNECT through it
	stepPromote stepKind = "promote" // the successor takes over
	stepDelete  stepKind = "delete"
	stepWait    stepKind = "wait"  // until a time
	stepSleep   stepKind = "sleep" // until somebody wants or sees something
	stepFinish  stepKind = "finish"
)

type step struct {
	kind stepKind
	// next: the step is about the successor, not the current instance.
	next  bool
	until time.Time // of stepWait
}

// Lives shorter than this count as failures; so many in a row are free before
// there is a pause between them, which then doubles up to a limit.
const (
	shortLife    = 2 * time.Minute
	freeFailures = 2
	firstPause   = 10 * time.Second
	longestPause = 10 * time.Minute
)

// decide names the next step. It is a pure function of the state and the time.
func (p *proxy) decide(now time.Time) step {
	if p.DeleteReason != "" {
		switch {
		case p.Current != nil || p.Next != nil:
			return step{kind: stepRetire}
		case len(p.Retiring) == 0:
			return step{kind: stepFinish}
		case now.Before(p.RetryAt):
			return step{kind: stepWait, until: p.RetryAt}
		}
		return p.deleteStep(now)
	}
	if len(p.Observations) > 0 {
		return step{kind: stepVerify}
	}
	if p.Generation != p.ObservedGeneration && !p.Latched && !now.Before(p.RetryAt) {
		return step{kind: stepResolve}
	}
	surging := p.surging()
	if p.Current != nil && p.ReplaceReason != "" && !surging {
		return step{kind: stepRetire}
	}
	if p.Next != nil && (!surging || p.Next.SpecHash != p.SpecHash) {
		return step{kind: stepRetire, next: true}
	}
	if now.Before(p.RetryAt) {
		return step{kind: stepWait, until: p.RetryAt}
	}
	if len(p.Retiring) > 0 {
		return p.deleteStep(now)
	}
	if p.Latched {
		return step{kind: stepSleep}
	}
	target := p.Current
	if surging {
		target = p.Next
	}
	switch {
	case target == nil && now.Before(p.CreateAt):
		return step{kind: stepWait, until: p.CreateAt}
	case target == nil:
		return step{kind: stepBegin, next: surging}
	case target.ID == "":
		return step{kind: stepCreate, next: surging}
	case target.IP == "":
		return step{kind: stepBoot, next: surging}
	case !target.Proven:
		return step{kind: stepProve, next: surging}
	case surging:
		return step{kind: stepPromote}
	}
	return step{kind: stepSleep}
}

// deleteStep deletes, but lets a create of unknown outcome settle before the
// second and last look for what it may have made.
func (p *proxy) deleteStep(now time.Time) step {
	if missed := p.Retiring[0].MissedAt; !missed.IsZero() {
		if settled := missed.Add(p.Settle.Std()); now.Before(settled) {
			return step{kind: stepWait, until: settled}
		}
	}
	return step{kind: stepDelete}
}

// surging: the successor comes before the current instance goes. An instance
// that no longer works is not worth waiting for.
func (p *proxy) surging() bool {
	if p.Current == nil || !p.Current.Proven || p.Spec.Replacement != api.CreateBeforeDelete || !p.Surge {
		return false
	}
	return p.ReplaceReason == api.ReasonSpecChanged || p.ReplaceReason == api.ReasonRequested
}

// wantReplace notes why the current instance has to go. The first reason stays,
// unless the instance turns out to be dead.
func (p *proxy) wantReplace(reason, message string) {
	dead := reason != api.ReasonSpecChanged && reason != api.ReasonRequested
	if p.Current == nil || p.ReplaceReason != "" && !dead {
		return
	}
	p.ReplaceReason, p.ReplaceMessage = reason, message
}

// fail notes that an instance died by itself or never came to serve, and how
// long to pause before the next one.
func (p *proxy) fail(now time.Time, next bool, reason, message string) {
	i := p.target(next)
	if i == nil {
		return
	}
	if i.Proven && now.Sub(i.ProvenAt) >= shortLife {
		p.Failures = 0
	}
	p.Failures++
	p.CreateAt = now.Add(pause(p.Failures))
	if next {
		p.retire(now, true)
		return
	}
	p.wantReplace(reason, message)
}

func (p *proxy) target(next bool) *api.CarriedInstance {
	if next {
		return p.Next
	}
	return p.Current
}

func pause(failures int) time.Duration {
	if failures <= freeFailures {
		return 0
	}
	d := firstPause
	for range failures - freeFailures - 1 {
		if d *= 2; d >= longestPause {
			return longestPause
		}
	}
	return d
}

// retire gives up instances. One that was never asked for needs no delete.
func (p *proxy) retire(now time.Time, nextOnly bool) {
	give := func(i *api.CarriedInstance) {
		if i != nil && (i.Tried || i.ID != "") {
			p.Retiring = append(p.Retiring, *i)
		}
	}
	next := p.Next
	p.Next = nil
	if nextOnly {
		give(next)
		return
	}
	if p.Current != nil && p.DeleteReason == "" {
		p.LastReplacement = p.ReplaceReason
		if p.ReplaceMessage != "" {
			p.LastReplacement += ": " + p.ReplaceMessage
		}
	}
	give(p.Current)
	p.Current = nil
	reason, message := api.ReasonReplacing, p.LastReplacement
	if p.DeleteReason == "" {
		p.Current = next // if there is one, it is further than a new one
	} else {
		give(next)
		reason, message = api.ReasonDeleting, p.DeleteReason
	}
	p.setCondition(now, api.CondProvisioned, api.False, reason, message)
	p.setCondition(now, api.CondHealthy, api.Unknown, reason, "")
	p.ReplaceReason, p.ReplaceMessage = "", ""
}

// promote lets the proven successor take over.
func (p *proxy) promote(now time.Time) {
	next := p.Next
	p.Next = nil
	p.retire(now, false)
	p.Current = next
	p.serve()
	p.ready(now)
}

// serve counts an instance that came to serve.
func (p *proxy) serve() {
	p.Proofs++
	if p.Proofs > 1 {
		p.Replacements++
	}
}

// begin fixes the name of a new instance before anything is asked for.
func (p *proxy) begin(next bool) {
	i := &api.CarriedInstance{
		Name:        provider.InstanceName(p.uid, p.NextIncarnation),
		Incarnation: p.NextIncarnation, SpecHash: p.SpecHash, Port: p.Spec.Port,
	}
	p.NextIncarnation++
	if next {
		p.Next = i
	} else {
		p.Current = i
	}
}

// owns reports whether an instance name is one the proxy answers for.
func (p *proxy) owns(name string) bool {
	for _, n := range p.ownNames() {
		if n == name {
			return true
		}
	}
	return false
}

func (p *proxy) ownNames() []string {
	var names []string
	for _, i := range []*api.CarriedInstance{p.Current, p.Next} {
		if i != nil {
			names = append(names, i.Name)
		}
	}
	for _, i := range p.Retiring {
		names = append(names, i.Name)
	}
	return names
}

func validateIdentity(ns, name string, in api.ProxyInput) error {
	if err := provider.ValidateName("namespace (in the workflow id)", ns); err != nil {
		return err
	}
	if err := provider.ValidateName("name (in the workflow id)", name); err != nil {
		return err
	}
	if in.Carried != nil {
		return nil
	}
	if in.ContinueAfter < 0 {
		return fmt.Errorf("continueAfter: %d: use 0 or a number of history events", in.ContinueAfter)
	}
	if err := in.Spec.Validate(); err != nil {
		return err
	}
	return api.ValidateLabels("labels", in.Labels)
}
