package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"orchard/agent/wire"
	"orchard/internal/sandbox"
	"orchard/internal/sandbox/control"
	"orchard/internal/seal"
	"orchard/test/e2e/suite"
)

// The images of the test cluster: with bash, with only sh, with neither.
var (
	agentImage = env("ORCHARD_AGENT_IMAGE", "localhost/orchard/agent:dev")
	imageBash  = env("ORCHARD_E2E_IMAGE_BASH", "localhost/orchard-test/bash:1")
	imageSh    = env("ORCHARD_E2E_IMAGE_SH", "localhost/orchard-test/sh:1")
	imageBare  = env("ORCHARD_E2E_IMAGE_BARE", "localhost/orchard-test/bare:1")
)

func env(name, fallback string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return fallback
}

// patience bounds what should take seconds.
const patience = 90 * time.Second

// site is a namespace of the real cluster that is set up for sandboxes, and what made it.
type site struct {
	client kubernetes.Interface
	opts   Options
}

// newSite skips where there is no cluster. The namespace goes with the test.
func newSite(t testing.TB) *site {
	t.Helper()
	suite.Need(t)
	opts := Defaults()
	opts.Kubeconfig, opts.AgentImage, opts.Key = os.Getenv("KUBECONFIG"), agentImage, newKey(t)
	opts.Namespace = "kube-test-" + seal.Random(4)
	opts.DiskLimit = "1Gi"
	config, err := clientcmd.BuildConfigFromFlags("", opts.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS, config.Burst = 200, 400
	s := &site{opts: opts}
	if s.client, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	_, err = s.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: opts.Namespace}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.client.CoreV1().Namespaces().Delete(context.Background(), opts.Namespace, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	policy := denyAll(opts.Namespace)
	if _, err := s.client.NetworkingV1().NetworkPolicies(opts.Namespace).Create(t.Context(), policy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return s
}

// denyAll shuts everything but the agent's port, which the test as a process of the node
// and Pods that say so reach.
func denyAll(namespace string) *networkv1.NetworkPolicy {
	port := intstr.FromInt32(agentPort)
	return &networkv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "sandbox-default-deny", Namespace: namespace},
		Spec: networkv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{labelApp: appSandbox}},
			PolicyTypes: []networkv1.PolicyType{networkv1.PolicyTypeIngress, networkv1.PolicyTypeEgress},
			Ingress: []networkv1.NetworkPolicyIngressRule{{
				From:  []networkv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{labelApp: "orchard-controller"}}}},
				Ports: []networkv1.NetworkPolicyPort{{Port: &port}},
			}},
		},
	}
}

// open is one more replica on the site.
func (s *site) open(t testing.TB) *Runtime {
	t.Helper()
	r, err := New(t.Context(), s.opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func small(image string) sandbox.Spec {
	return sandbox.Spec{
		ID: "s-" + seal.Random(4), Image: image, CPU: "500m", Memory: "128Mi", Reserve: sandbox.Reserve{CPU: "20m", Memory: "32Mi"},
		Workdir: "/workspace", ReadyTimeout: 2 * time.Minute, Lifetime: 10 * time.Minute,
	}
}

// begin is a ready sandbox.
func begin(t testing.TB, r *Runtime, spec sandbox.Spec) control.State {
	t.Helper()
	if _, err := r.Start(t.Context(), spec); err != nil {
		t.Fatalf("start: %v", err)
	}
	return reach(t, r, spec.ID, control.Ready)
}

// reach waits for a phase.
func reach(t testing.TB, r *Runtime, id string, phase control.Phase) control.State {
	t.Helper()
	var st control.State
	until(t, fmt.Sprintf("sandbox %s to be %s", id, phase), func() (bool, string) {
		var err error
		st, err = r.Get(t.Context(), id)
		return err == nil && st.Phase == phase, fmt.Sprintf("%s %s: %s, %v", st.Phase, st.Reason, st.Message, err)
	})
	return st
}

// until waits for what should come in seconds.
func until(t testing.TB, what string, so func() (bool, string)) {
	t.Helper()
	deadline := time.After(patience)
	for {
		ok, seen := so()
		if ok {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("waited %v for %s: %s", patience, what, seen)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// exec runs a command and waits for its end.
func exec(t testing.TB, r *Runtime, id string, argv ...string) (string, int) {
	t.Helper()
	job, err := tryExec(t.Context(), r, id, argv...)
	if err != nil {
		t.Fatalf("%s: %v", argv, err)
	}
	return string(job.Stdout.Data), *job.ExitCode
}

// tryExec is the job of a command that ended by itself; an error says that it did not.
func tryExec(ctx context.Context, r *Runtime, id string, argv ...string) (job wire.Job, err error) {
	raw, err := json.Marshal(wire.ExecRequest{ID: seal.Random(8), Argv: argv, TimeoutMS: patience.Milliseconds(), Merge: true, Concurrent: true})
	if err != nil {
		return job, err
	}
	rt, base, err := r.Agent(ctx, id)
	if err != nil {
		return job, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/jobs?wait=90", bytes.NewReader(raw))
	if err != nil {
		return job, err
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return job, err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&job); err != nil {
		return job, fmt.Errorf("%s: %w", resp.Status, err)
	}
	if job.ExitCode == nil || job.Reason != "" {
		return job, fmt.Errorf("%s %s: %s", job.State, job.Reason, job.Error)
	}
	return job, nil
}

// left is the names of the site's Pods, and of its tombstones.
func (s *site) left(t testing.TB) (pods, graves []string) {
	t.Helper()
	p, err := s.client.CoreV1().Pods(s.opts.Namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range p.Items {
		pods = append(pods, pod.Name)
	}
	m, err := s.client.CoreV1().ConfigMaps(s.opts.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: selector(appTombstone)})
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range m.Items {
		graves = append(graves, g.Name)
	}
	return pods, graves
}

// noPods waits until the site has none but those named.
func (s *site) noPods(t testing.TB, but ...string) {
	t.Helper()
	until(t, "the Pods to go", func() (bool, string) {
		pods, _ := s.left(t)
		pods = slices.DeleteFunc(pods, func(name string) bool { return slices.Contains(but, name) })
		return len(pods) == 0, strings.Join(pods, " ")
	})
}
