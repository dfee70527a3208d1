package memory

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// ListCompanions implements provider.Companions.
func (p *Provider) ListCompanions(ctx context.Context, sel provider.Selector) ([]provider.Companion, error) {
	addrs, err := p.b.ListAddresses(ctx, p.token(), "", selectorLabels(sel))
	if err != nil {
		return nil, p.classify(provider.OpListCompanions, "", err)
	}
	out := make([]provider.Companion, 0, len(addrs))
	for _, a := range addrs {
		m, _ := provider.MarksFromLabels(a.Labels)
		c := provider.Companion{Kind: KindAddress, ID: strconv.FormatInt(a.ID, 10), Name: a.Name, Marks: m, CreatedAt: a.Created}
		if a.Server != 0 {
			c.AttachedTo = makeID(a.Server, strings.TrimSuffix(a.Name, addressSuffix))
		}
		out = append(out, c)
	}
	return out, nil
}

// DeleteCompanion implements provider.Companions.
func (p *Provider) DeleteCompanion(ctx context.Context, c provider.Companion) error {
	id, err := strconv.ParseInt(c.ID, 10, 64)
	if err != nil || c.Kind != KindAddress {
		return provider.WithReason(provider.Wrap(provider.Permanent, provider.OpDeleteCompanion, p.cfg.Name, c.ID,
			fmt.Errorf("companion %q of kind %q is none of this provider's", c.ID, c.Kind)), provider.ReasonMalformedID)
	}
	err = p.b.DetachAddress(ctx, p.token(), id)
	if err == nil {
		err = p.b.DeleteAddress(ctx, p.token(), id)
	}
	if isStatus(err, http.StatusNotFound) {
		return nil
	}
	return p.classify(provider.OpDeleteCompanion, c.ID, err)
}

// PriceEURPerHour implements provider.Pricer.
func (p *Provider) PriceEURPerHour(ctx context.Context, pl provider.Placement) (provider.MicroEUR, bool, error) {
	price, known, err := p.b.Price(ctx, p.token(), pl.Region)
	if err != nil {
		return 0, false, p.classify(provider.OpPrice, "", err)
	}
	return provider.MicroEUR(price), known, nil
}

// Check implements provider.Checker: one target per region.
func (p *Provider) Check(ctx context.Context) []provider.TargetStatus {
	var out []provider.TargetStatus
	for _, region := range p.b.Regions() {
		start := time.Now()
		err := p.b.Ping(ctx, p.token(), region)
		st := provider.TargetStatus{Target: region, Ready: err == nil, Reason: provider.ReasonReachable, Latency: time.Since(start)}
		if err != nil {
			err = p.classify("check", region, err)
			st.Message = err.Error()
			st.Reason = cmp.Or(provider.ReasonOf(err), provider.ReasonAPIError)
			if ctx.Err() != nil {
				st.Reason = provider.ReasonTimeout
			}
		}
		out = append(out, st)
	}
	return out
}
