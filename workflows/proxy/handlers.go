package proxy

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
	"github.com/tollgate-dev/tollgate/workflows/spans"
)

// Types of the errors with which updates end.
const (
	errDeleting = "Deleting"
	errLatched  = "Latched"
)

// maxObservations bounds what an unhelpful sender can pile up; the fleet watch
// repeats what still holds.
const maxObservations = 100

func (p *proxy) handlers(ctx workflow.Context) error {
	if err := workflow.SetQueryHandlerWithOptions(ctx, workflows.QueryStatus, func() (api.Proxy, error) { return p.view(), nil },
		workflow.QueryHandlerOptions{Description: "The proxy as a document: metadata, spec and status"}); err != nil {
		return err
	}
	opts := func(desc string, validate any) workflow.UpdateHandlerOptions {
		return workflow.UpdateHandlerOptions{Description: desc, Validator: validate}
	}
	if err := workflow.SetUpdateHandlerWithOptions(ctx, workflows.UpdateSetSpec, p.setSpec,
		opts("Replaces the spec; answers with its generation", p.validateSetSpec)); err != nil {
		return err
	}
	if err := workflow.SetUpdateHandlerWithOptions(ctx, workflows.UpdateReplace, p.replace,
		opts("Replaces the instance; answers when the new one is proven", func(api.ReplaceInput) error { return p.alive() })); err != nil {
		return err
	}
	if err := workflow.SetUpdateHandlerWithOptions(ctx, workflows.UpdateDelete, p.delete,
		opts("Deletes the proxy; answers when nothing is left", func(api.DeleteInput) error { return nil })); err != nil {
		return err
	}
	workflow.Go(p.ctx, p.listen)
	workflow.Go(ctx, func(ctx workflow.Context) {
		ctx.Done().Receive(ctx, nil)
		p.canceled = true
		p.wantDelete("Canceled")
	})
	return nil
}

// alive is false once the proxy is on its way out.
func (p *proxy) alive() error {
	if p.DeleteReason != "" {
		return fmt.Errorf("proxy %s/%s is being deleted (%s)", p.namespace, p.name, p.DeleteReason)
	}
	return nil
}

func (p *proxy) validateSetSpec(in api.SetSpecInput) error {
	if err := p.alive(); err != nil {
		return err
	}
	spec := in.Spec.KeepInline(p.Spec).WithDefaults()
	if c := spec.CloudInit; c != nil && c.Inline == api.RedactedInline {
		return fmt.Errorf("spec.cloudInit.inline: %q stands for a value that this proxy does not have: give the value, or a secretRef", api.RedactedInline)
	}
	return errors.Join(spec.Validate(), spec.ValidateChange(p.Spec), api.ValidateLabels("labels", in.Labels))
}

func (p *proxy) setSpec(ctx workflow.Context, in api.SetSpecInput) (r api.SetSpecResult, err error) {
	a := p.answered(ctx)
	if a.SetSpec != nil {
		return *a.SetSpec, nil
	}
	defer func() { a.SetSpec = &r; p.keep(a) }()
	spec := in.Spec.KeepInline(p.Spec).WithDefaults()
	relabelled := in.Labels != nil && !maps.Equal(in.Labels, p.Labels)
	if relabelled {
		p.Labels = normal(in.Labels)
	}
	if spec.Equal(p.Spec) {
		return api.SetSpecResult{Generation: p.Generation, Unchanged: !relabelled}, nil
	}
	p.ctx = spans.Adopt(p.base, ctx)
	p.Spec = spec
	p.Generation++
	p.unlatch()
	return api.SetSpecResult{Generation: p.Generation}, nil
}

// replace serves all callers that meet with one replacement: whoever comes while
// a new instance is on its way gets that one.
func (p *proxy) replace(ctx workflow.Context, in api.ReplaceInput) (r api.ReplaceResult, err error) {
	a := p.answered(ctx)
	if a.Replace != nil {
		return *a.Replace, nil
	}
	defer func() {
		if err == nil {
			a.Replace = &r
			p.keep(a)
		}
	}()
	p.ctx = spans.Adopt(p.base, ctx)
	joined := p.requestReplace(in.Reason)
	proofs := p.Proofs
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	if err = workflow.Await(ctx, func() bool { return p.Proofs > proofs || p.DeleteReason != "" || p.Latched }); err != nil {
		return api.ReplaceResult{}, err
	}
	switch {
	case p.Proofs > proofs && p.Current != nil:
		return api.ReplaceResult{InstanceID: p.Current.ID, IP: p.Current.IP, Port: p.Current.Port, Joined: joined}, nil
	case p.DeleteReason != "":
		return api.ReplaceResult{}, temporal.NewNonRetryableApplicationError(p.alive().Error(), errDeleting, nil)
	}
	c := p.condition(api.CondProvisioned)
	if h := p.condition(api.CondHealthy); c.Status == api.True && h.Status != api.True {
		c = h
	}
	return api.ReplaceResult{}, temporal.NewNonRetryableApplicationError(
		fmt.Sprintf("the replacement cannot go on until something is changed: %s: %s", c.Reason, c.Message), errLatched, nil)
}

// maxAnswers bounds how many answers are kept.
const maxAnswers = 32

// answered begins an update: it returns what an update of this id was answered
// before. A caller whose connection broke around a continue-as-new sends its
// update again, to a run that has not seen it.
func (p *proxy) answered(ctx workflow.Context) api.CarriedAnswer {
	p.updateAt = workflow.GetInfo(ctx).GetCurrentHistoryLength()
	id := workflow.GetCurrentUpdateInfo(ctx).ID
	for _, a := range p.Answers {
		if a.ID == id {
			return a
		}
	}
	return api.CarriedAnswer{ID: id}
}

func (p *proxy) keep(a api.CarriedAnswer) {
	p.Answers = append(p.Answers, a)
	if n := len(p.Answers) - maxAnswers; n > 0 {
		p.Answers = append([]api.CarriedAnswer(nil), p.Answers[n:]...)
	}
}

// requestReplace asks for a replacement, or joins the one under way.
func (p *proxy) requestReplace(message string) (joined bool) {
	p.unlatch()
	if p.Current == nil || !p.Current.Proven || p.ReplaceReason != "" {
		return true
	}
	p.wantReplace(api.ReasonRequested, message)
	return false
}

func (p *proxy) delete(ctx workflow.Context, in api.DeleteInput) (api.DeleteResult, error) {
	p.answered(ctx)
	reason := api.ReasonRequested
	if in.Reason != "" {
		reason += ": " + in.Reason
	}
	p.ctx = spans.Adopt(p.base, ctx)
	p.wantDelete(reason)
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	if err := workflow.Await(ctx, func() bool { return p.finished }); err != nil {
		return api.DeleteResult{}, err
	}
	return api.DeleteResult{Deleted: p.Deleted}, nil
}

func (p *proxy) wantDelete(reason string) {
	if p.DeleteReason != "" {
		return
	}
	p.DeleteReason = reason
	p.unlatch()
	p.Observations = nil
}

// unlatch lets the proxy try again at once.
func (p *proxy) unlatch() {
	if i := p.Current; p.Latched && i != nil && !i.Proven {
		i.NeverHealthyAt = time.Time{} // the time it was latched does not count
	}
	p.nudges++
	p.Latched = false
	p.RetryAt = time.Time{}
	p.CreateAt = time.Time{}
	p.Conflicts = 0
}

// listen receives the signals of callers who need no answer.
func (p *proxy) listen(ctx workflow.Context) {
	s := workflow.NewSelector(ctx)
	for _, r := range p.receivers(ctx) {
		s.AddReceive(r.ch, func(c workflow.ReceiveChannel, _ bool) { r.take(c) })
	}
	for {
		s.Select(ctx)
	}
}

// drainSignals takes what has arrived and was not yet received, so that a
// continue-as-new loses nothing.
func (p *proxy) drainSignals(ctx workflow.Context) {
	for _, r := range p.receivers(ctx) {
		for r.take(r.ch) {
		}
	}
}

type receiver struct {
	ch   workflow.ReceiveChannel
	take func(workflow.ReceiveChannel) bool
}

func (p *proxy) receivers(ctx workflow.Context) []receiver {
	// Payloads of the plain signals are free text or absent; a payload that
	// cannot be read must not be lost silently, nor stop the workflow.
	text := func(c workflow.ReceiveChannel, act func(string)) bool {
		var raw any
		if !c.ReceiveAsync(&raw) {
			return false
		}
		act(reasonIn(raw))
		return true
	}
	return []receiver{
		{workflow.GetSignalChannel(ctx, workflows.SignalReplace), func(c workflow.ReceiveChannel) bool {
			return text(c, func(m string) {
				if p.alive() == nil {
					p.requestReplace(m)
				}
			})
		}},
		{workflow.GetSignalChannel(ctx, workflows.SignalDelete), func(c workflow.ReceiveChannel) bool {
			return text(c, func(m string) {
				reason := api.ReasonRequested
				if m != "" {
					reason += ": " + m
				}
				p.wantDelete(reason)
			})
		}},
		{workflow.GetSignalChannel(ctx, workflows.SignalRetry), func(c workflow.ReceiveChannel) bool {
			return text(c, func(string) { p.unlatch() })
		}},
		{workflow.GetSignalChannel(ctx, workflows.SignalObserved), func(c workflow.ReceiveChannel) bool {
			var o api.Observation
			if !c.ReceiveAsync(&o) {
				return false
			}
			p.observe(o)
			return true
		}},
	}
}

// reasonIn finds the free text in a plain signal's payload: a string, or an
// object with a reason.
func reasonIn(raw any) string {
	switch v := raw.(type) {
	case string:
		return v
	case map[string]any:
		if s, ok := v["reason"].(string); ok {
			return s
		}
	}
	return ""
}

// observe queues what a fleet watch saw, if it is about an instance of ours.
func (p *proxy) observe(o api.Observation) {
	if p.DeleteReason != "" || len(p.Observations) >= maxObservations {
		return
	}
	switch o.Kind {
	case api.ObservedReportWanted:
		p.forceReport = true
		return
	case api.ObservedExtra:
		if o.InstanceName == "" || o.InstanceID == "" || p.owns(o.InstanceName) {
			return
		}
	default:
		if p.Current == nil || p.Current.ID != o.InstanceID || !p.Current.Proven {
			return
		}
	}
	for _, have := range p.Observations {
		if have.Kind == o.Kind && have.InstanceID == o.InstanceID {
			return
		}
	}
	p.Observations = append(p.Observations, o)
}
