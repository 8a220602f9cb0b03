package forward

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
)

// Selector is how the chart labels the controller's objects.
const Selector = "app.kubernetes.io/name=orchard,app.kubernetes.io/component=controller"

// find is the one Service of a controller in a namespace; without one given, in the
// user's own, or else anywhere.
func find(ctx context.Context, client kubernetes.Interface, namespace, home string) (*corev1.Service, error) {
	places := []string{namespace}
	if namespace == "" {
		places = []string{home, metav1.NamespaceAll}
	}
	for _, place := range places {
		list, err := client.CoreV1().Services(place).List(ctx, metav1.ListOptions{LabelSelector: Selector})
		switch {
		case err != nil && place == metav1.NamespaceAll && apierrors.IsForbidden(err):
			continue // there is no more to look into
		case err != nil:
			return nil, fmt.Errorf("list services in namespace %q: %w", place, err)
		case len(list.Items) > 1:
			var names []string
			for _, s := range list.Items {
				names = append(names, s.Namespace+"/"+s.Name)
			}
			return nil, fmt.Errorf("there are %d sandbox services (%s): name a namespace", len(names), strings.Join(names, ", "))
		case len(list.Items) == 1:
			return &list.Items[0], nil
		}
	}
	return nil, fmt.Errorf("no Service with the labels %s in namespace %s", Selector, strings.Join(slices.DeleteFunc(places, func(s string) bool { return s == "" }), " or any that may be listed: "))
}

// target is a ready Pod of the service, and its port that the service leads to.
func target(ctx context.Context, client kubernetes.Interface, s *corev1.Service) (*corev1.Pod, int32, error) {
	if len(s.Spec.Selector) == 0 || len(s.Spec.Ports) == 0 {
		return nil, 0, fmt.Errorf("service %s/%s has no selector or no port", s.Namespace, s.Name)
	}
	port := s.Spec.Ports[0]
	for _, p := range s.Spec.Ports {
		if p.Name == "http" {
			port = p
		}
	}
	pods, err := client.CoreV1().Pods(s.Namespace).List(ctx, metav1.ListOptions{LabelSelector: labels.SelectorFromSet(s.Spec.Selector).String()})
	if err != nil {
		return nil, 0, fmt.Errorf("list pods of service %s/%s: %w", s.Namespace, s.Name, err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.DeletionTimestamp != nil || !ready(pod) {
			continue
		}
		if n := portOf(pod, port); n > 0 {
			return pod, n, nil
		}
		return nil, 0, fmt.Errorf("pod %s/%s has no port %q", pod.Namespace, pod.Name, port.TargetPort.String())
	}
	return nil, 0, fmt.Errorf("none of the %d pods of service %s/%s is ready", len(pods.Items), s.Namespace, s.Name)
}

func ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// portOf is the number of the Pod's port that a service's leads to, 0 for none.
func portOf(pod *corev1.Pod, p corev1.ServicePort) int32 {
	switch {
	case p.TargetPort.Type == intstr.Int && p.TargetPort.IntVal > 0:
		return p.TargetPort.IntVal
	case p.TargetPort.Type == intstr.Int:
		return p.Port
	}
	for _, c := range pod.Spec.Containers {
		for _, have := range c.Ports {
			if have.Name == p.TargetPort.StrVal {
				return have.ContainerPort
			}
		}
	}
	return 0
}

// key is an API key of the service, "" when none may be read: the caller then brings one.
func key(ctx context.Context, client kubernetes.Interface, s *corev1.Service) string {
	selector := Selector
	if instance := s.Labels["app.kubernetes.io/instance"]; instance != "" {
		selector += ",app.kubernetes.io/instance=" + instance
	}
	secrets, err := client.CoreV1().Secrets(s.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return ""
	}
	for _, secret := range secrets.Items {
		if k := firstKey(string(secret.Data["api-keys"])); k != "" {
			return k
		}
	}
	return ""
}
