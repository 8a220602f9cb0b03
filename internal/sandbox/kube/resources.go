package kube

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"orchard/internal/sandbox/control"
)

// Resources implements control.Resourcer, from the caches: the machines that sandboxes may
// be on by the operator's node selector, and what the sandboxes hold. Where the nodes may
// not be listed, which New logs, there are none in the answer.
func (r *Runtime) Resources(context.Context) (control.Resources, error) {
	var res control.Resources
	if r.nodes != nil {
		nodes, err := r.nodes.List(labels.SelectorFromSet(r.opts.NodeSelector))
		if err != nil {
			return res, fmt.Errorf("list nodes: %w", err)
		}
		for _, n := range nodes {
			res.Nodes = append(res.Nodes, control.Node{Name: n.Name, Capacity: amount(n.Status.Capacity), Allocatable: amount(n.Status.Allocatable)})
		}
		slices.SortFunc(res.Nodes, func(a, b control.Node) int { return strings.Compare(a.Name, b.Name) })
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	all := slices.AppendSeq(slices.Collect(maps.Values(r.byID)), maps.Values(r.warm))
	for _, e := range all {
		phase := e.pod.Status.Phase
		if e.gone || phase == corev1.PodSucceeded || phase == corev1.PodFailed {
			continue
		}
		var held control.Amount
		for _, c := range e.pod.Spec.Containers {
			a := amount(c.Resources.Requests)
			held.CPU, held.MemoryBytes = held.CPU+a.CPU, held.MemoryBytes+a.MemoryBytes
		}
		res.Sandboxes = append(res.Sandboxes, control.Request{
			Name: e.pod.Name, Namespace: e.pod.Namespace, Phase: string(phase), CPU: held.CPU, MemoryRequest: held.MemoryBytes,
		})
	}
	slices.SortFunc(res.Sandboxes, func(a, b control.Request) int { return strings.Compare(a.Name, b.Name) })
	return res, nil
}

func amount(list corev1.ResourceList) control.Amount {
	return control.Amount{CPU: list.Cpu().AsApproximateFloat64(), MemoryBytes: list.Memory().Value()}
}
