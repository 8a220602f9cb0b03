package kube

import (
	"fmt"
	"maps"
	"path"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"orchard/internal/sandbox"
)

// refuse says that a spec can never start.
func refuse(spec sandbox.Spec, format string, a ...any) error {
	return &sandbox.Refused{Image: spec.Image, Reason: fmt.Sprintf(format, a...)}
}

// check refuses what no cluster could run.
func check(spec sandbox.Spec) error {
	switch {
	case !sandboxID.MatchString(spec.ID):
		return refuse(spec, "id %q is not 1 to 63 lower-case letters, digits and hyphens", spec.ID)
	case spec.Image == "":
		return refuse(spec, "it names no image")
	case spec.Image == "host":
		return refuse(spec, `the image "host" is a machine's own programs, which a cluster does not have: name an OCI image`)
	case spec.Workdir != "" && !path.IsAbs(spec.Workdir):
		return refuse(spec, "workdir %q is not an absolute path", spec.Workdir)
	}
	return nil
}

// amounts is what a sandbox may use and what is kept free for it.
type amounts struct {
	requests, limits corev1.ResourceList
	disk             *resource.Quantity
	gpu              corev1.ResourceName
}

// withoutGPU is for the init container: a device given to it would be held twice.
func (a amounts) withoutGPU(list corev1.ResourceList) corev1.ResourceList {
	list = maps.Clone(list)
	delete(list, a.gpu)
	return list
}

// resourcesOf reads a spec's quantities. What is kept free is the limit unless the spec says
// less; of a disk limit that nobody asked for nothing is kept.
func (o *Options) resourcesOf(spec sandbox.Spec) (amounts, error) {
	a := amounts{requests: corev1.ResourceList{}, limits: corev1.ResourceList{}, gpu: corev1.ResourceName(o.GPUResource)}
	disk, diskRequest := spec.Disk, spec.Disk
	if disk == "" {
		disk, diskRequest = o.DiskLimit, "0"
	}
	for _, q := range []struct {
		name           corev1.ResourceName
		limit, request string
	}{
		{corev1.ResourceCPU, spec.CPU, spec.Reserve.CPU},
		{corev1.ResourceMemory, spec.Memory, spec.Reserve.Memory},
		{corev1.ResourceEphemeralStorage, disk, diskRequest},
	} {
		if q.request == "" {
			q.request = q.limit
		}
		limit, err := quantity(q.limit)
		if err != nil {
			return a, refuse(spec, "%s: %v", q.name, err)
		}
		request, err := quantity(q.request)
		if err != nil {
			return a, refuse(spec, "%s to be kept free: %v", q.name, err)
		}
		switch {
		case limit == nil && request != nil:
			a.requests[q.name] = *request
		case limit != nil:
			if request.Cmp(*limit) > 0 {
				return a, refuse(spec, "%s: %s to be kept free is more than the limit %s", q.name, q.request, q.limit)
			}
			a.limits[q.name], a.requests[q.name] = *limit, *request
		}
		if q.name == corev1.ResourceEphemeralStorage {
			a.disk = limit
		}
	}
	if n := spec.Placement.GPU; n > 0 {
		q := resource.MustParse(strconv.Itoa(n))
		a.limits[a.gpu], a.requests[a.gpu] = q, q
	}
	return a, nil
}

// quantity is nil for "".
func quantity(text string) (*resource.Quantity, error) {
	if text == "" {
		return nil, nil
	}
	q, err := resource.ParseQuantity(text)
	if err != nil || q.Sign() < 0 {
		return nil, fmt.Errorf("%q is not a quantity such as 2, 500m or 16Gi", text)
	}
	return &q, nil
}

// place says which machines may run the Pod: the operator's rules, then the spec's own.
func (o *Options) place(pod *corev1.Pod, p sandbox.Placement) {
	s := &pod.Spec
	s.NodeSelector = map[string]string{}
	maps.Copy(s.NodeSelector, o.NodeSelector)
	tolerations := append([]sandbox.Toleration(nil), o.Tolerations...)
	if p.Spot {
		maps.Copy(s.NodeSelector, o.SpotSelector)
		tolerations = append(tolerations, o.SpotTolerations...)
	}
	maps.Copy(s.NodeSelector, p.NodeSelector)
	for _, t := range append(tolerations, p.Tolerations...) {
		s.Tolerations = append(s.Tolerations, corev1.Toleration{
			Key: t.Key, Operator: corev1.TolerationOperator(t.Operator), Value: t.Value, Effect: corev1.TaintEffect(t.Effect),
		})
	}
	// A machine that does not answer is given up after a minute, instead of after five.
	for _, taint := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		s.Tolerations = append(s.Tolerations, corev1.Toleration{
			Key: taint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr(int64(60)),
		})
	}
	if class := p.RuntimeClass; class != "" {
		s.RuntimeClassName = &class
	} else if class := o.RuntimeClass; class != "" {
		s.RuntimeClassName = &class
	}
	s.PriorityClassName = p.PriorityClass
	for _, name := range append(append([]string(nil), o.PullSecrets...), p.PullSecrets...) {
		s.ImagePullSecrets = append(s.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
	}
}
