package kube_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"orchard/envctl/client"
)

// replicas is how many controllers the chart starts.
const replicas = 3

// controllerPods are the Pods of the controllers, also those that are not ready.
func controllerPods(ctx context.Context, t testing.TB) []core.Pod {
	t.Helper()
	list, err := API(t).CoreV1().Pods(namespace).List(ctx, meta.ListOptions{LabelSelector: component + "controller"})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// containers runs ctr on the containers of the cluster, which are processes of this machine.
func containers(t testing.TB, args ...string) (out string, err error) {
	t.Helper()
	socket := filepath.Join(filepath.Dir(os.Getenv("KUBECONFIG")), "containerd.sock")
	raw, err := exec.CommandContext(t.Context(), "ctr", append([]string{"-a", socket, "-n", "k8s.io"}, args...)...).CombinedOutput()
	return string(raw), err
}

func containerID(pod core.Pod) string {
	return strings.TrimPrefix(pod.Status.ContainerStatuses[0].ContainerID, "containerd://")
}

// KillContainer ends the first process of a Pod's container as kill -9 does. One that ended just
// before is as good. What comes then is the kubelet's business.
func KillContainer(t testing.TB, pod core.Pod) {
	t.Helper()
	out, err := containers(t, "tasks", "kill", "-s", "SIGKILL", containerID(pod))
	if err != nil && !strings.Contains(out, "not found") {
		t.Fatalf("kill -9 in Pod %s: %v: %s", pod.Name, err, out)
	}
}

// processOf is the first process of a Pod's container, as this machine numbers it.
func processOf(t testing.TB, pod core.Pod) string {
	t.Helper()
	out, err := containers(t, "tasks", "list")
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); err == nil && len(f) > 1 && f[0] == containerID(pod) {
			return f[1]
		}
	}
	t.Fatalf("Pod %s has no container that runs: %v: %s", pod.Name, err, out)
	return ""
}

// InNetworkOf runs a command of this machine in the network of a Pod that runs.
func InNetworkOf(t testing.TB, pod core.Pod, command ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "nsenter", append([]string{"--target", processOf(t, pod), "--net"}, command...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v in the network of Pod %s: %v: %s", command, pod.Name, err, out)
	}
}

// ListenIn listens in the network of a Pod that runs, until the test is over.
func ListenIn(t testing.TB, pod core.Pod, address string) net.Listener {
	t.Helper()
	network, err := os.Open("/proc/" + processOf(t, pod) + "/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	defer network.Close()
	var l net.Listener
	listening := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with this, and nothing else runs there
		err := unix.Setns(int(network.Fd()), unix.CLONE_NEWNET)
		if err == nil {
			l, err = net.Listen("tcp", address)
		}
		listening <- err
	}()
	if err := <-listening; err != nil {
		t.Fatalf("listen on %s in the network of Pod %s: %v", address, pod.Name, err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// AllReady waits until every replica serves, and none is on its way out.
func AllReady(t testing.TB) {
	t.Helper()
	Eventually(t, "ready replicas", func(context.Context) string {
		if n, all := len(Replicas(t)), len(controllerPods(t.Context(), t)); n != replicas || all != replicas {
			return fmt.Sprintf("%d of %d are ready", n, all)
		}
		return ""
	})
}

// scale sets how many controllers there should be.
func scale(t testing.TB, n int32) {
	t.Helper()
	deployments := API(t).AppsV1().Deployments(namespace)
	list, err := deployments.List(context.Background(), meta.ListOptions{LabelSelector: component + "controller"})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("%d Deployments of controllers: %v", len(list.Items), err)
	}
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		s, err := deployments.GetScale(context.Background(), list.Items[0].Name, meta.GetOptions{})
		if err != nil {
			return err
		}
		s.Spec.Replicas = n
		_, err = deployments.UpdateScale(context.Background(), s.Name, s, meta.UpdateOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// NoControllers ends them all without a warning. back starts as many again; it is called at
// the test's end at the latest.
func NoControllers(t testing.TB) (back func()) {
	t.Helper()
	AllReady(t)
	back = func() { scale(t, replicas) }
	t.Cleanup(func() {
		back()
		Eventually(cleaning{t}, "ready replicas", func(context.Context) string {
			if n := len(Replicas(cleaning{t})); n != replicas {
				return fmt.Sprint(n, " are ready")
			}
			return ""
		})
	})
	scale(t, 0)
	now := int64(0)
	for _, p := range controllerPods(t.Context(), t) {
		KillContainer(t, p)
		if err := API(t).CoreV1().Pods(namespace).Delete(t.Context(), p.Name, meta.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
			t.Fatal(err)
		}
	}
	Eventually(t, "no controllers", func(ctx context.Context) string {
		if n := len(controllerPods(ctx, t)); n > 0 {
			return fmt.Sprint(n, " are there")
		}
		return ""
	})
	return back
}

// cleaning is a test whose context has ended, as it has in a cleanup.
type cleaning struct{ testing.TB }

// Context is one that lives.
func (cleaning) Context() context.Context { return context.Background() }

// FailedAs waits until a sandbox has ended for a reason, and its Pod has gone; every replica says
// the same of it.
func FailedAs(t testing.TB, id, reason string, retryable bool) client.Info {
	t.Helper()
	var info client.Info
	for _, url := range Replicas(t) {
		Eventually(t, "ended for "+reason, func(context.Context) string {
			var err error
			info, err = SDK(t, url).Sandbox(id).Info(t.Context())
			if err != nil || info.Status != client.Failed {
				return fmt.Sprintf("%v, %s %s", err, info.Status, info.Message)
			}
			return ""
		})
		if info.Reason != reason || info.Retryable != retryable {
			t.Errorf("sandbox %s ended as %s (%s), retryable %v; want %s, %v", id, info.Reason, info.Message, info.Retryable, reason, retryable)
		}
	}
	Gone(t, id)
	return info
}

// Gone waits until the Pods of sandboxes are no more.
func Gone(t testing.TB, ids ...string) {
	t.Helper()
	Eventually(t, "the Pods are gone", func(context.Context) string {
		var left []string
		for _, p := range podsOf(t.Context(), t, "") {
			if slices.Contains(ids, p.Labels["sandbox-id"]) {
				left = append(left, p.Name)
			}
		}
		return strings.Join(left, " ")
	})
}

// podsOf are the Pods of the sandboxes whose ids begin with prefix.
func podsOf(ctx context.Context, t testing.TB, prefix string) (pods []core.Pod) {
	t.Helper()
	list, err := API(t).CoreV1().Pods(sandboxNamespace).List(ctx, meta.ListOptions{LabelSelector: "app=sandbox"})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list.Items {
		if strings.HasPrefix(p.Labels["sandbox-id"], prefix) {
			pods = append(pods, p)
		}
	}
	return pods
}

// leftovers are what is there because of sandboxes whose ids begin with prefix, but for the
// records of their ends.
func leftovers(ctx context.Context, t testing.TB, prefix string) (all []string) {
	t.Helper()
	for _, p := range podsOf(ctx, t, prefix) {
		all = append(all, "Pod "+p.Name)
	}
	keep := func(kind string, objects ...meta.ObjectMeta) {
		for _, o := range objects {
			if strings.Contains(o.Name+" "+o.Labels["sandbox-id"], prefix) && o.Labels["app"] != "sandbox-tombstone" {
				all = append(all, kind+" "+o.Name)
			}
		}
	}
	policies, err := API(t).NetworkingV1().NetworkPolicies(sandboxNamespace).List(ctx, meta.ListOptions{})
	errs := []error{err}
	for _, o := range policies.Items {
		keep("NetworkPolicy", o.ObjectMeta)
	}
	maps, err := API(t).CoreV1().ConfigMaps(sandboxNamespace).List(ctx, meta.ListOptions{})
	for _, o := range maps.Items {
		keep("ConfigMap", o.ObjectMeta)
	}
	secrets, err2 := API(t).CoreV1().Secrets(sandboxNamespace).List(ctx, meta.ListOptions{})
	for _, o := range secrets.Items {
		keep("Secret", o.ObjectMeta)
	}
	if err := errors.Join(append(errs, err, err2)...); err != nil {
		t.Fatal(err)
	}
	return all
}
