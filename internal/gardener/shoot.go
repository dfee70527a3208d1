package gardener

import (
	"strings"

	corev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/tollgate-dev/tollgate/internal/reporting/event"
)

// Account is the account of the events of a project, and the external id of the
// Gardener project at the Reporting API: the configured account, which stands for
// the Gardener, and the project's name, which is unique in it. Two Gardeners may
// both have a project of that name.
func Account(configured, project string) string { return configured + "/" + project }

// ProjectOf is the project of an account that Account made. ok is false for
// accounts of other Gardeners.
func ProjectOf(configured, account string) (project string, ok bool) {
	project, ok = strings.CutPrefix(account, configured+"/")
	return project, ok && project != "" && !strings.Contains(project, "/")
}

// UID identifies a shoot for its whole life. It is status.uid, which stays when a
// shoot moves to another Gardener, and before that is set metadata.uid, which it
// is set to. A shoot that is made again under the same name has another one.
func UID(s *corev1beta1.Shoot) string {
	if s.Status.UID != "" {
		return string(s.Status.UID)
	}
	return string(s.UID)
}

// Resource is the shoot in events.
func Resource(s *corev1beta1.Shoot) event.Resource {
	return event.Resource{Type: event.Shoot, ID: UID(s), Name: s.Name}
}

// Created reports that the creation of a shoot has ended: it succeeded, or
// something later was done to it, be it a delete. A creation that failed has not
// ended: Gardener goes on with it.
func Created(s *corev1beta1.Shoot) bool {
	op := s.Status.LastOperation
	return op != nil && (op.Type != corev1beta1.LastOperationTypeCreate || op.State == corev1beta1.LastOperationStateSucceeded)
}

// WantsHibernation is what the spec asks for. Status.IsHibernated is the fact;
// hours may lie between them.
func WantsHibernation(s *corev1beta1.Shoot) bool {
	return s.Spec.Hibernation != nil && s.Spec.Hibernation.Enabled != nil && *s.Spec.Hibernation.Enabled
}
