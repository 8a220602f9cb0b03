package kube

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What replicas share beside the Pods is in ConfigMaps of the sandboxes' namespace. Their
// versions order the writers: an update of one that changed since it was read is a conflict.

func (r *Runtime) getMap(ctx context.Context, name string) (*corev1.ConfigMap, error) {
	ctx, cancel := brief(ctx)
	defer cancel()
	return r.client.CoreV1().ConfigMaps(r.opts.Namespace).Get(ctx, name, metav1.GetOptions{})
}

func (r *Runtime) createMap(ctx context.Context, m *corev1.ConfigMap) (*corev1.ConfigMap, error) {
	ctx, cancel := brief(ctx)
	defer cancel()
	return r.client.CoreV1().ConfigMaps(r.opts.Namespace).Create(ctx, m, metav1.CreateOptions{})
}

func (r *Runtime) updateMap(ctx context.Context, m *corev1.ConfigMap) (*corev1.ConfigMap, error) {
	ctx, cancel := brief(ctx)
	defer cancel()
	return r.client.CoreV1().ConfigMaps(r.opts.Namespace).Update(ctx, m, metav1.UpdateOptions{})
}

// deleteMap deletes one; that it is not there is no error.
func (r *Runtime) deleteMap(ctx context.Context, name string) error {
	ctx, cancel := brief(ctx)
	defer cancel()
	err := r.client.CoreV1().ConfigMaps(r.opts.Namespace).Delete(ctx, name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
