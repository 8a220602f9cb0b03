package kube

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What proves an agent in a real Pod is kept from user code that runs as the same user, and
// the kubelet reaches that agent.
func TestClusterIdentityInAPod(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.open(t)
	id := begin(t, r, small(imageBash)).Spec.ID
	pod, err := s.client.CoreV1().Pods(s.opts.Namespace).Get(t.Context(), podName(id), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	secret := ""
	for _, v := range pod.Spec.Containers[0].Env {
		if v.Name == identityEnv {
			secret = v.Value
		}
	}
	if secret == "" {
		t.Fatal("its agent has no identity")
	}
	out, _ := exec(t, r, id, "bash", "-c", "id -u; env; cat /proc/1/environ /proc/1/cmdline /proc/1/mem 2>&1; cat /proc/self/environ")
	if strings.Contains(out, secret) || strings.Contains(out, identityEnv) || !strings.Contains(out, "/proc/1/environ: Permission denied") {
		t.Errorf("user code sees %q", out)
	}
	until(t, "the kubelet to have reached the agent", func() (bool, string) {
		pod, err := s.client.CoreV1().Pods(s.opts.Namespace).Get(t.Context(), podName(id), metav1.GetOptions{})
		return err == nil && podReady(pod), ""
	})
}
