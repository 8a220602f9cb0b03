// Package api is the API server of the test cluster, for tests.
package api

import (
	"os"
	"sync"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// client makes the client once: it is for all tests, as one rate limit is.
var client = sync.OnceValues(func() (*kubernetes.Clientset, error) {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 200, 400
	return kubernetes.NewForConfig(config)
})

// Of is the cluster's API, with all rights.
func Of(t testing.TB) *kubernetes.Clientset {
	t.Helper()
	c, err := client()
	if err != nil {
		t.Fatal(err)
	}
	return c
}
