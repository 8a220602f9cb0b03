package kube

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orchard/internal/sandbox"
	"orchard/internal/sandbox/control"
)

var born = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(seconds int) metav1.Time {
	return metav1.NewTime(born.Add(time.Duration(seconds) * time.Second))
}

// podWith is a Pod of a minute's age with a status that is hard to bring about.
func podWith(change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "sandbox-a", UID: "u", CreationTimestamp: at(0)}}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: at(1)}}
	for _, f := range change {
		f(pod)
	}
	return pod
}

func failed(reason, message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, reason, message
	}
}

func with(kind corev1.PodConditionType, status corev1.ConditionStatus, reason, message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append([]corev1.PodCondition{{Type: kind, Status: status, Reason: reason, Message: message}}, p.Status.Conditions...)
	}
}

func container(state corev1.ContainerState) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: containerName, ContainerID: "c1", State: state})
	}
}

func ended(code int32, reason, message string) func(*corev1.Pod) {
	return container(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: message, FinishedAt: at(40)}})
}

func waits(reason, message string) func(*corev1.Pod) {
	return container(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}})
}

func deletedAfter(seconds int) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		when := at(seconds + 1)
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &when, ptr(int64(1))
	}
}

func running1(p *corev1.Pod) {
	container(corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(3)}})(p)
}

func TestJudge(t *testing.T) {
	t.Parallel()
	o := Defaults()
	spec := sandbox.Spec{Memory: "64Mi", Lifetime: time.Hour, Lease: 90 * time.Second, ReadyTimeout: 5 * time.Minute}
	long, now := sight{pullSince: born, madeSince: born}, born.Add(time.Minute)
	fresh := sight{pullSince: now.Add(-time.Second), madeSince: now.Add(-time.Second)}
	disrupted := func(reason string) func(*corev1.Pod) {
		return with(corev1.DisruptionTarget, corev1.ConditionTrue, reason, "because")
	}
	for _, c := range []struct {
		name   string
		pod    *corev1.Pod
		seen   sight
		reason string // "" is that it has not ended
		says   string
	}{
		{"young", podWith(), sight{}, "", ""},
		{"running", podWith(running1), sight{}, "", ""},
		{"evicted", podWith(failed("Evicted", "the node was low on disk"), ended(137, "Error", "")), sight{}, control.ReasonEvicted, "low on disk"},
		{"no room on the machine", podWith(failed("OutOfcpu", "node had 2")), sight{}, control.ReasonEvicted, "node had 2"},
		{"a device is missing", podWith(failed("OutOfnvidia.com/gpu", "")), sight{}, control.ReasonEvicted, "gpu"},
		{"deadline", podWith(failed("DeadlineExceeded", "Pod was active"), ended(137, "Error", "")), sight{}, control.ReasonLifetime, "1h0m0s"},
		{"node shutdown", podWith(failed("Terminated", "imminent node shutdown")), sight{}, control.ReasonPreempted, "shutdown"},
		{"node lost", podWith(failed("NodeLost", "")), sight{}, control.ReasonNodeLost, ""},
		{"unknown", podWith(func(p *corev1.Pod) { p.Status.Phase = corev1.PodUnknown }), sight{}, control.ReasonNodeLost, ""},
		{"preempted, exit 137", podWith(disrupted("PreemptionByScheduler"), ended(137, "Error", "")), sight{}, control.ReasonPreempted, "because"},
		{"evicted by the API", podWith(disrupted("EvictionByEvictionAPI"), deletedAfter(30)), sight{}, control.ReasonPreempted, "because"},
		{"taint", podWith(disrupted("DeletionByTaintManager"), deletedAfter(30), running1), sight{}, control.ReasonNodeLost, "because"},
		{"about to be preempted", podWith(disrupted("PreemptionByScheduler"), running1), sight{}, "", ""},
		{"disruption that is over", podWith(with(corev1.DisruptionTarget, corev1.ConditionFalse, "x", ""), ended(137, "OOMKilled", "")), sight{}, control.ReasonOOMKilled, "64Mi"},
		{"out of memory", podWith(failed("", ""), ended(137, "OOMKilled", "")), sight{}, control.ReasonOOMKilled, "limit 64Mi"},
		{"out of memory, said by the agent", podWith(failed("", ""), ended(45, "Error", "")), sight{}, control.ReasonOOMKilled, "limit 64Mi"},
		{"plain 137", podWith(failed("", ""), ended(137, "Error", "")), sight{}, control.ReasonAgent, "137"},
		{"lease", podWith(failed("", ""), ended(44, "Error", "")), sight{}, control.ReasonLease, "1m30s"},
		{"shut down", podWith(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, ended(0, "Completed", "")), sight{}, control.ReasonAgent, ""},
		{"bad agent settings", podWith(failed("", ""), ended(78, "Error", "--keys: bad")), sight{}, control.ReasonStart, "--keys: bad"},
		{"cannot be executed", podWith(failed("", ""), ended(128, "StartError", "exec format error")), sight{}, control.ReasonStart, "exec format"},
		{"status lost", podWith(failed("", ""), ended(137, "ContainerStatusUnknown", "")), sight{}, control.ReasonNodeLost, ""},
		{"failed without a word", podWith(failed("Strange", "who knows")), sight{}, control.ReasonStart, "who knows"},
		{"init failed", podWith(func(p *corev1.Pod) {
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "agent", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: "no space"}}}}
		}), sight{}, control.ReasonStart, "no space"},
		{"deleted by somebody", podWith(running1, deletedAfter(30)), sight{}, control.ReasonLost, "somebody else"},
		{"killed by the deletion", podWith(ended(137, "Error", ""), deletedAfter(39)), sight{}, control.ReasonLost, "somebody else"},
		{"ended before the deletion", podWith(ended(137, "OOMKilled", ""), deletedAfter(50)), sight{}, control.ReasonOOMKilled, ""},
		{"image not to be had, just now", podWith(waits("ErrImagePull", "not found")), fresh, "", ""},
		{"image not to be had", podWith(waits("ImagePullBackOff", "Back-off pulling image \"nope:none\": not found")), long, control.ReasonImagePull, "nope:none"},
		{"bad image name", podWith(waits("InvalidImageName", "couldn't parse")), fresh, control.ReasonImagePull, "parse"},
		{"never pulled", podWith(waits("ErrImageNeverPull", "not present")), fresh, control.ReasonImagePull, "not present"},
		{"config error, just now", podWith(waits("CreateContainerConfigError", "no user")), fresh, "", ""},
		{"config error", podWith(waits("CreateContainerConfigError", "no user")), long, control.ReasonStart, "CreateContainerConfigError: no user"},
		{"run error", podWith(waits("RunContainerError", "")), long, control.ReasonStart, "RunContainerError"},
		{"restarted", podWith(running1, func(p *corev1.Pod) { p.Status.ContainerStatuses[0].RestartCount = 1 }), sight{}, control.ReasonReplaced, ""},
		{"another container", podWith(running1), sight{container: "c0"}, control.ReasonReplaced, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := o.judge(c.pod, spec, c.seen, now)
			switch {
			case c.reason == "" && got != nil:
				t.Errorf("ended: %+v", got)
			case c.reason != "" && (got == nil || got.reason != c.reason || !strings.Contains(got.message, c.says)):
				t.Errorf("got %+v, want %s with %q", got, c.reason, c.says)
			}
		})
	}
}

// The time to be ready is over: only for one that nobody has seen ready.
func TestJudgeNotReady(t *testing.T) {
	t.Parallel()
	o := Defaults()
	spec := sandbox.Spec{ReadyTimeout: time.Minute}
	unschedulable := func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available"}}
	}
	late := born.Add(61 * time.Second)
	if e := o.judge(podWith(unschedulable), spec, sight{}, born.Add(59*time.Second)); e != nil {
		t.Errorf("too early: %+v", e)
	}
	if e := o.judge(podWith(unschedulable), spec, sight{}, late); e == nil || e.reason != control.ReasonNotReady || !strings.Contains(e.message, "0/3 nodes") {
		t.Errorf("unschedulable: %+v", e)
	}
	if got := pendingText(podWith(unschedulable)); got != "unschedulable: 0/3 nodes are available" {
		t.Errorf("pending: %q", got)
	}
	if e := o.judge(podWith(running1), spec, sight{ready: born}, late); e != nil {
		t.Errorf("it was ready: %+v", e)
	}
	if e := o.judge(podWith(running1, with(corev1.PodReady, corev1.ConditionTrue, "", "")), spec, sight{}, late); e != nil {
		t.Errorf("the kubelet has seen it ready, only this replica has not: %+v", e)
	}
}

// A long message, parts of which user code may have written, is cut.
func TestTextIsCut(t *testing.T) {
	t.Parallel()
	o := Defaults()
	e := o.judge(podWith(failed("", ""), ended(1, "Error", strings.Repeat("x", 1<<20))), sandbox.Spec{}, sight{}, born)
	if e == nil || len(e.message) > mostText+100 {
		t.Errorf("%d bytes", len(e.message))
	}
}

// How long an image is not to be had counts from the first sight, also over the moments in
// which the kubelet tries again, and not once it was had.
func TestSight(t *testing.T) {
	t.Parallel()
	var s sight
	bad, again := podWith(waits("ErrImagePull", "x")), podWith(waits("PodInitializing", ""))
	for i, pod := range []*corev1.Pod{bad, again, bad} {
		if s.look(pod, born.Add(time.Duration(i)*time.Second)); !s.pullSince.Equal(born) {
			t.Errorf("look %d: since %v", i, s.pullSince)
		}
	}
	if s.look(podWith(running1), born.Add(time.Minute)); !s.pullSince.IsZero() || s.container != "c1" {
		t.Errorf("it runs: %+v", s)
	}
}
