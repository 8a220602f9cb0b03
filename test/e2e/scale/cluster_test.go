package scale_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	core "k8s.io/api/core/v1"
	network "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	agentPort = 9090
	nodes     = 10
	mark      = "orchard.test/simulated" // label and taint: only sandboxes of this test are there
)

// api is the cluster's, with all rights.
func api(t testing.TB) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	config.QPS, config.Burst = 500, 1000
	config.ContentType = "application/vnd.kubernetes.protobuf" // so that it is not this that takes the processors
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// without stops processes of the test cluster until the test is over.
func without(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(filepath.Dir(os.Getenv("KUBECONFIG")), "components", name)); err != nil {
			continue // this cluster has none
		}
		run := func(verb string) {
			if out, err := exec.Command("../../cluster/component.sh", verb, name).CombinedOutput(); err != nil {
				t.Errorf("%s %s: %v: %s", verb, name, err, out)
			}
		}
		run("stop")
		t.Cleanup(func() { run("start") })
	}
}

// simulate makes nodes whose kubelet is kwok, which gives their Pods loopback addresses. All is
// removed when the test is over.
func simulate(t testing.TB, client kubernetes.Interface) {
	t.Helper()
	// The rules of the first for thousands of Pods that are not there would be all that this machine
	// does; the other has the agents' port.
	without(t, "kube-router", "workflow-controller")
	cache := filepath.Dir(filepath.Dir(os.Getenv("KUBECONFIG")))
	// Of itself it is done with four Pods at a time, and then sandboxes wait for it alone.
	faster := filepath.Join(t.TempDir(), "kwok.yaml")
	options := "apiVersion: config.kwok.x-k8s.io/v1alpha1\nkind: KwokConfiguration\n" + // it takes nothing else from its defaults then
		"options: {podPlayStageParallelism: 16, nodePlayStageParallelism: 4, nodeLeaseParallelism: 4, nodeLeaseDurationSeconds: 40}\n"
	if err := os.WriteFile(faster, []byte(options), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, nil, filepath.Join(cache, "bin", "kwok"), "--v=WARN", "--kubeconfig", os.Getenv("KUBECONFIG"), "--config", filepath.Join(cache, "kwok-stages.yaml"), "--config", faster,
		"--manage-all-nodes=false", "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake")
	for i := range nodes {
		n := &core.Node{
			ObjectMeta: meta.ObjectMeta{
				Name: fmt.Sprint("simulated-", i), Labels: map[string]string{mark: "true", "kubernetes.io/os": "linux"},
				Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
			},
			Spec: core.NodeSpec{
				PodCIDR: fmt.Sprintf("127.%d.0.0/16", 64+i), PodCIDRs: []string{fmt.Sprintf("127.%d.0.0/16", 64+i)},
				Taints: []core.Taint{{Key: mark, Value: "true", Effect: core.TaintEffectNoSchedule}},
			},
		}
		if _, err := client.CoreV1().Nodes().Create(t.Context(), n, meta.CreateOptions{}); err != nil && !errors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := client.CoreV1().Nodes().Delete(context.Background(), n.Name, meta.DeleteOptions{}); err != nil {
				t.Errorf("remove node %s: %v", n.Name, err)
			}
		})
	}
	until(t, "nodes ready", func() string {
		list, err := client.CoreV1().Nodes().List(context.Background(), meta.ListOptions{LabelSelector: mark})
		if err != nil {
			return err.Error()
		}
		ready := 0
		for _, n := range list.Items {
			for _, c := range n.Status.Conditions {
				if c.Type == core.NodeReady && c.Status == core.ConditionTrue {
					ready++
				}
			}
		}
		if ready != nodes {
			return fmt.Sprint(ready, " are")
		}
		return ""
	})
}

// namespace is a closed one for sandboxes. It and all Pods in it go when the test is over.
func namespace(t testing.TB, client kubernetes.Interface) string {
	t.Helper()
	made, err := client.CoreV1().Namespaces().Create(t.Context(), &core.Namespace{ObjectMeta: meta.ObjectMeta{GenerateName: "scale-"}}, meta.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ns := made.Name
	t.Cleanup(func() {
		ctx, now := context.Background(), int64(0)
		if err := client.CoreV1().Pods(ns).DeleteCollection(ctx, meta.DeleteOptions{GracePeriodSeconds: &now}, meta.ListOptions{}); err != nil {
			t.Errorf("remove the Pods of %s: %v", ns, err)
		}
		if err := client.CoreV1().Namespaces().Delete(ctx, ns, meta.DeleteOptions{}); err != nil {
			t.Errorf("remove namespace %s: %v", ns, err)
		}
		until(t, "an end of the Pods", func() string { return left(client, ns) })
	})
	port := intstr.FromInt32(agentPort)
	_, err = client.NetworkingV1().NetworkPolicies(ns).Create(t.Context(), &network.NetworkPolicy{
		ObjectMeta: meta.ObjectMeta{Name: "sandbox-default-deny"},
		Spec: network.NetworkPolicySpec{
			PolicyTypes: []network.PolicyType{network.PolicyTypeIngress, network.PolicyTypeEgress},
			Ingress: []network.NetworkPolicyIngressRule{{
				From:  []network.NetworkPolicyPeer{{PodSelector: &meta.LabelSelector{MatchLabels: map[string]string{"app": "none"}}}},
				Ports: []network.NetworkPolicyPort{{Port: &port}},
			}},
		},
	}, meta.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	until(t, "a service account", func() string {
		if _, err := client.CoreV1().ServiceAccounts(ns).Get(context.Background(), "default", meta.GetOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
	return ns
}

// left is what a namespace has of sandboxes, but for the records of their ends.
func left(client kubernetes.Interface, ns string) string {
	pods, err := client.CoreV1().Pods(ns).List(context.Background(), meta.ListOptions{Limit: 5})
	if err != nil {
		return err.Error()
	}
	policies, err := client.NetworkingV1().NetworkPolicies(ns).List(context.Background(), meta.ListOptions{LabelSelector: "app"})
	if err != nil {
		return err.Error()
	}
	if len(pods.Items)+len(policies.Items) > 0 {
		return fmt.Sprintf("%d Pods or more, %d policies", len(pods.Items), len(policies.Items))
	}
	return ""
}

// controller is the program under load.
type controller struct {
	pid      int
	url, key string
	bin      string
}

// serve starts the controller, as operators do but outside of the cluster, and the farm.
func serve(t testing.TB, client kubernetes.Interface, ns string) (controller, *farm) {
	t.Helper()
	f := newFarm(client)
	if err := f.follow(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", fmt.Sprint("0.0.0.0:", agentPort))
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = f.serve(l) })
	t.Cleanup(func() { l.Close(); serving.Wait() })

	c := controller{key: "scale-test", bin: build(t, "orchard-controller", "envctl")}
	program := filepath.Join(c.bin, "orchard-controller")
	raw, err := exec.CommandContext(t.Context(), program, "keygen").Output()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd, log := start(t, []string{"API_KEYS=" + c.key}, program, "--runtime", "kubernetes", "--kubeconfig", os.Getenv("KUBECONFIG"), "--namespace", ns,
		"--agent-image", "simulated/agent", "--signing-key-file", file, "--listen", "127.0.0.1:0", "--network-canary=false", "--debug-listen", "127.0.0.1:6061",
		"--node-selector", `{"`+mark+`":"true"}`, "--tolerations", `[{"key":"`+mark+`","operator":"Exists"}]`, "--default-cpu", "100m", "--default-memory", "64Mi")
	c.pid = cmd.Process.Pid
	until(t, "serving", func() string {
		raw, err := os.ReadFile(log)
		if err != nil {
			return err.Error()
		}
		for line := range strings.Lines(string(raw)) {
			var said struct{ Message, Address string }
			if json.Unmarshal([]byte(line), &said) == nil && said.Message == "serving" {
				c.url = "http://" + said.Address
				return ""
			}
		}
		return "it said: " + string(raw)
	})
	return c, f
}
