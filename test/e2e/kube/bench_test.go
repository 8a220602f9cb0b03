package kube_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"orchard/envctl/client"
)

// Benchmarks compare with the same thing without Orchard, in the same run and turn by turn, and
// report medians and their ratios.

// half is the median in milliseconds.
func half(all []time.Duration) float64 {
	slices.Sort(all)
	return float64(all[len(all)/2].Microseconds()) / 1000
}

// benchSpec is what every way of the benchmark starts. The amount is no other test's.
func benchSpec() client.Spec {
	spec := Roomy(shImage)
	spec.CPU = "501m"
	return spec
}

// plainStart is from the request for a Pod with the image and amounts of benchSpec until the
// cluster says that it runs.
func plainStart(b *testing.B, ns, name string) time.Duration {
	b.Helper()
	spec, grace, never := benchSpec(), int64(0), false
	amount := func(cpu, memory string) core.ResourceList {
		return core.ResourceList{core.ResourceCPU: resource.MustParse(cpu), core.ResourceMemory: resource.MustParse(memory)}
	}
	pods := API(b).CoreV1().Pods(ns)
	seen, err := pods.Watch(b.Context(), meta.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()})
	if err != nil {
		b.Fatal(err)
	}
	defer seen.Stop()
	late := time.After(patience)
	began := time.Now()
	if _, err := pods.Create(b.Context(), &core.Pod{
		ObjectMeta: meta.ObjectMeta{Name: name},
		Spec: core.PodSpec{
			RestartPolicy: core.RestartPolicyNever, TerminationGracePeriodSeconds: &grace, AutomountServiceAccountToken: &never,
			Containers: []core.Container{{
				Name: "main", Image: spec.Image, ImagePullPolicy: core.PullNever, Command: []string{"sh", "-c", "sleep 600"},
				Resources: core.ResourceRequirements{Requests: amount(spec.CPURequest, spec.MemoryRequest), Limits: amount(spec.CPU, spec.Memory)},
			}},
		},
	}, meta.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	for {
		select {
		case event, open := <-seen.ResultChan():
			pod, ok := event.Object.(*core.Pod)
			if !open || !ok {
				b.Fatalf("the watch of Pod %s ended: %v", name, event)
			}
			if pod.Status.Phase == core.PodRunning {
				return time.Since(began)
			}
		case <-late:
			b.Fatalf("Pod %s does not run after %v", name, patience)
		}
	}
}

// firstCommand is from the request for a sandbox to the end of its first command; pod is the
// beginning of its Pod's name.
func firstCommand(b *testing.B, c *client.Client, pod string) time.Duration {
	b.Helper()
	began := time.Now()
	s, err := c.Create(b.Context(), benchSpec())
	if err != nil {
		b.Fatal(err)
	}
	got, err := s.Exec(b.Context(), client.Command{Shell: ":", Timeout: prompt})
	took := time.Since(began)
	if err != nil || got.ExitCode != 0 {
		b.Fatalf("the first command: %v, %+v", err, got)
	}
	var is struct {
		Pod string `json:"pod_name"`
	}
	Call(b, "GET", c.URL()+"/sandboxes/"+s.ID(), nil, &is)
	if !strings.HasPrefix(is.Pod, pod) {
		b.Errorf("its Pod is %s, want one called %s", is.Pod, pod)
	}
	if err := s.Delete(b.Context()); err != nil {
		b.Fatal(err)
	}
	noPod(b, sandboxNamespace, is.Pod)
	return took
}

// noPod removes a Pod, and waits until that is done: what goes on beside a start is part of none.
func noPod(b *testing.B, ns, name string) {
	b.Helper()
	Eventually(b, "without Pod "+name, func(ctx context.Context) string {
		if err := API(b).CoreV1().Pods(ns).Delete(ctx, name, meta.DeleteOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Sprint("it is there: ", err)
		}
		return ""
	})
}

// BenchmarkStart is a plain Pod until it runs, a sandbox until its first command has ended, and
// the same of a sandbox that a pool holds ready.
func BenchmarkStart(b *testing.B) {
	c, ns, spec := SDK(b, Controller(b).URL), Namespace(b), benchSpec()
	var plain, cold, warm []time.Duration
	const pool = "bench"
	b.Cleanup(func() {
		if err := c.DeletePool(context.Background(), pool); err != nil {
			b.Error(err)
		}
	})
	fill := func(size int) {
		b.Helper()
		_, err := c.SetPool(b.Context(), pool, client.PoolSpec{Image: spec.Image, Size: size, CPU: spec.CPU, Memory: spec.Memory, CPURequest: spec.CPURequest, MemoryRequest: spec.MemoryRequest})
		if err != nil {
			b.Fatal(err)
		}
		Eventually(b, "a pool of the size", func(ctx context.Context) string {
			pods, err := API(b).CoreV1().Pods(sandboxNamespace).List(ctx, meta.ListOptions{LabelSelector: "orchard.dev/pool=" + pool})
			if err != nil || len(pods.Items) != size {
				return fmt.Sprintf("%d Pods, %v", len(pods.Items), err)
			}
			for _, url := range Replicas(b) {
				if p, err := SDK(b, url).Pool(ctx, pool); err != nil || p.Ready != size {
					return fmt.Sprintf("%v, %+v", err, p)
				}
			}
			return ""
		})
	}
	for b.Loop() {
		fill(0)
		name := fmt.Sprintf("plain-%d", len(plain))
		plain = append(plain, plainStart(b, ns, name))
		noPod(b, ns, name)
		cold = append(cold, firstCommand(b, c, "sandbox-"))
		fill(1)
		warm = append(warm, firstCommand(b, c, "warm-"))
	}
	p, f, w := half(plain), half(cold), half(warm)
	b.ReportMetric(0, "ns/op") // which is all of them and the cleaning
	b.ReportMetric(p, "plain-ms")
	b.ReportMetric(f, "first-command-ms")
	b.ReportMetric(w, "claim-ms")
	b.ReportMetric(f/p, "first-command-x-plain")
	b.ReportMetric(w/f, "claim-x-first-command")
}

// BenchmarkExec is a command through Service and controller, against the kubelet's own way to run
// one in the same sandbox.
func BenchmarkExec(b *testing.B) {
	s := Begin(b, benchSpec())
	command := []string{"sh", "-c", ":"}
	var ours, theirs []time.Duration
	for b.Loop() {
		began := time.Now()
		if got, err := s.Exec(b.Context(), client.Command{Argv: command, Timeout: prompt}); err != nil || got.ExitCode != 0 {
			b.Fatalf("%v, %+v", err, got)
		}
		middle := time.Now()
		if code, out, err := PodExec(b.Context(), b, sandboxNamespace, "sandbox-"+s.ID(), command...); err != nil || code != 0 {
			b.Fatalf("%v, exit %d: %s", err, code, out)
		}
		ours, theirs = append(ours, middle.Sub(began)), append(theirs, time.Since(middle))
	}
	b.ReportMetric(0, "ns/op") // which is both
	b.ReportMetric(half(ours), "exec-ms")
	b.ReportMetric(half(theirs), "kubectl-exec-ms")
	b.ReportMetric(half(ours)/half(theirs), "x-kubectl-exec")
}
