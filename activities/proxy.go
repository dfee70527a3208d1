package activities

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// Proxies are the activities of the Proxy workflow. The fields are set once,
// before the worker starts.
type Proxies struct {
	// Installation is the id that marks carry.
	Installation string
	// Lookup finds a configured provider and its profile. ok is false when there
	// is none of that name; err says why a configured one cannot be used.
	Lookup func(name string) (p provider.Provider, profile provider.Profile, ok bool, err error)
	// Secret resolves an entry of the configuration's secrets.
	Secret func(ctx context.Context, name string) (provider.Sensitive, error)
	// ProbeProxy makes one CONNECT through the proxy at addr ("ip:port").
	ProbeProxy func(ctx context.Context, addr string, auth *provider.BasicAuth) ProbeResult
	// Spend keeps creates below the spend caps; nil means that there are none.
	Spend *Spend
	// Prices remembers prices; nil leaves them out.
	Prices *Prices
}

// ResolveSpec reads the spec's secrets and says what the spec amounts to. It
// makes no remote call and runs as a local activity.
func (a *Proxies) ResolveSpec(ctx context.Context, in ResolveSpecInput) (ResolveSpecResult, error) {
	_, profile, err := a.lookup(in.Spec.Provider)
	if err != nil {
		return ResolveSpecResult{}, err
	}
	if in.Spec.Replacement == api.CreateBeforeDelete && !profile.Surge {
		return ResolveSpecResult{}, final(string(provider.Permanent), fmt.Sprintf(
			"spec.replacement: %s is not possible on provider %q, which runs one instance of a proxy at a time: use %s",
			api.CreateBeforeDelete, in.Spec.Provider, api.Recreate),
			FailureDetails{Class: provider.Permanent, Reason: provider.ReasonInvalidSpec})
	}
	cloudInit, auth, err := a.secrets(ctx, in.Spec)
	if err != nil {
		return ResolveSpecResult{}, err
	}
	return ResolveSpecResult{
		SpecHash:  a.specHash(in.Spec, cloudInit, auth),
		ReadyPoll: api.Duration(profile.ReadyPoll), GonePoll: api.Duration(profile.GonePoll),
		Settle: api.Duration(profile.Settle), Surge: profile.Surge,
	}, nil
}

// CreateInstance makes the instance, or adopts the one an earlier attempt made.
func (a *Proxies) CreateInstance(ctx context.Context, in CreateInstanceInput) (CreateInstanceResult, error) {
	defer heartbeat(ctx).stop()
	p, _, err := a.lookup(in.Ref.Provider)
	if err != nil {
		return CreateInstanceResult{}, err
	}
	cloudInit, auth, err := a.secrets(ctx, in.Spec)
	if err != nil {
		return CreateInstanceResult{}, err
	}
	marks := a.marks(in.Ref)
	marks.SpecHash = in.SpecHash
	req := provider.CreateRequest{
		Name: in.Ref.Name, Marks: marks, Placement: in.Spec.Placement,
		CloudInit: cloudInit, Port: in.Spec.WithDefaults().Port,
	}
	if auth.Len() > 0 {
		ba, err := ParseBasicAuth(auth)
		if err != nil {
			return CreateInstanceResult{}, final(ErrSecretUnavailable, fmt.Sprintf("spec.auth.secretRef: %q: %v", in.Spec.Auth.SecretRef, err))
		}
		req.Auth = ba
	}
	if err := a.Spend.reserve(ctx, p, in.Ref, in.Spec.Placement); err != nil {
		return CreateInstanceResult{}, toTemporal(ctx, err)
	}
	id, err := p.Create(ctx, req)
	if err != nil {
		a.Spend.failed(ctx, in.Ref, err)
		return CreateInstanceResult{}, toTemporal(ctx, err)
	}
	activity.GetLogger(ctx).Info("instance created", "provider", in.Ref.Provider, "instance", string(id),
		"proxy", in.Ref.Namespace+"/"+in.Ref.Proxy, "cloud_init_bytes", cloudInit.Len())
	return CreateInstanceResult{ID: id}, nil
}

// WaitRunning asks for the instance once per attempt; the retries are the poll.
func (a *Proxies) WaitRunning(ctx context.Context, in WaitRunningInput) (WaitRunningResult, error) {
	defer heartbeat(ctx).stop()
	p, _, err := a.lookup(in.Ref.Provider)
	if err != nil {
		return WaitRunningResult{}, err
	}
	got, err := p.Get(ctx, in.Ref.ID)
	if err != nil {
		return WaitRunningResult{}, toTemporal(ctx, err)
	}
	switch got.State {
	case provider.StateRunning:
		return WaitRunningResult{IP: got.IP.String(), CreatedAt: got.CreatedAt, Price: a.price(ctx, in.Ref.Provider, p, got.Placement)}, nil
	case provider.StateProvisioning:
		return WaitRunningResult{}, again(ErrNotReady, in.Poll.Std(), fmt.Sprintf("instance %s is %s", in.Ref.ID, stateText(got)))
	default:
		return WaitRunningResult{}, final(ErrStopped, fmt.Sprintf("instance %s is %s", in.Ref.ID, stateText(got)))
	}
}

// GetInstance says what the provider knows of the instance.
func (a *Proxies) GetInstance(ctx context.Context, ref InstanceRef) (GetInstanceResult, error) {
	defer heartbeat(ctx).stop()
	p, _, err := a.lookup(ref.Provider)
	if err != nil {
		return GetInstanceResult{}, err
	}
	got, err := p.Get(ctx, ref.ID)
	switch {
	case errors.Is(err, provider.NotFound):
		return GetInstanceResult{}, nil
	case err != nil:
		return GetInstanceResult{}, toTemporal(ctx, err)
	}
	r := GetInstanceResult{Exists: true, State: got.State, RawState: got.RawState}
	if got.IP.IsValid() {
		r.IP = got.IP.String()
	}
	return r, nil
}

// Prove makes one CONNECT per attempt until one goes through.
func (a *Proxies) Prove(ctx context.Context, in ProbeInput) (ProbeResult, error) {
	r, err := a.ProbeOnce(ctx, in)
	if err != nil || r.OK {
		return r, err
	}
	return r, again(ErrNotProven, in.Poll.Std(), fmt.Sprintf("probe of %s: %s: %s", net.JoinHostPort(in.IP, strconv.Itoa(in.Port)), r.Class, r.Message), r)
}

// ProbeOnce makes one CONNECT and returns its outcome, which is never an error.
func (a *Proxies) ProbeOnce(ctx context.Context, in ProbeInput) (ProbeResult, error) {
	defer heartbeat(ctx).stop()
	var auth *provider.BasicAuth
	if in.AuthRef != "" {
		s, err := a.secret(ctx, "spec.auth.secretRef", in.AuthRef)
		if err != nil {
			return ProbeResult{}, err
		}
		if auth, err = ParseBasicAuth(s); err != nil {
			return ProbeResult{}, final(ErrSecretUnavailable, fmt.Sprintf("spec.auth.secretRef: %q: %v", in.AuthRef, err))
		}
	}
	r := a.ProbeProxy(ctx, net.JoinHostPort(in.IP, strconv.Itoa(in.Port)), auth)
	if canceled(ctx) {
		return r, toTemporal(ctx, ctx.Err())
	}
	return r, nil
}

// deleteProgress is heartbeat detail: what earlier attempts of a delete did.
type deleteProgress struct {
	ID provider.InstanceID `json:"id,omitempty"`
	// SubmittedAt is when the provider last took the delete.
	SubmittedAt time.Time `json:"submittedAt,omitzero"`
}

// resubmitAfter is how long a delete may show no effect before it is sent again.
const resubmitAfter = 2 * time.Minute

// DeleteInstance deletes the instance once and then, attempt by attempt, waits
// until the provider says that it is gone.
func (a *Proxies) DeleteInstance(ctx context.Context, in DeleteInstanceInput) (DeleteInstanceResult, error) {
	p, _, err := a.lookup(in.Ref.Provider)
	if err != nil {
		return DeleteInstanceResult{}, err
	}
	var done deleteProgress
	if activity.HasHeartbeatDetails(ctx) {
		if err := activity.GetHeartbeatDetails(ctx, &done); err != nil {
			done = deleteProgress{} // at worst the delete is sent twice
		}
	}
	if done.ID == "" {
		done.ID = in.Ref.ID
	}
	life := heartbeat(ctx, done)
	defer life.stop()
	now := time.Now()

	if done.ID == "" {
		found, err := p.Find(ctx, in.Ref.Name, a.marks(in.Ref))
		switch {
		case errors.Is(err, provider.Conflict):
			// The name is somebody else's, so the create of ours never happened.
			return DeleteInstanceResult{}, nil
		case errors.Is(err, provider.NotFound):
			return DeleteInstanceResult{}, nil
		case err != nil:
			return DeleteInstanceResult{}, toTemporal(ctx, err)
		}
		done.ID = found.ID
	}
	if now.Sub(done.SubmittedAt) > resubmitAfter {
		if err := p.Delete(ctx, done.ID); err != nil {
			return DeleteInstanceResult{}, toTemporal(ctx, err)
		}
		done.SubmittedAt = now
		life.set(done)
	}
	got, err := p.Get(ctx, done.ID)
	switch {
	case errors.Is(err, provider.NotFound):
		activity.GetLogger(ctx).Info("instance deleted", "provider", in.Ref.Provider, "instance", string(done.ID),
			"proxy", in.Ref.Namespace+"/"+in.Ref.Proxy)
		a.Spend.gone(ctx, in.Ref.Provider, in.Ref.Name)
		return DeleteInstanceResult{ID: done.ID}, nil
	case err != nil:
		return DeleteInstanceResult{}, toTemporal(ctx, err)
	}
	return DeleteInstanceResult{}, again(ErrStillExists, in.GonePoll.Std(), fmt.Sprintf("instance %s is still %s", done.ID, stateText(got)))
}

// price is what an instance costs, for people; nil when that is not known.
func (a *Proxies) price(ctx context.Context, name string, p provider.Provider, place provider.Placement) *provider.MicroEUR {
	if a.Prices == nil {
		return nil
	}
	eur, known, err := a.Prices.Of(ctx, name, p, place)
	if err != nil || !known {
		return nil
	}
	return &eur
}

func stateText(i provider.Instance) string {
	if i.RawState != "" && i.RawState != string(i.State) {
		return fmt.Sprintf("%s (%s)", i.State, i.RawState)
	}
	return string(i.State)
}

func (a *Proxies) lookup(name string) (provider.Provider, provider.Profile, error) {
	p, profile, ok, err := a.Lookup(name)
	switch {
	case !ok:
		return nil, profile, final(ErrProviderNotConfigured, fmt.Sprintf("spec.provider: no provider %q is configured", name))
	case err != nil:
		return nil, profile, final(ErrProviderNotConfigured, fmt.Sprintf("spec.provider: provider %q cannot be used: %v", name, err))
	}
	return p, profile, nil
}

func (a *Proxies) marks(ref InstanceRef) provider.Marks {
	return provider.Marks{UID: ref.UID, Installation: a.Installation, Namespace: ref.Namespace, Proxy: ref.Proxy}
}

func (a *Proxies) secret(ctx context.Context, field, name string) (provider.Sensitive, error) {
	s, err := a.Secret(ctx, name)
	if err != nil {
		return s, final(ErrSecretUnavailable, fmt.Sprintf("%s: %v", field, err))
	}
	return s, nil
}

func (a *Proxies) secrets(ctx context.Context, spec api.ProxySpec) (cloudInit, auth provider.Sensitive, err error) {
	if c := spec.CloudInit; c != nil {
		if c.SecretRef == "" {
			cloudInit = provider.NewSensitive([]byte(c.Inline))
		} else if cloudInit, err = a.secret(ctx, "spec.cloudInit.secretRef", c.SecretRef); err != nil {
			return
		}
	}
	if spec.Auth != nil {
		auth, err = a.secret(ctx, "spec.auth.secretRef", spec.Auth.SecretRef)
	}
	return
}

// specHash covers what an instance is made of. It is keyed by the installation
// so that equal secrets of two installations cannot be compared.
func (a *Proxies) specHash(spec api.ProxySpec, cloudInit, auth provider.Sensitive) string {
	mac := hmac.New(sha256.New, []byte("tollgate spec "+a.Installation))
	inner := func(s provider.Sensitive) []byte {
		h := hmac.New(sha256.New, []byte("tollgate secret "+a.Installation))
		h.Write(s.Reveal())
		return h.Sum(nil)
	}
	// Encoding a struct of plain fields cannot fail.
	_ = json.NewEncoder(mac).Encode(struct {
		Placement       provider.Placement
		Port            int
		CloudInit, Auth []byte
	}{spec.Placement, spec.WithDefaults().Port, inner(cloudInit), inner(auth)})
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// ParseBasicAuth reads username:password, ignoring white space around it. The
// error never shows the value.
func ParseBasicAuth(s provider.Sensitive) (*provider.BasicAuth, error) {
	user, pass, ok := bytes.Cut(bytes.TrimSpace(s.Reveal()), []byte(":"))
	if !ok || len(user) == 0 || len(pass) == 0 {
		return nil, errors.New("the secret is not of the form username:password")
	}
	return &provider.BasicAuth{Username: string(user), Password: provider.NewSensitive(pass)}, nil
}
