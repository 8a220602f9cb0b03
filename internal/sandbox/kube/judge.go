package kube

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"orchard/internal/sandbox"
	"orchard/internal/sandbox/control"
)

// end is how a sandbox ended.
type end struct {
	reason, message string
	at              time.Time
}

// sight is what a replica has seen of a Pod over time and the Pod itself does not say.
type sight struct {
	ready     time.Time // when its agent first answered
	pullSince time.Time // when its image first could not be had
	madeSince time.Time // when its container first could not be made
	container string    // the first container that ran in it
	open      bool      // its agent says that its network is not closed yet
}

// waitsFor is what a sandbox that is not ready waits for, for people.
func (s sight) waitsFor(pod *corev1.Pod) string {
	if s.open {
		return "its network is not closed yet: a NetworkPolicy is not in force, and nothing runs before it is"
	}
	return pendingText(pod)
}

const (
	makePatience = 10 * time.Second // for a container that cannot be made: the kubelet tries again
	exitLease    = 44               // of an agent whose lease ran out
	exitMemory   = 45               // of an agent whose sandbox ran out of memory
	exitConfig   = 78               // of an agent with bad settings
)

// look remembers what pod shows at now. A trouble lasts, also while the kubelet tries again
// and shows none, until the container is there.
func (s *sight) look(pod *corev1.Pod, now time.Time) {
	if _, bad := pullTrouble(pod); bad && s.pullSince.IsZero() {
		s.pullSince = now
	}
	if _, bad := makeTrouble(pod); bad && s.madeSince.IsZero() {
		s.madeSince = now
	}
	if c := sandboxContainer(pod); c != nil && c.State.Waiting == nil {
		s.pullSince, s.madeSince = time.Time{}, time.Time{}
		if s.container == "" {
			s.container = c.ContainerID
		}
	}
}

// judge is how pod has ended as far as it can tell by itself, nil when it has not.
// Between two looks of one replica an answer never goes back to nil.
func (o *Options) judge(pod *corev1.Pod, spec sandbox.Spec, s sight, now time.Time) *end {
	if e := endOfPhase(pod, spec); e != nil {
		return e
	}
	if e := s.endOfContainer(pod, spec, now); e != nil {
		return e
	}
	if pod.DeletionTimestamp != nil {
		return &end{control.ReasonLost, "its Pod was deleted by somebody else", endedAt(pod)}
	}
	if p := pod.Status.Phase; p == corev1.PodFailed || p == corev1.PodSucceeded {
		return &end{control.ReasonStart, text(pod.Status.Message, text(pod.Status.Reason, "its Pod ended before its container ran")), endedAt(pod)}
	}
	if e := o.endOfStart(pod, s, now); e != nil {
		return e
	}
	// A Pod whose agent the kubelet has reached is not late, whether or not this replica
	// has reached it.
	if deadline := later(pod.CreationTimestamp.Time, claimedAt(pod)).Add(spec.ReadyTimeout); spec.ReadyTimeout > 0 && s.ready.IsZero() && !podReady(pod) && now.After(deadline) {
		return &end{control.ReasonNotReady, fmt.Sprintf("not ready after %v: %s", spec.ReadyTimeout, s.waitsFor(pod)), now}
	}
	return nil
}

// endOfPhase is the end of a Pod that the cluster ended as a whole.
func endOfPhase(pod *corev1.Pod, spec sandbox.Spec) *end {
	status, at := pod.Status, endedAt(pod)
	if status.Phase == corev1.PodUnknown {
		return &end{control.ReasonNodeLost, text(status.Message, "the state of its Pod is unknown"), at}
	}
	c := sandboxContainer(pod)
	over := pod.DeletionTimestamp != nil || status.Phase == corev1.PodFailed || status.Phase == corev1.PodSucceeded ||
		c != nil && c.State.Terminated != nil
	if !over {
		return nil
	}
	if strings.HasPrefix(status.Reason, "OutOf") { // cpu, memory, pods, a device
		return &end{control.ReasonEvicted, text(status.Message, "its machine did not take it: "+status.Reason), at}
	}
	switch status.Reason {
	case "Evicted":
		return &end{control.ReasonEvicted, text(status.Message, "its machine evicted it"), at}
	case "DeadlineExceeded":
		return &end{control.ReasonLifetime, fmt.Sprintf("its lifetime of %v is over", spec.Lifetime), at}
	case "NodeLost":
		return &end{control.ReasonNodeLost, text(status.Message, "its machine does not answer"), at}
	case "Terminated", "Shutdown", "NodeShutdown", "Preempting":
		return &end{control.ReasonPreempted, text(status.Message, "its machine was shut down"), at}
	case "UnexpectedAdmissionError", "NodeAffinity":
		return &end{control.ReasonEvicted, text(status.Message, "its machine did not take it: "+status.Reason), at}
	}
	if d := condition(pod, corev1.DisruptionTarget); d != nil && d.Status == corev1.ConditionTrue {
		reason := control.ReasonPreempted
		if d.Reason == "DeletionByTaintManager" || d.Reason == "DeletionByPodGC" {
			reason = control.ReasonNodeLost
		}
		return &end{reason, text(d.Message, d.Reason), at}
	}
	return nil
}

// endOfContainer is the end of a Pod whose container ended, or was put in another's place.
func (s sight) endOfContainer(pod *corev1.Pod, spec sandbox.Spec, now time.Time) *end {
	for _, c := range pod.Status.InitContainerStatuses {
		if t := c.State.Terminated; t != nil && t.ExitCode != 0 {
			return &end{control.ReasonStart, fmt.Sprintf("the agent could not be put into its Pod: %s", text(t.Message, fmt.Sprintf("%s, exit code %d", t.Reason, t.ExitCode))), t.FinishedAt.Time}
		}
	}
	c := sandboxContainer(pod)
	if c == nil {
		return nil
	}
	if t := c.State.Terminated; t != nil {
		if began := deletedAt(pod); !began.IsZero() && !t.FinishedAt.Time.Before(began) {
			return nil // the deletion ended it
		}
		return endOfTerminated(t, spec)
	}
	if c.RestartCount > 0 || s.container != "" && c.ContainerID != "" && c.ContainerID != s.container {
		return &end{control.ReasonReplaced, "another container has its place, and nothing of what it held", now}
	}
	return nil
}

func endOfTerminated(t *corev1.ContainerStateTerminated, spec sandbox.Spec) *end {
	at := t.FinishedAt.Time
	memory := &end{control.ReasonOOMKilled, fmt.Sprintf("out of memory (limit %s)", spec.Memory), at}
	switch {
	case t.Reason == "OOMKilled", t.ExitCode == exitMemory:
		return memory
	case t.Reason == "ContainerStatusUnknown":
		return &end{control.ReasonNodeLost, text(t.Message, "its machine lost sight of it"), at}
	case t.Reason == "StartError", t.Reason == "ContainerCannotRun", t.ExitCode == exitConfig:
		return &end{control.ReasonStart, text(t.Message, t.Reason), at}
	case t.ExitCode == exitLease:
		return &end{control.ReasonLease, fmt.Sprintf("no heartbeat for %v", spec.Lease), at}
	case t.ExitCode == 0:
		return &end{control.ReasonAgent, "its agent was told to end", at}
	}
	return &end{control.ReasonAgent, fmt.Sprintf("its agent ended with exit code %d: %s", t.ExitCode, text(t.Message, t.Reason)), at}
}

// endOfStart is the end of a Pod that does not come to run.
func (o *Options) endOfStart(pod *corev1.Pod, s sight, now time.Time) *end {
	if w, bad := pullTrouble(pod); bad {
		final := w.Reason == "InvalidImageName" || w.Reason == "ErrImageNeverPull"
		// The first error may take its time: what is left of the patience then, but enough
		// of it for the kubelet to try again.
		lasts := !s.pullSince.IsZero() && now.Sub(s.pullSince) >= o.PullPatience/2 && now.Sub(scheduledAt(pod)) >= o.PullPatience
		if final || lasts {
			return &end{control.ReasonImagePull, text(w.Message, w.Reason), now}
		}
	}
	if w, bad := makeTrouble(pod); bad && !s.madeSince.IsZero() && now.Sub(s.madeSince) >= makePatience {
		return &end{control.ReasonStart, w.Reason + ": " + text(w.Message, "the kubelet does not say more"), now}
	}
	return nil
}

// sandboxContainer is the status of the sandbox itself, nil before there is one.
func sandboxContainer(pod *corev1.Pod) *corev1.ContainerStatus {
	for i := range pod.Status.ContainerStatuses {
		if c := &pod.Status.ContainerStatuses[i]; c.Name == containerName {
			return c
		}
	}
	return nil
}

// waiting is what the Pod's containers wait for, the init container's first.
func waiting(pod *corev1.Pod) []*corev1.ContainerStateWaiting {
	var all []*corev1.ContainerStateWaiting
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, c := range list {
			if c.State.Waiting != nil {
				all = append(all, c.State.Waiting)
			}
		}
	}
	return all
}

func trouble(pod *corev1.Pod, reasons ...string) (*corev1.ContainerStateWaiting, bool) {
	for _, w := range waiting(pod) {
		for _, r := range reasons {
			if w.Reason == r {
				return w, true
			}
		}
	}
	return nil, false
}

// pullTrouble is why an image cannot be had.
func pullTrouble(pod *corev1.Pod) (*corev1.ContainerStateWaiting, bool) {
	return trouble(pod, "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError",
		"RegistryUnavailable", "SignatureValidationFailed")
}

// makeTrouble is why a container cannot be made or started.
func makeTrouble(pod *corev1.Pod) (*corev1.ContainerStateWaiting, bool) {
	return trouble(pod, "CreateContainerConfigError", "CreateContainerError", "RunContainerError", "PreCreateHookError",
		"PreStartHookError", "PostStartHookError", "CrashLoopBackOff")
}
