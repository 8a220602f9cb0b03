// Package suite is what all packages of tests on a cluster do alike: run only where `make e2e`
// runs them, and wait for what comes.
package suite

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// Need skips a test of a package with other tests too where there is no cluster.
func Need(t testing.TB) {
	t.Helper()
	if name := t.Name(); strings.HasPrefix(name, "Test") && !strings.HasPrefix(name, "TestCluster") {
		t.Fatal("`make e2e` runs the tests named TestCluster…, and this one needs the cluster")
	}
	if os.Getenv("ORCHARD_E2E") != "1" {
		t.Skip("needs the test cluster; `make e2e` runs it")
	}
}

// Main ends the process with what tests returns, or without it when run is false.
func Main(run bool, tests func() int) {
	if !run {
		fmt.Println("skipped: these tests need the test cluster; `make e2e` runs them")
		return
	}
	for _, name := range []string{"KUBECONFIG", "ORCHARD_E2E_RELEASE", "ORCHARD_E2E_NAMESPACE", "ORCHARD_E2E_SANDBOX_NAMESPACE"} {
		if os.Getenv(name) == "" {
			fmt.Printf("%s is not set; `make e2e` sets it\n", name)
			os.Exit(1)
		}
	}
	os.Exit(tests())
}

// Eventually looks every so often until what is said holds, and fails the test with the last
// reason that it did not. try returns "" when it holds.
func Eventually(t testing.TB, what string, within, every time.Duration, try func() string) {
	t.Helper()
	over := time.After(within)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		why := try()
		if why == "" {
			return
		}
		select {
		case <-over:
			t.Fatalf("not %s after %v: %s", what, within, why)
		case <-tick.C:
		}
	}
}
