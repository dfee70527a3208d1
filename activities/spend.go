package activities

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/tollgate-dev/tollgate/internal/metrics"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// priceAge is how long a price is believed.
const priceAge = time.Hour

// Prices asks providers what placements cost and remembers the answers. The
// zero value is ready, and safe for concurrent use.
type Prices struct {
	// List is what the configuration says that instances of a provider cost, which
	// goes before what the provider says; nil means that it says nothing.
	List func(providerName string) provider.PriceList

	mu    sync.Mutex
	known map[priceKey]price
}

type priceKey struct {
	provider string
	place    provider.Placement
}

type price struct {
	at    time.Time
	eur   provider.MicroEUR
	known bool
}

// Of is the price of an instance at a placement. known is false when nobody can
// say; a provider without prices knows none.
func (p *Prices) Of(ctx context.Context, name string, pr provider.Provider, place provider.Placement) (eur provider.MicroEUR, known bool, err error) {
	if eur, known := p.listed(name, pr, place); known {
		return eur, true, nil
	}
	key := priceKey{name, place}
	p.mu.Lock()
	got, ok := p.known[key]
	p.mu.Unlock()
	if ok && time.Since(got.at) < priceAge {
		return got.eur, got.known, nil
	}
	pricer, ok := provider.As[provider.Pricer](pr)
	if !ok {
		return 0, false, nil
	}
	if eur, known, err = pricer.PriceEURPerHour(ctx, place); err != nil {
		return 0, false, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil || len(p.known) > 10_000 {
		p.known = map[priceKey]price{}
	}
	p.known[key] = price{time.Now(), eur, known}
	return eur, known, nil
}

// listed is the price by the configuration.
func (p *Prices) listed(name string, pr provider.Provider, place provider.Placement) (eur provider.MicroEUR, known bool) {
	if p.List == nil {
		return 0, false
	}
	list := p.List(name)
	if len(list) == 0 {
		return 0, false
	}
	places := []provider.Placement{place}
	if placer, ok := provider.As[provider.Placer](pr); ok {
		places = placer.Placements(place)
	}
	return list.OfAny(places)
}

// sum prices a listing. It is nil when a price could not be read.
func (p *Prices) sum(ctx context.Context, name string, pr provider.Provider, all []provider.Instance, held []string) *api.SpendListing {
	out := &api.SpendListing{Instances: len(all)}
	for _, in := range all {
		eur, known, err := p.Of(ctx, name, pr, in.Placement)
		switch {
		case err != nil:
			return nil
		case !known:
			out.Unpriced++
		default:
			out.Total = out.Total.Add(eur)
		}
		if _, ok := slices.BinarySearch(held, in.Name); ok {
			out.Held = append(out.Held, in.Name)
		}
	}
	slices.Sort(out.Held)
	return out
}

// Spend asks for room below the spend caps of the providers. The fields are set
// once, before the worker starts.
type Spend struct {
	// Cap is the configured cap of a provider, 0 for none.
	Cap func(providerName string) provider.MicroEUR
	// Ask puts a request to the provider's fleet, which decides about one create
	// after the other; Tell says what does not exist.
	Ask  func(ctx context.Context, providerName string, req api.SpendRequest) (api.SpendAnswer, error)
	Tell func(ctx context.Context, providerName string, r api.SpendRelease) error
	// Prices remembers prices.
	Prices *Prices
	// Metrics may be nil.
	Metrics *metrics.Metrics
}

// NewSpend returns a Spend that asks shard 0 of the fleets at Temporal.
func NewSpend(c client.Client, cap func(providerName string) provider.MicroEUR, prices *Prices, m *metrics.Metrics) *Spend {
	return &Spend{
		Cap: cap, Prices: prices, Metrics: m,
		Ask: func(ctx context.Context, name string, req api.SpendRequest) (a api.SpendAnswer, err error) {
			ctx, cancel := context.WithTimeout(ctx, 2*temporalTimeout)
			defer cancel()
			options, in := FleetStart(name, 0)
			options.WorkflowIDConflictPolicy = enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING
			h, err := c.UpdateWithStartWorkflow(ctx, client.UpdateWithStartWorkflowOptions{
				StartWorkflowOperation: c.NewWithStartWorkflowOperation(options, workflows.TypeFleetWatch, in),
				UpdateOptions: client.UpdateWorkflowOptions{
					UpdateName: workflows.UpdateReserve, Args: []any{req}, WaitForStage: client.WorkflowUpdateStageCompleted,
				},
			})
			if err == nil {
				err = h.Get(ctx, &a)
			}
			return a, err
		},
		Tell: func(ctx context.Context, name string, r api.SpendRelease) error {
			return signalFleet(ctx, c, name, 0, workflows.SignalReleased, r)
		},
	}
}

// unreadyPause is how soon a create asks again when the costs are not known yet.
const unreadyPause = 5 * time.Second

// reserve holds a place for a create, before anything is asked of the cloud. The
// error of a refusal has the figures.
func (s *Spend) reserve(ctx context.Context, p provider.Provider, ref InstanceRef, place provider.Placement) error {
	if s == nil {
		return nil
	}
	most := s.Cap(ref.Provider)
	s.Metrics.SpendCap(ref.Provider, most)
	if most == 0 {
		return nil
	}
	eur, known, err := s.Prices.Of(ctx, ref.Provider, p, place)
	if err != nil {
		return err
	}
	a, err := s.Ask(ctx, ref.Provider, api.SpendRequest{
		UID: ref.UID, Namespace: ref.Namespace, Proxy: ref.Proxy, Instance: ref.Name, Price: eur, Known: known, Cap: most,
	})
	switch {
	case err != nil:
		return fmt.Errorf("asking for room below the spend cap: %w", err)
	case a.Granted:
		return nil
	case a.Unready:
		return provider.WithRetryAfter(provider.Wrap(provider.Transient, provider.OpCreate, ref.Provider, ref.Name,
			fmt.Errorf("spendCap: %s EUR/h: what the fleet costs is not known yet: a complete listing has to come first", most)), unreadyPause)
	}
	s.Metrics.SpendRefused(ref.Provider)
	return provider.WithReason(provider.Wrap(provider.QuotaExceeded, provider.OpCreate, ref.Provider, ref.Name, refusal(a, eur, known)), provider.ReasonSpendCap)
}

// refusal puts the figures into words.
func refusal(a api.SpendAnswer, eur provider.MicroEUR, known bool) error {
	have := fmt.Sprintf("the fleet costs %s (%d listed, %d being made", a.Total, a.Instances, a.Creates)
	if a.Unpriced > 0 {
		have += fmt.Sprintf(", the price of %d not known", a.Unpriced)
	}
	if !known {
		return fmt.Errorf("spendCap: %s EUR/h: the price of this placement is not known, so nobody can say whether the cap holds; %s)", a.Cap, have)
	}
	return fmt.Errorf("spendCap: %s EUR/h: %s), and this instance would add %s", a.Cap, have, eur)
}

// failed gives the place of a create back that the backend has refused; the next
// listing says for certain. One of unknown outcome keeps it.
func (s *Spend) failed(ctx context.Context, ref InstanceRef, err error) {
	switch provider.ClassOf(err) {
	case provider.QuotaExceeded, provider.CapacityUnavailable, provider.Permanent, provider.Conflict:
		s.tell(ctx, ref.Provider, api.SpendRelease{Instance: ref.Name, Failed: true})
	}
}

// gone gives the place of an instance back that does not exist any more. What is
// not delivered is found by the next listing.
func (s *Spend) gone(ctx context.Context, providerName, instance string) {
	s.tell(ctx, providerName, api.SpendRelease{Instance: instance})
}

func (s *Spend) tell(ctx context.Context, providerName string, r api.SpendRelease) {
	if s == nil || r.Instance == "" || s.Cap(providerName) == 0 {
		return
	}
	_ = s.Tell(ctx, providerName, r)
}

// RetryProxies signals "retry" to proxies that wait. One that has ended is no
// failure.
func (a *Fleet) RetryProxies(ctx context.Context, in RetryProxiesInput) (CountResult, error) {
	defer heartbeat(ctx).stop()
	return a.signalAll(ctx, len(in.Proxies), func(ctx context.Context, i int) error {
		p := in.Proxies[i]
		return a.Temporal.SignalWorkflow(ctx, workflows.ProxyID(p.Namespace, p.Name), "",
			workflows.SignalRetry, map[string]string{"reason": "there is room below the spend cap of " + in.Provider})
	})
}
