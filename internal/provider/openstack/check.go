package openstack

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/tollgate-dev/tollgate/internal/openstack/cloud"
	"github.com/tollgate-dev/tollgate/internal/provider"
)

// opCheck names a health check in errors.
const opCheck provider.Op = "check"

// Check implements provider.Checker: for each configured region the compute and
// the network service, asked for what a create needs of them. A login that fails
// shows with both.
func (p *Provider) Check(ctx context.Context) []provider.TargetStatus {
	names := p.opt.Regions
	if len(names) == 0 {
		names = []string{""}
	}
	var out []provider.TargetStatus
	for _, name := range names {
		prefix := ""
		if len(names) > 1 {
			prefix = name + "/"
		}
		out = append(out, p.check(ctx, prefix+"compute", func(d map[string]string) error { return p.checkCompute(ctx, name, d) }),
			p.check(ctx, prefix+"network", func(d map[string]string) error { return p.checkNetwork(ctx, name, d) }))
	}
	return out
}

func (p *Provider) check(ctx context.Context, target string, do func(details map[string]string) error) provider.TargetStatus {
	start := time.Now()
	st := provider.TargetStatus{Target: target, Reason: provider.ReasonReachable, Details: map[string]string{}}
	err := ctx.Err()
	if err == nil {
		err = do(st.Details)
	}
	st.Latency = time.Since(start)
	if st.Ready = err == nil; st.Ready {
		return st
	}
	_, answered := cloud.AnswerOf(err)
	err = p.classify(ctx, opCheck, target, err)
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
	return st
}

// checkCompute reads the project's limits: an account that is used up is healthy
// and makes nothing.
func (p *Provider) checkCompute(ctx context.Context, name string, details map[string]string) error {
	r, err := p.at(ctx, name)
	if err != nil {
		return err
	}
	var doc struct {
		Limits *struct {
			Absolute map[string]int `json:"absolute"`
		} `json:"limits"`
	}
	if _, err := r.Compute.Get(ctx, r.Compute.ServiceURL("limits"), &doc, nil); err != nil {
		return err
	}
	if doc.Limits == nil {
		return cloud.ErrAnswer
	}
	details["region"], details["microversion"] = r.Name, r.Compute.Microversion
	for _, f := range []struct{ key, used, most string }{
		{"instances", "totalInstancesUsed", "maxTotalInstances"},
		{"cores", "totalCoresUsed", "maxTotalCores"},
		{"ram_mb", "totalRAMUsed", "maxTotalRAMSize"},
	} {
		if most, ok := doc.Limits.Absolute[f.most]; ok {
			text := strconv.Itoa(most)
			if most < 0 {
				text = "unlimited"
			}
			details[f.key] = fmt.Sprintf("%d of %s", doc.Limits.Absolute[f.used], text)
		}
	}
	return nil
}

// checkNetwork reads the configured network itself rather than what is
// remembered of its name.
func (p *Provider) checkNetwork(ctx context.Context, name string, details map[string]string) error {
	r, err := p.at(ctx, name)
	if err != nil {
		return err
	}
	id, err := p.network(ctx, r, "network", "networks", p.opt.Network, nil)
	if err != nil {
		return err
	}
	var doc struct {
		Network *struct {
			ID     string `json:"id"`
			Status string `json:"status"`
		} `json:"network"`
	}
	if _, err := r.Network.Get(ctx, r.Network.ServiceURL("networks", id), &doc, nil); err != nil {
		return err
	}
	if doc.Network == nil || doc.Network.ID != id {
		return cloud.ErrAnswer
	}
	details["network_status"] = doc.Network.Status
	return nil
}
