package hetzner

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// checkTarget is the one target: the project that the token belongs to.
const checkTarget = "project"

// opCheck names a health check in errors.
const opCheck provider.Op = "check"

// Check implements provider.Checker. It lists what List lists, and, until the
// token was seen to have it, asks for the right to write with a request that the
// vendor refuses as incomplete: a token that may only read passes every other
// check and fails the first create.
func (p *Provider) Check(ctx context.Context) []provider.TargetStatus {
	start := time.Now()
	st := provider.TargetStatus{Target: checkTarget, Reason: provider.ReasonReachable, Details: map[string]string{"endpoint": p.host()}}
	total, err := p.checkRead(ctx)
	if err == nil {
		st.Details["instances"] = strconv.Itoa(total)
		err = p.checkWrite(ctx)
	}
	st.Latency = time.Since(start)
	if r, ok := p.RateLimit(); ok {
		st.Details["requests_per_hour"] = strconv.Itoa(r.Limit)
		st.Details["requests_left"] = strconv.Itoa(r.Remaining)
	}
	if out := p.soldOut.names(); len(out) > 0 {
		st.Details["sold_out"] = strings.Join(out, " ")
	}
	if st.Ready = err == nil; st.Ready {
		return []provider.TargetStatus{st}
	}
	_, answered := codeOf(err)
	answered = answered || statusOf(err) != 0
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

func (p *Provider) checkRead(ctx context.Context) (total int, err error) {
	_, resp, err := p.client.Server.List(ctx, hcloud.ServerListOpts{ListOpts: hcloud.ListOpts{
		Page: 1, PerPage: 1, LabelSelector: selectorOf(provider.Selector{Installation: p.installation})}})
	if err != nil {
		return 0, err
	}
	if resp.Meta.Pagination == nil {
		return 0, errAnswer
	}
	return resp.Meta.Pagination.TotalEntries, nil
}

// checkWrite asks to create an SSH key without a name and a key.
func (p *Provider) checkWrite(ctx context.Context) error {
	if p.writable.Load() {
		return nil
	}
	req, err := p.client.NewRequest(ctx, http.MethodPost, "/ssh_keys", strings.NewReader("{}"))
	if err != nil {
		return err
	}
	_, err = p.client.Do(req, nil)
	if isCode(err, hcloud.ErrorCodeInvalidInput, hcloud.ErrorCodeJSONError) {
		p.writable.Store(true)
		return nil
	}
	if err == nil {
		err = errAnswer
	}
	return err
}

func (p *Provider) host() string {
	u, err := url.Parse(p.opt.Endpoint)
	if err != nil {
		return ""
	}
	return u.Host
}
