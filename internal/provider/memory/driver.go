package memory

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// Compile-time checks of what the driver implements.
var (
	_ provider.Provider      = (*Provider)(nil)
	_ provider.Checker       = (*Provider)(nil)
	_ provider.Pricer        = (*Provider)(nil)
	_ provider.Companions    = (*Provider)(nil)
	_ provider.UnknownStater = (*Provider)(nil)
)

// KindAddress is the kind of the driver's one companion.
const KindAddress = "address"

// Profile is what the driver answers on the axes of the contract.
func Profile() provider.Profile {
	return provider.Profile{
		Readiness: "provisioning-window", CreateReturn: "submit", DeleteReturn: "returns-early",
		IPSource: "discovered", GCMark: "native-labels", CreatedAt: "backend-timestamp",
		ListPartial: "fail-whole", Quota: "detected", NotFound: "status-404", PrimaryKey: "allocated-id",
		ProvisioningState: "native", AsyncOps: "none", SecondaryResources: "explicit",
		Credentials: "environment", ClientKind: "thin-client", Timeouts: "ctx-only", Logging: "outcome-only",
		ChildSpans: "none", BackendTest: "make-test",
		ReadyPoll: 10 * time.Millisecond, GonePoll: 10 * time.Millisecond, Settle: 200 * time.Millisecond,
		Surge: true,
	}
}

// Type returns the driver over b as a provider type named "memory".
func Type(b *Backend) provider.Type {
	return provider.Type{
		Name: "memory", Summary: "servers that exist in memory only", Profile: Profile(),
		New: func(ctx context.Context, cfg provider.Config) (provider.Provider, error) { return New(ctx, b, cfg) },
	}
}

// Provider is the driver. It keeps no state about instances: everything it says
// was read from the backend.
type Provider struct {
	*provider.StateMap
	cfg  provider.Config
	cred provider.Sensitive
	log  *slog.Logger
	b    *Backend
}

// New builds a provider over b. When cfg.Secret is set, the secret named
// "memory-token" is the credential.
func New(ctx context.Context, b *Backend, cfg provider.Config) (*Provider, error) {
	p := &Provider{cfg: cfg, b: b, log: cfg.Logger}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	if cfg.Secret != nil {
		cred, err := cfg.Secret(ctx, "memory-token")
		if err != nil {
			return nil, fmt.Errorf("secret memory-token: %w", err)
		}
		p.cred = cred
	}
	p.log = p.log.With(slog.String("provider", cfg.Name))
	p.StateMap = provider.NewStateMap(p.log, map[string]provider.State{
		RawBooting: provider.StateProvisioning, RawActive: provider.StateRunning,
		RawHalted: provider.StateStopped, RawDeleting: provider.StateTerminated,
	})
	return p, nil
}

func (p *Provider) token() string { return string(p.cred.Reveal()) }

// Create implements provider.Provider.
func (p *Provider) Create(ctx context.Context, req provider.CreateRequest) (provider.InstanceID, error) {
	id, err := p.create(ctx, req)
	if err != nil {
		return "", p.classify(provider.OpCreate, req.Name, err, req.CloudInit)
	}
	p.log.DebugContext(ctx, "created", slog.String("instance", string(id)), slog.Int("cloud_init_bytes", req.CloudInit.Len()))
	return id, nil
}

func (p *Provider) create(ctx context.Context, req provider.CreateRequest) (provider.InstanceID, error) {
	if err := p.checkPlacement(req); err != nil {
		return "", err
	}
	if id, found, err := p.adopt(ctx, req); found || err != nil {
		return id, err
	}
	addr, err := p.ensureAddress(ctx, req)
	if err != nil {
		return "", err
	}
	s, err := p.b.CreateServer(ctx, p.token(), NewServer{
		Name: req.Name, Region: req.Placement.Region, Type: req.Placement.MachineType,
		Labels: req.Marks.Labels(), UserData: req.CloudInit.Reveal(), AddressID: addr.ID,
	})
	if err == nil {
		return ID(s), nil
	}
	if isCode(err, "uniqueness") {
		if id, found, aerr := p.adopt(ctx, req); found || aerr != nil {
			return id, aerr
		}
	}
	// A refusal made nothing, so the address would be left over. After anything
	// else the server may exist: the retry or the sweep takes care of both.
	var api *APIError
	if errors.As(err, &api) && api.Status < 500 && api.Status != http.StatusConflict {
		err = errors.Join(err, p.dropAddress(context.WithoutCancel(ctx), addr.ID))
	}
	return "", err
}

// checkPlacement refuses, before any request, what can never be satisfied.
func (p *Provider) checkPlacement(req provider.CreateRequest) error {
	if regions := p.b.Regions(); !slices.Contains(regions, req.Placement.Region) {
		return provider.WithReason(provider.Wrap(provider.Permanent, provider.OpCreate, p.cfg.Name, req.Name,
			fmt.Errorf("placement.region: %q: want one of %s", req.Placement.Region, strings.Join(regions, ", "))),
			provider.ReasonInvalidSpec)
	}
	return nil
}

// adopt returns the instance that has the request's name already, if it is the
// request's.
func (p *Provider) adopt(ctx context.Context, req provider.CreateRequest) (provider.InstanceID, bool, error) {
	found, err := p.b.FindServers(ctx, p.token(), req.Name)
	if err != nil || len(found) == 0 {
		return "", false, err
	}
	in := p.instance(ctx, found[0])
	if err := provider.VerifyAdoption(p.cfg.Name, req, in); err != nil {
		return "", true, err
	}
	return in.ID, true, nil
}

func (p *Provider) ensureAddress(ctx context.Context, req provider.CreateRequest) (Address, error) {
	name := addressName(req.Name)
	for range 2 {
		found, err := p.b.ListAddresses(ctx, p.token(), name, nil)
		if err != nil {
			return Address{}, err
		}
		if len(found) > 0 {
			if m, ok := provider.MarksFromLabels(found[0].Labels); !ok || !m.SameOwner(req.Marks) {
				return Address{}, provider.Wrap(provider.Conflict, provider.OpCreate, p.cfg.Name, req.Name,
					fmt.Errorf("an address named %q exists and is not ours", name))
			}
			return found[0], nil
		}
		a, err := p.b.CreateAddress(ctx, p.token(), name, req.Marks.Labels())
		if err == nil || !isCode(err, "uniqueness") {
			return a, err
		}
	}
	return Address{}, errors.New("the address appears and vanishes")
}

// dropAddress deletes an address unless a server uses it.
func (p *Provider) dropAddress(ctx context.Context, id int64) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	err := p.b.DeleteAddress(ctx, p.token(), id)
	if isStatus(err, http.StatusNotFound) || isCode(err, "in_use") {
		return nil
	}
	return err
}

// Get implements provider.Provider.
func (p *Provider) Get(ctx context.Context, id provider.InstanceID) (provider.Instance, error) {
	key, _, err := p.parseID(provider.OpGet, id)
	if err != nil {
		return provider.Instance{}, err
	}
	s, err := p.b.GetServer(ctx, p.token(), key)
	if err != nil {
		return provider.Instance{}, p.classify(provider.OpGet, string(id), err)
	}
	return p.instance(ctx, s), nil
}

// Find implements provider.Provider.
func (p *Provider) Find(ctx context.Context, name string, owner provider.Marks) (provider.Instance, error) {
	found, err := p.b.FindServers(ctx, p.token(), name)
	if err != nil {
		return provider.Instance{}, p.classify(provider.OpFind, name, err)
	}
	if len(found) == 0 {
		return provider.Instance{}, provider.Wrap(provider.NotFound, provider.OpFind, p.cfg.Name, name,
			errors.New("no server has this name"))
	}
	in := p.instance(ctx, found[0])
	if !in.Marks.SameOwner(owner) {
		return provider.Instance{}, provider.Wrap(provider.Conflict, provider.OpFind, p.cfg.Name, name,
			errors.New("the name is taken by a server that is not ours"))
	}
	return in, nil
}

// Delete implements provider.Provider.
func (p *Provider) Delete(ctx context.Context, id provider.InstanceID) error {
	key, name, err := p.parseID(provider.OpDelete, id)
	if err != nil {
		return err
	}
	if err := p.b.DeleteServer(ctx, p.token(), key); err != nil && !isStatus(err, http.StatusNotFound) {
		return p.classify(provider.OpDelete, string(id), err)
	}
	addrs, err := p.b.ListAddresses(ctx, p.token(), addressName(name), map[string]string{
		provider.LabelManaged: provider.LabelManagedYes, provider.LabelInstallation: p.cfg.Installation,
	})
	for _, a := range addrs {
		err = errors.Join(err, p.dropAddress(ctx, a.ID))
	}
	if err != nil {
		return p.classify(provider.OpDelete, string(id), err)
	}
	p.log.DebugContext(ctx, "deleted", slog.String("instance", string(id)))
	return nil
}

// List implements provider.Provider.
func (p *Provider) List(ctx context.Context, sel provider.Selector) ([]provider.Instance, error) {
	var out []provider.Instance
	for page := 1; ; page++ {
		servers, more, err := p.b.ListServers(ctx, p.token(), page, selectorLabels(sel))
		if err != nil {
			return nil, p.classify(provider.OpList, "", err)
		}
		for _, s := range servers {
			out = append(out, p.instance(ctx, s))
		}
		if !more {
			return out, nil
		}
	}
}

func selectorLabels(sel provider.Selector) map[string]string {
	return provider.Marks{
		Installation: sel.Installation, UID: sel.UID, Namespace: sel.Namespace, Proxy: sel.Proxy,
	}.Labels()
}

func (p *Provider) instance(ctx context.Context, s Server) provider.Instance {
	marks, managed := provider.MarksFromLabels(s.Labels)
	if !managed {
		marks = provider.Marks{}
	}
	in := provider.Instance{
		ID: ID(s), Name: s.Name, IP: s.IP, RawState: s.State, Marks: marks, CreatedAt: s.Created,
		Placement: provider.Placement{Region: s.Region, MachineType: s.Type},
	}
	in.State = p.Map(ctx, s.State, in.ID)
	if in.State == provider.StateRunning && !in.IP.IsValid() {
		in.State = provider.StateProvisioning
	}
	return in
}

const addressSuffix = "-ip"

func addressName(instance string) string { return instance + addressSuffix }

// ID is the instance id of a server.
func ID(s Server) provider.InstanceID { return makeID(s.ID, s.Name) }

// makeID puts the name into the id, so that Delete finds the address of a
// server that is gone.
func makeID(key int64, name string) provider.InstanceID {
	return provider.InstanceID(fmt.Sprintf("memory/%d/%s", key, name))
}

func (p *Provider) parseID(op provider.Op, id provider.InstanceID) (key int64, name string, err error) {
	parts := strings.Split(string(id), "/")
	if len(parts) == 3 && parts[0] == "memory" && provider.ValidateName("name", parts[2]) == nil {
		if key, err = strconv.ParseInt(parts[1], 10, 64); err == nil && key > 0 && strconv.FormatInt(key, 10) == parts[1] {
			return key, parts[2], nil
		}
	}
	return 0, "", provider.WithReason(provider.Wrap(provider.Permanent, op, p.cfg.Name, string(id),
		fmt.Errorf("%q is no instance id: want memory/<number>/<name>", id)), provider.ReasonMalformedID)
}
