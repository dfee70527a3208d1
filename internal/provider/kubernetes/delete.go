package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// Delete implements provider.Provider. It returns when the API server has taken
// the deletes; the Pod exists until its node says that it has ended.
func (p *Provider) Delete(ctx context.Context, id provider.InstanceID) error {
	key, err := p.parseID(provider.OpDelete, id)
	if err != nil {
		return err
	}
	if err = p.deletePod(ctx, key); err == nil {
		err = p.deleteParts(ctx, key)
	}
	if err != nil {
		return p.classify(ctx, provider.OpDelete, string(id), err)
	}
	p.log.DebugContext(ctx, "deleted", slog.String("instance", string(id)))
	return nil
}

// deletePod deletes the Pod with the key's uid, and no other of its name.
func (p *Provider) deletePod(ctx context.Context, key instanceKey) error {
	meta := &metav1.ObjectMeta{Namespace: key.namespace, Name: key.name, UID: key.uid}
	b, err := p.sendDelete(ctx, pods, meta, nil)
	if err != nil || p.opt.ForceDeleteAfter == 0 {
		return err
	}
	var pod corev1.Pod
	if json.Unmarshal(b, &pod) != nil || pod.Kind != kindPod || pod.DeletionTimestamp == nil {
		return nil // it was removed at once
	}
	// Its grace ends at the deletion timestamp.
	if late := p.conn.now().Sub(pod.DeletionTimestamp.Time); late > p.opt.ForceDeleteAfter {
		p.log.WarnContext(ctx, "a Pod is deleted without the word of its node", slog.String("instance", key.name),
			slog.String("node", pod.Spec.NodeName), slog.Duration("overdue", late.Round(time.Second)))
		return p.deleteObject(ctx, pods, meta, ptr(int64(0)))
	}
	return nil
}

// deleteObject deletes the object with the uid in meta. One that is gone, or
// whose name another one has by now, is success.
func (p *Provider) deleteObject(ctx context.Context, resource string, meta *metav1.ObjectMeta, grace *int64) error {
	_, err := p.sendDelete(ctx, resource, meta, grace)
	return err
}

func (p *Provider) sendDelete(ctx context.Context, resource string, meta *metav1.ObjectMeta, grace *int64) ([]byte, error) {
	opts := metav1.DeleteOptions{
		TypeMeta: typeMeta("DeleteOptions"), GracePeriodSeconds: grace,
		Preconditions:     &metav1.Preconditions{UID: ptr(meta.UID)},
		PropagationPolicy: ptr(metav1.DeletePropagationBackground),
	}
	b, err := p.do(ctx, call{verb: http.MethodDelete, resource: resource, namespace: meta.Namespace, name: meta.Name, body: opts})
	switch {
	case isNotFound(err):
		return nil, nil
	case isReason(err, metav1.StatusReasonConflict):
		// The precondition failed, which is worded in more than one way, or the API
		// server was overtaken by another change.
		if gone, gerr := p.anotherUID(ctx, resource, meta); gone || gerr != nil {
			return nil, gerr
		}
	}
	if err == nil && !confirms(b, meta) {
		return nil, errAnswer
	}
	return b, err
}

// confirms reports whether an answer says that the object is gone or going. One
// that a gateway gives to everything does not.
func confirms(b []byte, meta *metav1.ObjectMeta) bool {
	var o struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        metav1.ObjectMeta `json:"metadata"`
		Status          json.RawMessage   `json:"status"`
	}
	if json.Unmarshal(b, &o) != nil {
		return false
	}
	if o.Kind == "Status" {
		return string(o.Status) == `"Success"`
	}
	return o.Metadata.UID == meta.UID && o.Metadata.UID != ""
}

// anotherUID reports whether an object has gone, or another one has its name.
func (p *Provider) anotherUID(ctx context.Context, resource string, meta *metav1.ObjectMeta) (bool, error) {
	have, err := p.metadata(ctx, resource, meta.Namespace, meta.Name)
	if isNotFound(err) {
		return true, nil
	}
	return err == nil && have.UID != meta.UID, err
}

// deleteParts removes what was made beside a Pod.
func (p *Provider) deleteParts(ctx context.Context, key instanceKey) error {
	var errs []error
	for _, part := range []struct {
		has      bool
		resource string
	}{{key.parts.secret, secrets}, {key.parts.service, services}} {
		if !part.has {
			continue
		}
		have, err := p.metadata(ctx, part.resource, key.namespace, key.name)
		switch {
		case isNotFound(err):
		case err != nil:
			errs = append(errs, err)
		case ownerOf(&have.ObjectMeta).UID == key.uid: // and not that of a successor
			errs = append(errs, p.deleteObject(ctx, part.resource, &have.ObjectMeta, nil))
		}
	}
	return errors.Join(errs...)
}
