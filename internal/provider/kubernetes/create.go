package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// Resources of the API.
const (
	pods     = "pods"
	secrets  = "secrets"
	services = "services"
)

// Create implements provider.Provider.
func (p *Provider) Create(ctx context.Context, req provider.CreateRequest) (provider.InstanceID, error) {
	pod, err := p.create(ctx, req)
	if err != nil {
		return "", p.classify(ctx, provider.OpCreate, req.Name, err, secretsOf(req)...)
	}
	id := keyOf(pod).id()
	p.log.DebugContext(ctx, "created", slog.String("instance", string(id)), slog.Int("cloud_init_bytes", req.CloudInit.Len()))
	return id, nil
}

func secretsOf(req provider.CreateRequest) []provider.Sensitive {
	out := []provider.Sensitive{req.CloudInit}
	if req.Auth != nil {
		out = append(out, req.Auth.Password)
	}
	return out
}

func (p *Provider) create(ctx context.Context, req provider.CreateRequest) (*corev1.Pod, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	pl, err := p.planFor(req)
	if err != nil {
		return nil, err
	}
	pod, err := p.ensurePod(ctx, req, pl.pod)
	if err != nil || pod.DeletionTimestamp != nil {
		return pod, err
	}
	if err := p.ensureParts(ctx, req, pl, pod); err != nil {
		// Whichever attempt has made the Pod: no attempt has given it to anybody, and
		// without its part it serves nobody.
		if final(err) {
			p.dropPod(ctx, pod)
		}
		return nil, err
	}
	return pod, nil
}

// final reports whether a part is refused in a way that the next attempt will
// not change. Otherwise the Pod waits for it.
func final(err error) bool {
	return errors.Is(err, provider.Conflict) || refused(err) && judge(provider.OpCreate, err).class != provider.Transient
}

// ensurePod makes the Pod or finds the one that an earlier attempt has made.
func (p *Provider) ensurePod(ctx context.Context, req provider.CreateRequest, want *corev1.Pod) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	err := p.read(ctx, call{verb: http.MethodPost, resource: pods, namespace: want.Namespace, body: want}, kindPod, pod)
	switch {
	case err == nil && pod.Name != want.Name:
		return nil, errAnswer
	case err == nil:
		return pod, nil
	case !refused(err):
		return nil, err
	}
	// Whatever the refusal says, the Pod may be there: a quota that our own Pod has
	// used up is looked at before the name is.
	have, gerr := p.pod(ctx, want.Namespace, want.Name)
	switch {
	case isNotFound(gerr) && isReason(err, metav1.StatusReasonAlreadyExists):
		return nil, provider.Wrap(provider.Transient, provider.OpCreate, p.name, req.Name,
			errors.New("the name was taken, and no Pod has it by now"))
	case gerr != nil && isReason(err, metav1.StatusReasonAlreadyExists):
		return nil, gerr
	case gerr != nil:
		return nil, err
	}
	if err := provider.VerifyAdoption(p.name, req, p.instance(ctx, have, nil)); err != nil {
		return nil, err
	}
	p.log.DebugContext(ctx, "adopted", slog.String("instance", req.Name))
	return have, nil
}

// ensureParts makes what belongs to a Pod and lacks. The Pod says what does: the
// configuration may be another one than when an earlier attempt made it.
func (p *Provider) ensureParts(ctx context.Context, req provider.CreateRequest, pl plan, pod *corev1.Pod) error {
	has := keyOf(pod).parts
	if pl.secret != nil && has.secret {
		ownedBy(&pl.secret.ObjectMeta, pod)
		if err := p.ensurePart(ctx, req, secrets, &pl.secret.ObjectMeta, pl.secret); err != nil {
			return err
		}
	}
	if pl.service != nil && has.service {
		ownedBy(&pl.service.ObjectMeta, pod)
		return p.ensurePart(ctx, req, services, &pl.service.ObjectMeta, pl.service)
	}
	return nil
}

// partTries is how often a part is made anew that an earlier Pod of the name has
// left behind.
const partTries = 3

func (p *Provider) ensurePart(ctx context.Context, req provider.CreateRequest, resource string, want *metav1.ObjectMeta, body any) error {
	for range partTries {
		var made metav1.PartialObjectMetadata
		err := p.read(ctx, call{verb: http.MethodPost, resource: resource, namespace: want.Namespace, body: body, metadataOnly: true},
			kindMetadata, &made)
		if err == nil || !refused(err) {
			return err
		}
		have, gerr := p.metadata(ctx, resource, want.Namespace, want.Name)
		switch {
		case isNotFound(gerr) && isReason(err, metav1.StatusReasonAlreadyExists):
			continue
		case gerr != nil && isReason(err, metav1.StatusReasonAlreadyExists):
			return gerr // whose it is was not learned
		case gerr != nil:
			return err
		}
		owner, ours := ownerOf(&have.ObjectMeta), ownerOf(want)
		if m, _ := MarksOf(have.Labels, have.Annotations); !m.SameOwner(req.Marks) {
			return provider.Wrap(provider.Conflict, provider.OpCreate, p.name, req.Name,
				fmt.Errorf("the name of the %s %s/%s is taken by one that is not ours", resource, want.Namespace, want.Name))
		}
		if owner.UID == ours.UID && have.DeletionTimestamp == nil {
			return nil
		}
		// It belongs to a Pod of that name that is gone, and would go after it.
		if derr := p.deleteObject(ctx, resource, &have.ObjectMeta, nil); derr != nil {
			return derr
		}
	}
	return provider.Wrap(provider.Transient, provider.OpCreate, p.name, req.Name,
		fmt.Errorf("the %s of an earlier Pod of the name do not go", resource))
}

// cleanupTime bounds what a failed create removes behind itself.
const cleanupTime = 20 * time.Second

// dropPod removes the Pod of a create that cannot be completed. What cannot be
// removed is found by the retry or by the sweep.
func (p *Provider) dropPod(ctx context.Context, pod *corev1.Pod) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
	defer cancel()
	key := keyOf(pod)
	err := p.deletePod(ctx, key)
	if err == nil {
		err = p.deleteParts(ctx, key)
	}
	if err != nil {
		p.log.WarnContext(ctx, "a failed create left something behind, it will be swept", slog.String("instance", pod.Name),
			slog.Any("error", p.classify(ctx, provider.OpCreate, pod.Name, err)))
	}
}
