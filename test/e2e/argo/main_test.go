// Package argo_test holds what the pipelines promise on Kubernetes: submitted as users submit
// them, with the `argo` command, against the real Argo controller, the real sandbox service,
// a real object store and the policy that needs no model; and compared with `orchard run` on
// this machine. `make e2e` installs the chart and runs this package; by itself it is skipped.
//
// Nearly everything is looked at through the commands that users have: argo, kubectl, orchard.
package argo_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"orchard/test/e2e/suite"
)

// What `make e2e` says: run (the tests must run), and where the chart is.
var (
	run       = os.Getenv("ORCHARD_E2E") == "1"
	soak      = os.Getenv("ORCHARD_SOAK") == "1"
	namespace = os.Getenv("ORCHARD_E2E_NAMESPACE")
	sandboxes = os.Getenv("ORCHARD_E2E_SANDBOX_NAMESPACE")
)

// What TestMain finds out and makes.
var (
	living   context.Context // until the tests are over
	programs string          // folder with orchard and the agent that `orchard run` needs
	stores   []string        // environment that leads to the release's object store
	root     string          // where the release's pipelines write, such as s3://bucket/prefix
)

func TestMain(m *testing.M) {
	suite.Main(run, func() int { return prepared(m) })
}

// prepared runs the tests with what all of them need: the programs, the way to the store, and
// the example tasks where the scripted policy of the chart reads them.
func prepared(m *testing.M) int {
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, "prepare the tests:", err)
		return 1
	}
	dir, err := os.MkdirTemp("", "orchard-argo-")
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(dir)
	programs = dir
	build := exec.Command("go", "build", "-o", dir, "orchard/cmd/orchard", "orchard/cmd/orchard-agent")
	if out, err := build.CombinedOutput(); err != nil {
		return fail(fmt.Errorf("%w: %s", err, out))
	}
	if err := leadToStore(); err != nil {
		return fail(err)
	}
	tasks := exec.Command(filepath.Join(dir, "orchard"), "import", "--in=examples", "--out="+root+"/tasks")
	if out, err := tasks.CombinedOutput(); err != nil {
		return fail(fmt.Errorf("import the example tasks: %w: %s", err, out))
	}
	ctx, stop := context.WithCancel(context.Background())
	living = ctx
	code := m.Run()
	stop()
	begin() // what has not begun ends at once
	<-alone.ended
	return code
}

// leadToStore takes the store's address and keys from the release, as its stages do.
func leadToStore() error {
	var settings, parameters struct{ Data map[string]string }
	var secret struct{ Data map[string]string }
	for _, o := range []struct {
		what string
		into any
	}{{"configmap/orchard-settings", &settings}, {"configmap/orchard-parameters", &parameters}, {"secret/orchard-credentials", &secret}} {
		if err := object(namespace, o.what, o.into); err != nil {
			return err
		}
	}
	env := map[string]string{}
	for name, value := range settings.Data {
		env[name] = value
	}
	for name, value := range secret.Data {
		plain, err := base64.StdEncoding.DecodeString(value)
		if err != nil {
			return fmt.Errorf("secret orchard-credentials: %s: %w", name, err)
		}
		env[name] = string(plain)
	}
	root = parameters.Data["out"]
	for name, value := range env {
		if strings.HasPrefix(name, "AWS_") || name == "ORCHARD_S3_ADDRESSING" {
			stores = append(stores, name+"="+value)
			if err := os.Setenv(name, value); err != nil { // this process reads datasets itself
				return err
			}
		}
	}
	return nil
}

// patience is how long a test waits for one thing: rollouts on a small, busy machine.
const patience = 5 * time.Minute

// eventually waits until what is said holds; try returns "" when it does.
func eventually(t testing.TB, what string, try func() string) {
	t.Helper()
	suite.Eventually(t, what, patience, time.Second, try) // each look is a program or two
}
