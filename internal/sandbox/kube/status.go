package kube

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// mostText bounds what is kept of a message: parts of it may be user code's.
const mostText = 1024

// text is message, cut, or fallback when there is none.
func text(message, fallback string) string {
	if message == "" {
		message = fallback
	}
	if len(message) > mostText {
		message = message[:mostText] + "…"
	}
	return message
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func condition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == kind {
			return c
		}
	}
	return nil
}

// podReady reports whether the kubelet's probe has reached the agent.
func podReady(pod *corev1.Pod) bool {
	c := condition(pod, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

// scheduledAt is when a machine began to hold resources for the Pod; zero is not yet.
func scheduledAt(pod *corev1.Pod) time.Time {
	if c := condition(pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionTrue {
		return c.LastTransitionTime.Time
	}
	return time.Time{}
}

// endedAt is when the Pod ended as it says itself; zero is that it does not say.
func endedAt(pod *corev1.Pod) time.Time {
	if c := sandboxContainer(pod); c != nil && c.State.Terminated != nil {
		return c.State.Terminated.FinishedAt.Time
	}
	return deletedAt(pod)
}

// deletedAt is when somebody asked for the Pod's deletion; zero is never.
func deletedAt(pod *corev1.Pod) time.Time {
	if pod.DeletionTimestamp == nil {
		return time.Time{}
	}
	at := pod.DeletionTimestamp.Time
	if s := pod.DeletionGracePeriodSeconds; s != nil {
		at = at.Add(-time.Duration(*s) * time.Second)
	}
	return at
}

// pendingText is what a Pod that does not run yet waits for, for people.
func pendingText(pod *corev1.Pod) string {
	if c := condition(pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse {
		if c.Reason == corev1.PodReasonUnschedulable {
			return "unschedulable: " + text(c.Message, "no machine takes it")
		}
		return text(c.Message, c.Reason)
	}
	if scheduledAt(pod).IsZero() {
		return "it waits for a machine"
	}
	for _, bad := range []func(*corev1.Pod) (*corev1.ContainerStateWaiting, bool){pullTrouble, makeTrouble} {
		if w, ok := bad(pod); ok {
			return w.Reason + ": " + text(w.Message, "the kubelet does not say more")
		}
	}
	c := sandboxContainer(pod)
	switch {
	case c != nil && c.State.Running != nil:
		return "its agent does not answer yet"
	case len(pod.Status.InitContainerStatuses) > 0 && pod.Status.InitContainerStatuses[0].State.Terminated == nil:
		return "the agent is put into its Pod"
	}
	return "its image is pulled, and its container made"
}
