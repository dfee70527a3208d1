package decorators

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// ReasonContract is the reason of an answer that no driver may give. The class
// is Transient: such an answer proves nothing.
const ReasonContract = "ContractViolation"

// WithChecks refuses requests that no driver could serve, before any of them
// sees it, and turns answers that the contract rules out into errors: an empty
// id, an instance that was not asked for, a listed instance that does not match
// the selector. Nothing is ever dropped from a list. Running without an address
// is corrected to Provisioning.
func WithChecks(p provider.Provider, name, installation string) provider.Provider {
	return &checks{next: p, name: name, installation: installation}
}

type checks struct {
	next               provider.Provider
	name, installation string
}

var (
	_ provider.Provider  = (*checks)(nil)
	_ provider.Unwrapper = (*checks)(nil)
)

// Unwrap returns the provider that is decorated.
func (c *checks) Unwrap() provider.Provider { return c.next }

// Create checks the whole request and names everything that is wrong with it.
func (c *checks) Create(ctx context.Context, req provider.CreateRequest) (provider.InstanceID, error) {
	if err := c.checkRequest(req); err != nil {
		return "", c.refuse(provider.OpCreate, req.Name, provider.ReasonInvalidSpec, err)
	}
	id, err := c.next.Create(ctx, req)
	if err == nil && id == "" {
		return "", c.violation(provider.OpCreate, req.Name, "the driver gave an empty id")
	}
	return id, err
}

func (c *checks) checkRequest(req provider.CreateRequest) error {
	errs := []error{provider.ValidateName("name", req.Name)}
	for field, v := range map[string]string{
		"marks.uid": req.Marks.UID, "marks.namespace": req.Marks.Namespace,
		"marks.proxy": req.Marks.Proxy, "marks.specHash": req.Marks.SpecHash,
	} {
		if v == "" {
			errs = append(errs, fmt.Errorf("%s: must not be empty", field))
		}
	}
	if req.Marks.Installation == "" || req.Marks.Installation != c.installation {
		errs = append(errs, fmt.Errorf("marks.installation: %q: want %q", req.Marks.Installation, c.installation))
	}
	if req.Port < 1 || req.Port > 65535 {
		errs = append(errs, fmt.Errorf("port: %d: want 1 to 65535", req.Port))
	}
	if a := req.Auth; a != nil && (a.Username == "" || strings.ContainsAny(a.Username, ":\r\n")) {
		errs = append(errs, errors.New("auth.username: must not be empty nor contain ':' or line breaks"))
	}
	return errors.Join(errs...)
}

// Get checks the id and the instance.
func (c *checks) Get(ctx context.Context, id provider.InstanceID) (provider.Instance, error) {
	if id == "" {
		return provider.Instance{}, c.refuse(provider.OpGet, "", provider.ReasonMalformedID, errors.New("the instance id is empty"))
	}
	in, err := c.next.Get(ctx, id)
	switch {
	case err != nil:
		return provider.Instance{}, err
	case in.ID != id:
		return provider.Instance{}, c.violation(provider.OpGet, string(id), "the driver answered with instance %q", in.ID)
	}
	return settled(in), nil
}

// Find checks the arguments and that the instance is the owner's.
func (c *checks) Find(ctx context.Context, name string, owner provider.Marks) (provider.Instance, error) {
	if err := provider.ValidateName("name", name); err != nil {
		return provider.Instance{}, c.refuse(provider.OpFind, name, provider.ReasonInvalidSpec, err)
	}
	if owner.UID == "" || owner.Installation == "" {
		return provider.Instance{}, c.refuse(provider.OpFind, name, provider.ReasonInvalidSpec,
			fmt.Errorf("marks: uid %q and installation %q must not be empty", owner.UID, owner.Installation))
	}
	in, err := c.next.Find(ctx, name, owner)
	switch {
	case err != nil:
		return provider.Instance{}, err
	case in.ID == "" || in.Name != name || !in.Marks.SameOwner(owner):
		return provider.Instance{}, c.violation(provider.OpFind, name, "the driver answered with instance %q named %q of uid %q, installation %q",
			in.ID, in.Name, in.Marks.UID, in.Marks.Installation)
	}
	return settled(in), nil
}

// Delete checks the id.
func (c *checks) Delete(ctx context.Context, id provider.InstanceID) error {
	if id == "" {
		return c.refuse(provider.OpDelete, "", provider.ReasonMalformedID, errors.New("the instance id is empty"))
	}
	return c.next.Delete(ctx, id)
}

// List checks every instance; one that is wrong spoils the list.
func (c *checks) List(ctx context.Context, sel provider.Selector) ([]provider.Instance, error) {
	all, err := c.next.List(ctx, sel)
	if err != nil {
		return nil, err
	}
	seen := make(map[provider.InstanceID]bool, len(all))
	for i, in := range all {
		switch {
		case in.ID == "":
			return nil, c.violation(provider.OpList, "", "the instance named %q has no id", in.Name)
		case seen[in.ID]:
			return nil, c.violation(provider.OpList, "", "instance %q is listed twice", in.ID)
		case !sel.Matches(in.Marks):
			return nil, c.violation(provider.OpList, "", "instance %q with marks %+v does not match the selector %+v", in.ID, in.Marks, sel)
		}
		seen[in.ID] = true
		all[i] = settled(in)
	}
	return all, nil
}

// settled makes Running mean that there is an address.
func settled(in provider.Instance) provider.Instance {
	if in.State == provider.StateRunning && !in.IP.IsValid() {
		in.State = provider.StateProvisioning
	}
	return in
}

func (c *checks) refuse(op provider.Op, id, reason string, err error) error {
	return provider.WithReason(provider.Wrap(provider.Permanent, op, c.name, id, err), reason)
}

func (c *checks) violation(op provider.Op, id, format string, args ...any) error {
	return provider.WithReason(provider.Wrap(provider.Transient, op, c.name, id, fmt.Errorf(format, args...)), ReasonContract)
}
