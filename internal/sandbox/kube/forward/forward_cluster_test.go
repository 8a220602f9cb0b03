package forward_test

import (
	"context"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"orchard/internal/sandbox/kube/forward"
	"orchard/internal/seal"
	"orchard/test/e2e/suite"
)

// site is a namespace of the real cluster with what the chart would make: a Service, its
// Secret, and Pods that say hello.
type site struct {
	client    *kubernetes.Clientset
	namespace string
}

var chartLabels = map[string]string{
	"app.kubernetes.io/name": "orchard", "app.kubernetes.io/component": "controller", "app.kubernetes.io/instance": "test",
}

func newSite(t *testing.T) *site {
	t.Helper()
	suite.Need(t)
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	s := &site{namespace: "forward-test-" + seal.Random(4)}
	if s.client, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	if _, err := s.client.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.client.CoreV1().Namespaces().Delete(context.Background(), s.namespace, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *site) service(t *testing.T, name string) {
	t.Helper()
	_, err := s.client.CoreV1().Services(s.namespace).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: chartLabels},
		Spec: corev1.ServiceSpec{Selector: chartLabels, Ports: []corev1.ServicePort{
			{Name: "metrics", Port: 9999, TargetPort: intstr.FromInt32(9999)},
			{Name: "http", Port: 80, TargetPort: intstr.FromString("http")},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func (s *site) pod(t *testing.T, name string) {
	t.Helper()
	image := os.Getenv("ORCHARD_E2E_IMAGE_BARE")
	if image == "" {
		image = "localhost/orchard-test/bare:1"
	}
	_, err := s.client.CoreV1().Pods(s.namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: chartLabels},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: image, ImagePullPolicy: corev1.PullNever, Command: []string{"/bare", "listen", ":8080"},
			Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
		}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(90 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		p, err := s.client.CoreV1().Pods(s.namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("pod %s is not ready: %v", name, err)
		}
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				return
			}
		}
	}
}

func (s *site) open(t *testing.T) (*forward.Service, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	return forward.Open(ctx, forward.Options{Kubeconfig: os.Getenv("KUBECONFIG"), Namespace: s.namespace})
}

// hello is what the port says.
func hello(url string) string {
	conn, err := net.DialTimeout("tcp", strings.TrimPrefix(url, "http://"), 5*time.Second)
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err.Error()
	}
	b, _ := io.ReadAll(conn)
	return strings.TrimSpace(string(b))
}

// The port leads to the service, and to another of its Pods when the first one ends; the
// errors before that say what is missing.
func TestClusterForward(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	fails := func(says string) {
		t.Helper()
		if found, err := s.open(t); err == nil {
			found.Close()
			t.Errorf("found, want %q", says)
		} else if !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	fails("no Service with the labels")
	s.service(t, "one")
	fails("none of the 0 pods")
	s.service(t, "two")
	fails("name a namespace")
	if err := s.client.CoreV1().Services(s.namespace).Delete(t.Context(), "two", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.pod(t, "first")
	found, err := s.open(t)
	if err != nil {
		t.Fatal(err)
	}
	defer found.Close()
	if found.Key != "" || found.Name != "one" {
		t.Errorf("found %+v", found)
	}
	if got := hello(found.URL); got != "hello" {
		t.Errorf("the port says %q", got)
	}
	s.pod(t, "second")
	now := int64(0)
	if err := s.client.CoreV1().Pods(s.namespace).Delete(t.Context(), "first", metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Fatal(err)
	}
	got := ""
	for deadline := time.Now().Add(60 * time.Second); got != "hello" && time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		got = hello(found.URL)
	}
	if got != "hello" {
		t.Errorf("after the first pod's end the port says %q", got)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "keys", Labels: chartLabels}, Data: map[string][]byte{"api-keys": []byte("first,second")}}
	if _, err := s.client.CoreV1().Secrets(s.namespace).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	again, err := s.open(t)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if again.Key != "first" {
		t.Errorf("key %q", again.Key)
	}
}
