package kubernetes

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// opCheck names a health check in errors.
const opCheck provider.Op = "check"

const (
	// checkTarget is the one target: the namespace.
	checkTarget = "namespace"
	// checkName is the name of the objects whose creation is tried.
	checkName = "tollgate-check"
	// checkImageName is the image of a trial when none is configured.
	checkImageName = "image.invalid/proxy"
	checkPort      = 3128
)

// Check implements provider.Checker. It lists what List lists and, until that
// has gone well once, has the API server try all else that a proxy needs without
// doing it: a missing right, a namespace that does not exist and a policy that
// our Pods violate all show before the first proxy.
func (p *Provider) Check(ctx context.Context) []provider.TargetStatus {
	start := time.Now()
	st := provider.TargetStatus{Target: checkTarget, Reason: provider.ReasonReachable, Details: map[string]string{"namespace": p.opt.Namespace}}
	err := p.checkList(ctx)
	if err == nil {
		err = p.checkCreate(ctx, &st)
	}
	st.Latency = time.Since(start)
	if host := p.conn.hostName(); host != "" {
		st.Details["server"] = host
	}
	if st.Ready = err == nil; st.Ready {
		return []provider.TargetStatus{st}
	}
	_, answered := statusOf(err)
	err = p.classify(ctx, opCheck, checkTarget, err)
	st.Message = err.Error()
	switch {
	case provider.ReasonOf(err) != "":
		st.Reason = provider.ReasonOf(err)
	case provider.ClassOf(err) == provider.RateLimited:
		st.Reason = provider.ReasonThrottled
	case ctx.Err() != nil:
		st.Reason = provider.ReasonTimeout
	case answered:
		st.Reason = provider.ReasonAPIError
	default:
		st.Reason = provider.ReasonUnreachable
	}
	return []provider.TargetStatus{st}
}

func (p *Provider) checkList(ctx context.Context) error {
	_, err := p.do(ctx, call{verb: http.MethodGet, resource: pods, namespace: p.opt.Namespace, metadataOnly: true,
		params: map[string]string{"limit": "1", "labelSelector": selectorOf(provider.Selector{Installation: p.installation})}})
	return err
}

// checkRights tries what everything else needs, on a name that nothing of ours
// has: a proxy that cannot be deleted would be noticed by its bill.
func (p *Provider) checkRights(ctx context.Context) error {
	if p.permitted.Load() {
		return nil
	}
	for _, resource := range []string{pods, secrets, services} {
		one := call{verb: http.MethodGet, resource: resource, namespace: p.opt.Namespace, name: checkName, metadataOnly: true}
		all := call{verb: http.MethodGet, resource: resource, namespace: p.opt.Namespace, metadataOnly: true, params: map[string]string{"limit": "1"}}
		// Nothing has this uid, and nothing is done.
		drop := call{verb: http.MethodDelete, resource: resource, namespace: p.opt.Namespace, name: checkName, body: metav1.DeleteOptions{
			TypeMeta: typeMeta("DeleteOptions"), DryRun: []string{metav1.DryRunAll}, Preconditions: &metav1.Preconditions{UID: ptr(types.UID(checkName))}}}
		for _, c := range []call{one, all, drop} {
			if _, err := p.do(ctx, c); err != nil && !isNotFound(err) && !isReason(err, metav1.StatusReasonConflict) && !noDryRun(err) {
				return err
			}
		}
	}
	p.permitted.Store(true)
	return nil
}

// checkCreate tries what a create makes.
func (p *Provider) checkCreate(ctx context.Context, st *provider.TargetStatus) error {
	if p.admitted.Load() {
		return nil
	}
	pl, err := p.trial()
	if err != nil {
		return err
	}
	if err := p.checkRights(ctx); err != nil {
		return err
	}
	for _, t := range []struct {
		resource string
		body     any
	}{{pods, pl.pod}, {secrets, pl.secret}, {services, pl.service}} {
		if t.resource == secrets && pl.secret == nil || t.resource == services && pl.service == nil {
			continue
		}
		_, err := p.do(ctx, call{verb: http.MethodPost, resource: t.resource, namespace: p.opt.Namespace, body: t.body, metadataOnly: true,
			params: map[string]string{"dryRun": metav1.DryRunAll}})
		switch v := judge(opCheck, err); {
		case err == nil, isReason(err, metav1.StatusReasonAlreadyExists):
		case v.class == provider.QuotaExceeded, v.class == provider.CapacityUnavailable:
			// The account is usable, and that it is full is told by those who wait.
			st.Details["quota"] = strconv.Quote(stable(err).Error())
		case noDryRun(err):
			// A webhook that cannot be tried says nothing about a create.
		default:
			return err
		}
	}
	p.admitted.Store(st.Details["quota"] == "")
	return nil
}

func noDryRun(err error) bool {
	st, ok := statusOf(err)
	return ok && st.Code == http.StatusBadRequest && strings.Contains(st.Message, "does not support dry run")
}

// trial is a create as the configuration has it.
func (p *Provider) trial() (plan, error) {
	req := provider.CreateRequest{Name: checkName, Port: checkPort,
		Marks:     provider.Marks{Installation: p.installation},
		Placement: provider.Placement{Image: p.opt.Image}}
	if req.Placement.Image == "" {
		req.Placement.Image = checkImageName
	}
	if p.opt.UserData.Path != "" {
		req.CloudInit = provider.NewSensitive([]byte("#"))
	}
	if p.opt.Expose == ExposeNodePort {
		req.Port = 30000 + checkPort%2768
	}
	return p.planFor(req)
}
