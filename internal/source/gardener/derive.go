package gardener

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tollgate-dev/tollgate/internal/gardener"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
)

// Seek implements source.Source. A watch has no past: from the cursor everything
// that exists is read, and what of it was reported already, or happened before t
// as far as that is known, is left out.
func (s *Source) Seek(ctx context.Context, t time.Time) (source.Cursor, error) {
	if err := ctx.Err(); err != nil {
		return "", s.wrap(source.OpSeek, err)
	}
	return source.EncodeCursor(position{V: positionVersion, Since: t.UTC()}), nil
}

// Derive implements source.Source. What happened, and when, is in the reference;
// the size comes from the shoot if it still is as the change has left it, and is
// unknown otherwise.
func (s *Source) Derive(ctx context.Context, ref source.Ref) ([]source.Item, error) {
	ctx = provider.ContextWithOp(ctx, source.OpDerive)
	f, err := s.dereference(ref)
	if err != nil {
		return nil, err
	}
	item, err := s.derive(ctx, f)
	if err != nil {
		return nil, s.wrap(source.OpDerive, cause(ctx, err))
	}
	return []source.Item{item}, nil
}

func (s *Source) derive(ctx context.Context, f reference) (source.Item, error) {
	project := f.project
	if project == "" {
		var err error
		if project, err = s.projects.Name(ctx, f.namespace); err != nil {
			return source.Item{}, err
		}
	}
	st := state{uid: f.uid, namespace: f.namespace, name: f.name}
	c := change{verb: f.verb, id: f.id, at: f.at}
	now, err := s.shoot(ctx, f)
	if err != nil {
		return source.Item{}, err
	}
	if now != nil {
		st.region = now.region
		for _, same := range changes(nil, *now) {
			if same.verb == f.verb && same.id == f.id {
				same.at = f.at
				return s.item(st, project, same), nil
			}
		}
	}
	switch f.verb {
	case source.VerbDelete:
		if c.size, err = s.reportedSize(ctx, project, f.uid); err != nil {
			return source.Item{}, err
		}
		c.unknown = source.UnknownFields(event.Gardener, event.Shoot, c.size)
	case verbScale, verbMachineType:
		// The size that the change has led to was another one, or may have been.
		c.unknown = source.UnknownFields(event.Gardener, event.Shoot, nil)
		if now != nil && slices.Contains(resizeIDs(*now), f.id) {
			c.size, c.unknown = now.size(), nil
		}
	case source.VerbCreate:
		c.unknown = source.UnknownFields(event.Gardener, event.Shoot, nil)
	}
	return s.item(st, project, c), nil
}

// shoot is the shoot of a reference as it is; nil when it is gone, or another one
// has its name.
func (s *Source) shoot(ctx context.Context, f reference) (*state, error) {
	if f.namespace == unknownNamespace {
		return nil, nil
	}
	c, ctx, cancel, err := s.call(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	sh, err := c.Shoots(f.namespace).Get(ctx, f.name, metav1.GetOptions{})
	switch {
	case gardener.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	if st := observe(sh); st.uid == f.uid {
		return &st, nil
	}
	return nil, nil
}

func (s *Source) reportedSize(ctx context.Context, project, uid string) (event.Size, error) {
	if s.known == nil {
		return nil, nil
	}
	r := event.Resource{Type: event.Shoot, ID: uid}
	known, err := s.known(ctx, event.Gardener, gardener.Account(s.account, project), []event.Resource{r})
	return known[r].Size, err
}
