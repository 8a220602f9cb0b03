// Package pyclient_test runs the Python test client of this folder, which behaves on the
// wire as the original service's SDK does, against the real service.
package pyclient_test

import (
	"os"
	"os/exec"
	"testing"

	"orchard/internal/sandbox/sandboxtest"
)

// python is Debian's: the packages that the client needs are installed for it.
const python = "/usr/bin/python3"

func TestMain(m *testing.M) { os.Exit(sandboxtest.Main(m)) }

func TestPythonClient(t *testing.T) {
	if out, err := exec.Command(python, "-c", "import requests, aiohttp, websocket").CombinedOutput(); err != nil {
		const how = "apt-get install python3-requests python3-aiohttp python3-websocket"
		if os.Getenv("ORCHARD_REQUIRE_ALL") == "1" {
			t.Fatalf("%s lacks requests, aiohttp or websocket (%s): %v\n%s", python, how, err, out)
		}
		t.Skipf("%s lacks requests, aiohttp or websocket: %s", python, how)
	}
	service := sandboxtest.New(t)
	cmd := exec.CommandContext(t.Context(), python, "-B", "-W", "ignore::ResourceWarning", "-m", "unittest", "-v")
	cmd.Env = append(append(os.Environ(), service.Env()...), "ORCHARD_TEST_IMAGE="+sandboxtest.Image)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("python3 -m unittest: %v", err)
	}
	t.Logf("%s", out)
}
