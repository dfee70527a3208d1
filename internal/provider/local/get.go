package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// sweepInterval is how often a listing removes what cut-off calls have left.
const sweepInterval = time.Minute

// sweepTimeout leaves a listing most of its time.
const sweepTimeout = 5 * time.Second

// Get returns the instance as it is on disk and in the kernel.
func (p *Provider) Get(ctx context.Context, id provider.InstanceID) (provider.Instance, error) {
	in, err := p.get(ctx, id)
	return in, p.outcome(ctx, provider.OpGet, string(id), err)
}

func (p *Provider) get(ctx context.Context, id provider.InstanceID) (provider.Instance, error) {
	name, err := p.parse(provider.OpGet, id)
	if err != nil {
		return provider.Instance{}, err
	}
	if err := ctx.Err(); err != nil {
		return provider.Instance{}, err
	}
	in, _, err := p.instance(name).observe()
	if errors.Is(err, fs.ErrNotExist) {
		err = p.notFound(provider.OpGet, string(id))
	}
	if err != nil {
		return provider.Instance{}, err
	}
	p.rootSeen.Store(true)
	return in, nil
}

// Find returns the instance of this name if it is the owner's. Before it says
// that there is none, it waits for whoever is at work on the name.
func (p *Provider) Find(ctx context.Context, name string, owner provider.Marks) (provider.Instance, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	in, err := p.find(ctx, name, owner)
	return in, p.outcome(ctx, provider.OpFind, name, err)
}

func (p *Provider) find(ctx context.Context, name string, owner provider.Marks) (provider.Instance, error) {
	none := provider.Instance{}
	if err := provider.ValidateName("name", name); err != nil {
		return none, invalid{err}
	}
	if err := ctx.Err(); err != nil {
		return none, err
	}
	i := p.instance(name)
	in, _, err := i.observe()
	if errors.Is(err, fs.ErrNotExist) {
		in, err = p.findLocked(ctx, i)
	}
	if err != nil {
		return none, err
	}
	if !in.Marks.SameOwner(owner) {
		return none, provider.Wrap(provider.Conflict, provider.OpFind, p.name, name,
			fmt.Errorf("the instance named %q belongs to uid %q of installation %q", name, in.Marks.UID, in.Marks.Installation))
	}
	return in, nil
}

func (p *Provider) findLocked(ctx context.Context, i instance) (provider.Instance, error) {
	lock, err := p.lockName(ctx, i.name)
	if errors.Is(err, fs.ErrNotExist) {
		return provider.Instance{}, p.notFound(provider.OpFind, i.name)
	}
	if err != nil {
		return provider.Instance{}, err
	}
	defer lock.release()
	in, _, err := i.observe()
	if !errors.Is(err, fs.ErrNotExist) {
		return in, err
	}
	if err := p.remove(ctx, i); err != nil { // what a cut-off call has left
		return provider.Instance{}, err
	}
	return provider.Instance{}, p.notFound(provider.OpFind, i.name)
}

// List reads every instance of the directory, or fails.
func (p *Provider) List(ctx context.Context, sel provider.Selector) ([]provider.Instance, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	all, err := p.list(ctx, sel)
	return all, p.outcome(ctx, provider.OpList, "", err, "count", len(all))
}

func (p *Provider) list(ctx context.Context, sel provider.Selector) ([]provider.Instance, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p.sweep(ctx)
	var out []provider.Instance
	err := p.each(func(i instance) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		in, m, err := i.observe()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if marks, managed := provider.MarksFromLabels(m.Labels); managed && sel.Matches(marks) {
			out = append(out, in)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// each calls f for every directory of an instance, in the order of names.
func (p *Provider) each(f func(instance) error) error {
	entries, err := os.ReadDir(p.instancesDir())
	if errors.Is(err, fs.ErrNotExist) {
		return p.checkRoot()
	}
	if err != nil {
		return err
	}
	p.rootSeen.Store(true)
	for _, e := range entries {
		if !e.IsDir() || provider.ValidateName("name", e.Name()) != nil {
			continue
		}
		if err := f(p.instance(e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// checkRoot fails when the directory was there once and is not any more: an
// unmounted disk is no proof that the instances are gone.
func (p *Provider) checkRoot() error {
	_, err := os.Stat(p.instancesDir())
	switch {
	case err == nil:
		p.rootSeen.Store(true)
		return nil
	case errors.Is(err, fs.ErrNotExist) && !p.rootSeen.Load():
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("dir: %q has disappeared: mount it again, or make it empty if its instances are meant to be gone",
			p.instancesDir())
	}
	return err
}

// notFound is NotFound, unless the whole directory is missing.
func (p *Provider) notFound(op provider.Op, id string) error {
	if err := p.checkRoot(); err != nil {
		return err
	}
	return provider.Wrap(provider.NotFound, op, p.name, id, errors.New("there is no such instance"))
}

func (p *Provider) parse(op provider.Op, id provider.InstanceID) (string, error) {
	name, err := parseID(id)
	if err != nil {
		return "", provider.WithReason(provider.Wrap(provider.Permanent, op, p.name, string(id), err), provider.ReasonMalformedID)
	}
	return name, nil
}

// outcome classes the error of an operation and logs how it went.
func (p *Provider) outcome(ctx context.Context, op provider.Op, id string, err error, attrs ...any) error {
	err = p.wrap(op, id, err)
	args := append([]any{"op", string(op), "instance", id}, attrs...)
	if err != nil {
		args = append(args, "code", string(provider.ClassOf(err)), "error", err.Error())
	}
	p.log.DebugContext(ctx, "local provider call", args...)
	return err
}
