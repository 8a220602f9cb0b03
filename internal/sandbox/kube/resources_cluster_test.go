package kube

import (
	"testing"

	"orchard/internal/sandbox/control"
)

// What the machines have and what sandboxes hold of it.
func TestClusterResources(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.open(t)
	spec := small(imageBare)
	begin(t, r, spec)
	var res control.Resources
	var err error
	until(t, "the kubelet to say that it runs", func() (bool, string) {
		res, err = r.Resources(t.Context())
		return err != nil || len(res.Sandboxes) == 1 && res.Sandboxes[0].Phase == "Running", ""
	})
	if err != nil || len(res.Nodes) == 0 || res.Nodes[0].Capacity.CPU < 1 || res.Nodes[0].Allocatable.MemoryBytes < 1<<28 {
		t.Errorf("%+v, %v", res, err)
	}
	want := control.Request{Name: podName(spec.ID), Namespace: s.opts.Namespace, Phase: "Running", CPU: 0.02, MemoryRequest: 32 << 20}
	if len(res.Sandboxes) != 1 || res.Sandboxes[0] != want {
		t.Errorf("%+v", res.Sandboxes)
	}
	elsewhere := *s
	elsewhere.opts.NodeSelector = map[string]string{"no": "such"}
	if res, err := elsewhere.open(t).Resources(t.Context()); err != nil || len(res.Nodes) != 0 {
		t.Errorf("machines that take no sandboxes: %+v, %v", res, err)
	}
	events, err := r.Events(t.Context(), spec.ID)
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]bool{}
	for _, e := range events {
		types[e.Type] = true
	}
	for _, kind := range []string{"accepted", "scheduled", "pulled", "created", "started", "ready"} {
		if !types[kind] {
			t.Errorf("no event %s in %+v", kind, events)
		}
	}
}
