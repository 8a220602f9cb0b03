package kube_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orchard/internal/sandbox"
)

// A pool that one replica was asked for is every replica's: sandboxes made through the
// Service come from it, work as any other, and outlive it.
func TestPool(t *testing.T) {
	t.Parallel()
	type pool struct{ Ready, Size, Claimed int }
	// The amount is no other test's, so that none of those meets the pool.
	url, name := Controller(t).URL+"/pools/e2e", "e2e"
	var p pool
	Call(t, "PUT", url, map[string]any{"image": bashImage, "size": 2, "cpu": "51m", "memory": "64Mi"}, &p)
	for _, replica := range Replicas(t) {
		Eventually(t, "the pool ready at "+replica, func(context.Context) string {
			if Call(t, "GET", replica+"/pools/"+name, nil, &p); p.Ready != 2 {
				return fmt.Sprintf("%+v", p)
			}
			return ""
		})
	}
	box := NewSandbox(t, sandbox.Spec{Image: bashImage, CPU: "51m", Memory: "64Mi", Env: map[string]string{"WHOSE": "mine"}})
	var view struct {
		PodName string `json:"pod_name"`
	}
	Call(t, "GET", Controller(t).URL+"/sandboxes/"+box.ID(), nil, &view)
	if !strings.HasPrefix(view.PodName, "warm-e2e-") {
		t.Errorf("its Pod is %s, and none of the pool", view.PodName)
	}
	Call(t, "DELETE", url, nil, &struct{}{})
	Eventually(t, "the pool gone", func(ctx context.Context) string {
		pods, err := API(t).CoreV1().Pods(sandboxNamespace).List(ctx, meta.ListOptions{LabelSelector: "orchard.dev/pool=e2e"})
		if err != nil || len(pods.Items) > 0 {
			return fmt.Sprintf("%d idle Pods, %v", len(pods.Items), err)
		}
		return ""
	})
	got, err := box.Exec(t.Context(), sandbox.Command{Shell: `echo "$WHOSE"`, Timeout: 30 * time.Second})
	if err != nil || string(got.Stdout) != "mine\n" {
		t.Errorf("%v, %q", err, got.Stdout)
	}
}
