package kube_test

import (
	"context"
	"fmt"
	"testing"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The images that test/e2e/kube/images makes: bash with GNU tools and git, a shell that is
// not bash and nothing else, and one static program.
const (
	bashImage = "localhost/orchard-test/bash:1"
	shImage   = "localhost/orchard-test/sh:1"
	bareImage = "localhost/orchard-test/bare:1"
)

// StartPod makes a Pod of one container.
func StartPod(t testing.TB, ns, name, image string, labels map[string]string, command ...string) {
	t.Helper()
	grace, never := int64(0), false
	pod := &core.Pod{
		ObjectMeta: meta.ObjectMeta{Name: name, Labels: labels},
		Spec: core.PodSpec{
			RestartPolicy: core.RestartPolicyNever, TerminationGracePeriodSeconds: &grace, AutomountServiceAccountToken: &never,
			Containers: []core.Container{{Name: "main", Image: image, ImagePullPolicy: core.PullNever, Command: command}},
		},
	}
	if _, err := API(t).CoreV1().Pods(ns).Create(t.Context(), pod, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// GetPod is the Pod as it is now.
func GetPod(t testing.TB, ns, name string) *core.Pod {
	t.Helper()
	pod, err := API(t).CoreV1().Pods(ns).Get(t.Context(), name, meta.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

// RunPod is a Pod that runs.
func RunPod(t testing.TB, ns, name, image string, labels map[string]string, command ...string) *core.Pod {
	t.Helper()
	StartPod(t, ns, name, image, labels, command...)
	return awaitPhase(t, ns, name, core.PodRunning)
}

// Outcome runs a Pod to its end: the exit code and what it printed.
func Outcome(t testing.TB, ns, name, image string, labels map[string]string, command ...string) (code int32, log string) {
	t.Helper()
	StartPod(t, ns, name, image, labels, command...)
	pod := awaitPhase(t, ns, name, core.PodSucceeded, core.PodFailed)
	raw, err := API(t).CoreV1().Pods(ns).GetLogs(name, &core.PodLogOptions{}).DoRaw(t.Context())
	if err != nil {
		t.Fatalf("log of Pod %s: %v", name, err)
	}
	end := pod.Status.ContainerStatuses[0].State.Terminated
	if end == nil {
		t.Fatalf("Pod %s is %s: %s", name, pod.Status.Phase, pod.Status.Message)
	}
	return end.ExitCode, string(raw)
}

func awaitPhase(t testing.TB, ns, name string, phases ...core.PodPhase) *core.Pod {
	t.Helper()
	var pod *core.Pod
	Eventually(t, fmt.Sprint("Pod ", name, " ", phases), func(ctx context.Context) string {
		var err error
		if pod, err = API(t).CoreV1().Pods(ns).Get(ctx, name, meta.GetOptions{}); err != nil {
			return err.Error()
		}
		for _, phase := range phases {
			if pod.Status.Phase == phase {
				return ""
			}
		}
		return fmt.Sprintf("it is %s: %+v", pod.Status.Phase, pod.Status.ContainerStatuses)
	})
	return pod
}
