package kubernetes

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// Kinds of companions.
const (
	KindSecret  = "secret"
	KindService = "service"
)

var companionKinds = []struct{ kind, resource string }{{KindSecret, secrets}, {KindService, services}}

// ListCompanions implements provider.Companions. Contents are not asked for.
func (p *Provider) ListCompanions(ctx context.Context, sel provider.Selector) ([]provider.Companion, error) {
	out, err := p.listCompanions(ctx, sel)
	if err != nil {
		return nil, p.classify(ctx, provider.OpListCompanions, "", err)
	}
	return out, nil
}

func (p *Provider) listCompanions(ctx context.Context, sel provider.Selector) ([]provider.Companion, error) {
	var out []provider.Companion
	owners := map[types.UID][]int{} // indexes in out by the owning Pod
	for _, k := range companionKinds {
		all, err := list[metav1.PartialObjectMetadata](ctx, p, call{resource: k.resource, namespace: p.opt.Namespace, metadataOnly: true}, kindMetadataList, sel)
		if err != nil {
			return nil, err
		}
		for _, o := range all {
			marks, _ := MarksOf(o.Labels, o.Annotations)
			if !sel.Matches(marks) {
				continue
			}
			owner := ownerOf(&o.ObjectMeta).UID
			owners[owner] = append(owners[owner], len(out))
			out = append(out, provider.Companion{Kind: k.kind, ID: strings.Join([]string{o.Namespace, o.Name, string(o.UID)}, "/"),
				Name: o.Name, Marks: marks, CreatedAt: o.CreationTimestamp.UTC()})
		}
	}
	if len(out) == 0 {
		return nil, nil
	}
	// A part is made after its Pod: whoever has one in use was there before, and
	// is in a listing made after it.
	running, err := list[metav1.PartialObjectMetadata](ctx, p, call{resource: pods, namespace: p.opt.Namespace, metadataOnly: true}, kindMetadataList, sel)
	if err != nil {
		return nil, err
	}
	for _, o := range running {
		for _, i := range owners[o.UID] {
			out[i].AttachedTo = keyOf(&corev1.Pod{ObjectMeta: o.ObjectMeta}).id()
		}
	}
	return out, nil
}

// DeleteCompanion implements provider.Companions. A Pod goes on with what it has
// mounted.
func (p *Provider) DeleteCompanion(ctx context.Context, c provider.Companion) error {
	meta, resource, err := p.companion(c)
	if err != nil {
		return err
	}
	have, err := p.metadata(ctx, resource, meta.Namespace, meta.Name)
	switch {
	case isNotFound(err), err == nil && have.UID != meta.UID:
		return nil
	case err == nil:
		if m, _ := MarksOf(have.Labels, have.Annotations); m.Installation != c.Marks.Installation || m.UID != c.Marks.UID || m.Installation == "" {
			return provider.Wrap(provider.Conflict, provider.OpDeleteCompanion, p.name, c.ID,
				fmt.Errorf("the %s belongs to uid %q of installation %q by now", c.Kind, m.UID, m.Installation))
		}
		err = p.deleteObject(ctx, resource, meta, nil)
	}
	if err != nil {
		return p.classify(ctx, provider.OpDeleteCompanion, c.ID, err)
	}
	p.log.DebugContext(ctx, "companion deleted", slog.String("kind", c.Kind), slog.String("name", c.Name))
	return nil
}

func (p *Provider) companion(c provider.Companion) (*metav1.ObjectMeta, string, error) {
	f := strings.Split(c.ID, "/")
	for _, k := range companionKinds {
		if k.kind == c.Kind && len(f) == 3 && provider.ValidateName("", f[0]) == nil && provider.ValidateName("", f[1]) == nil && uidForm.MatchString(f[2]) {
			return &metav1.ObjectMeta{Namespace: f[0], Name: f[1], UID: types.UID(f[2])}, k.resource, nil
		}
	}
	return nil, "", provider.WithReason(provider.Wrap(provider.Permanent, provider.OpDeleteCompanion, p.name, c.ID,
		fmt.Errorf("companion %q of kind %q is none of this provider's", c.ID, c.Kind)), provider.ReasonMalformedID)
}
