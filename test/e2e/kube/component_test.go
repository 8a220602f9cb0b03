package kube_test

import (
	"context"
	"os/exec"
	"strings"
	"testing"
)

// Part is a process of the test cluster. Test/cluster/component.sh knows how each is
// started and when it is healthy.
type Part struct {
	t    testing.TB
	name string
}

// Component is one of etcd, apiserver, controller-manager, scheduler, containerd, coredns,
// kubelet, kube-proxy, kube-router, workflow-controller and minio.
func Component(t testing.TB, name string) Part { return Part{t, name} }

// Restart ends the process and starts it with the same arguments; it is healthy then.
func (p Part) Restart() { p.t.Helper(); p.must("restart") }

// Stop ends the process. It is started again when the test is over.
func (p Part) Stop() {
	p.t.Helper()
	p.must("stop")
	p.t.Cleanup(p.Start)
}

// Start starts the process, unless it runs, and returns when it is healthy.
func (p Part) Start() { p.t.Helper(); p.must("start") }

// Status is "running" when it is healthy, "stopped" when there is no process.
func (p Part) Status() string { p.t.Helper(); return p.must("status") }

func (p Part) must(verb string) string {
	p.t.Helper()
	if verb != "status" && !strings.HasPrefix(p.t.Name(), "TestPart") {
		p.t.Fatalf("%s %s: only tests named TestPart… do that, for they run alone", verb, p.name)
	}
	// Not the test's context: what is begun in a cleanup must end too.
	out, err := exec.CommandContext(context.Background(), "../../cluster/component.sh", verb, p.name).CombinedOutput()
	said := strings.TrimSpace(string(out))
	if err != nil {
		p.t.Fatalf("%s %s: %v: %s", verb, p.name, err, said)
	}
	return said
}

// parts is what the cluster cannot do without.
var parts = []string{"etcd", "apiserver", "controller-manager", "scheduler", "containerd", "coredns", "kubelet", "kube-proxy", "kube-router"}

func TestPartsAreHealthy(t *testing.T) {
	for _, name := range parts {
		if got := Component(t, name).Status(); got != "running" {
			t.Errorf("%s is %s", name, got)
		}
	}
}

// A restart of anything leaves the Pods as they are: same container, same process.
func TestPartsRestartPodsLiveOn(t *testing.T) {
	ns := Namespace(t)
	pod := RunPod(t, ns, "server", bareImage, nil, "/bare", "listen", ":7000")
	dial := "/bare dial " + pod.Status.PodIP + ":7000"
	for _, name := range parts {
		Component(t, name).Restart()
		if got := Component(t, name).Status(); got != "running" {
			t.Fatalf("%s is %s", name, got)
		}
	}
	if code, log := Outcome(t, ns, "after", bareImage, nil, strings.Fields(dial)...); code != 0 {
		t.Errorf("the Pod does not answer any more: exit %d, %s", code, log)
	}
	now := GetPod(t, ns, "server")
	if was, is := pod.Status.ContainerStatuses[0], now.Status.ContainerStatuses[0]; was.ContainerID != is.ContainerID || is.RestartCount != 0 {
		t.Errorf("container %s became %s, restarts %d", was.ContainerID, is.ContainerID, is.RestartCount)
	}
}

// A component that is stopped is down, and starts with the command it had.
func TestPartStopsAndStarts(t *testing.T) {
	dns := Component(t, "coredns")
	dns.Stop()
	if got := dns.Status(); got != "stopped" {
		t.Errorf("coredns is %s after a stop", got)
	}
	dns.Start()
	if got := dns.Status(); got != "running" {
		t.Errorf("coredns is %s after a start", got)
	}
}
