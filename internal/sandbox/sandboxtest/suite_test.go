package sandboxtest_test

import (
	"os"
	"testing"

	"orchard/internal/sandbox"
	"orchard/internal/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { os.Exit(sandboxtest.Main(m)) }

func TestSuite(t *testing.T) {
	sandboxtest.Suite(t, sandboxtest.Client(t), sandbox.Spec{Image: sandboxtest.Image})
}
