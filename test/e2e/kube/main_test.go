// Package kube_test holds what Orchard promises on Kubernetes, against a real cluster:
// the chart is installed as users install it, and tests talk to its Service. `make e2e`
// brings the cluster up, installs the chart and runs this package; by itself it is skipped.
//
// Tests named TestPart… stop parts of the cluster: `make e2e` runs them before the others.
// Those named TestSecond… have a release of their own, and run beside the others.
//
// Nothing here stands in for a part of the cluster. What a test needs, it makes in a
// namespace or sandbox of its own, and removes.
package kube_test

import (
	"context"
	"os"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"orchard/test/e2e/api"
	"orchard/test/e2e/suite"
)

// What `make e2e` says: run (the tests must run), and where the chart is.
var (
	run       = os.Getenv("ORCHARD_E2E") == "1"
	release   = os.Getenv("ORCHARD_E2E_RELEASE")
	namespace = os.Getenv("ORCHARD_E2E_NAMESPACE")
)

func TestMain(m *testing.M) {
	suite.Main(run, m.Run)
}

// patience is how long a test waits for what should come in seconds.
const patience = 90 * time.Second

// API is the cluster's API, with all rights.
func API(t testing.TB) *kubernetes.Clientset { t.Helper(); return api.Of(t) }

// Eventually waits until what is said holds, and fails the test with the last reason that it
// did not. try returns "" when it holds.
func Eventually(t testing.TB, what string, try func(ctx context.Context) string) {
	t.Helper()
	// The last try is to say what it sees, not that its time is up.
	ctx, stop := context.WithTimeout(t.Context(), patience+prompt)
	defer stop()
	suite.Eventually(t, what, patience, 200*time.Millisecond, func() string { return try(ctx) })
}

// Namespace is a new namespace, gone when the test is over.
func Namespace(t testing.TB) string {
	t.Helper()
	made, err := API(t).CoreV1().Namespaces().Create(t.Context(), &core.Namespace{ObjectMeta: meta.ObjectMeta{GenerateName: "e2e-"}}, meta.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := API(t).CoreV1().Namespaces().Delete(context.Background(), made.Name, meta.DeleteOptions{}); err != nil {
			t.Errorf("remove namespace %s: %v", made.Name, err)
		}
	})
	// A Pod is refused until its namespace has its service account.
	Eventually(t, "a service account in "+made.Name, func(ctx context.Context) string {
		if _, err := API(t).CoreV1().ServiceAccounts(made.Name).Get(ctx, "default", meta.GetOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
	return made.Name
}
