package kubernetes

import (
	"cmp"
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// rawTerminating is what kubectl calls a Pod that is being deleted. It is no
// phase.
const rawTerminating = "Terminating"

// states maps the phases of a Pod. One that is Failed or Succeeded is not
// started again, by nobody: containers that end are, and their Pod stays
// Running.
func states() map[string]provider.State {
	return map[string]provider.State{
		string(corev1.PodPending):   provider.StateProvisioning,
		string(corev1.PodRunning):   provider.StateRunning,
		string(corev1.PodFailed):    provider.StateStopped,
		string(corev1.PodSucceeded): provider.StateStopped,
		// The node does not answer: it may come back with the Pod, and its eviction
		// deletes the Pod otherwise.
		string(corev1.PodUnknown): provider.StateProvisioning,
		// A Pod that nobody has looked at yet.
		"": provider.StateProvisioning,
	}
}

// stateOf is the state of a Pod and the word for it that people know.
func (p *Provider) stateOf(ctx context.Context, pod *corev1.Pod, id provider.InstanceID) (provider.State, string) {
	if pod.DeletionTimestamp != nil {
		return provider.StateTerminated, rawTerminating
	}
	phase := string(pod.Status.Phase)
	state := p.Map(ctx, phase, id)
	raw := phase
	switch pod.Status.Phase {
	case corev1.PodFailed, corev1.PodUnknown:
		raw = cmp.Or(pod.Status.Reason, phase) // Evicted, NodeLost, Shutdown ...
	case corev1.PodPending, "":
		raw = cmp.Or(whyPending(pod), phase, string(corev1.PodPending))
	case corev1.PodRunning:
		// A proxy that waits for its next start, or is between two, serves nobody
		// now. It is started again at the same address, so it is not gone. What a
		// webhook has put beside it is not asked: the probe tells whether it matters.
		if why := whyNotUp(proxyStatus(pod)); why != "" {
			state, raw = provider.StateProvisioning, why
		}
	}
	return state, raw
}

// maxWhy bounds what is said about a Pod that waits, in bytes.
const maxWhy = 300

// whyPending is why a Pod has not started: ImagePullBackOff, or Unschedulable
// with the scheduler's own words. The Pod stays, since it is what an autoscaler
// makes nodes for; the proxy's never-healthy limit ends the wait.
func whyPending(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			why := cmp.Or(c.Reason, "NotScheduled")
			if c.Message != "" {
				why += ": " + c.Message
			}
			// A character that is cut in two would make no text of the whole.
			return strings.ToValidUTF8(why[:min(len(why), maxWhy)], "")
		}
	}
	return whyNotUp(append(slices.Clone(pod.Status.InitContainerStatuses), pod.Status.ContainerStatuses...))
}

// proxyStatus is what is known of the proxy's own container.
func proxyStatus(pod *corev1.Pod) []corev1.ContainerStatus {
	return slices.DeleteFunc(slices.Clone(pod.Status.ContainerStatuses), func(s corev1.ContainerStatus) bool { return s.Name != ContainerName })
}

// whyNotUp is what keeps containers from running, empty when nothing does.
func whyNotUp(containers []corev1.ContainerStatus) string {
	for _, s := range containers {
		switch {
		case s.State.Waiting != nil && s.State.Waiting.Reason != "":
			return s.State.Waiting.Reason // ContainerCreating, ImagePullBackOff, CrashLoopBackOff ...
		case s.State.Terminated != nil && s.Name == ContainerName:
			return cmp.Or(s.State.Terminated.Reason, "Terminated") // Error, OOMKilled, Completed
		}
	}
	return ""
}
