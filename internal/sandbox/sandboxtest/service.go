// Package sandboxtest gives tests real sandboxes, and holds the suite of behaviour that
// every sandbox.Client passes. It is for tests only.
//
// The service is the real one, over the local runtime, on a loopback port with a random
// key; one serves a whole test process, and ends with it. Where the kernel gives no
// namespaces the test is skipped, or fails when ORCHARD_REQUIRE_ALL=1.
package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"orchard/internal/exit"
	"orchard/internal/sandbox"
	"orchard/internal/sandbox/control"
	"orchard/internal/sandbox/httpclient"
	"orchard/internal/sandbox/local"
	"orchard/internal/sandbox/sandboxtest/agentbin"
)

// Image is an image that the service's runtime has: the machine's own programs.
const Image = local.HostImage

// Service is where sandboxes are made.
type Service struct {
	URL, Key string
}

// Env is the service as programs look for it.
func (s Service) Env() []string {
	return []string{"SANDBOX_BASE_URL=" + s.URL, "SANDBOX_API_KEY=" + s.Key}
}

// New is the service of this test process.
func New(t testing.TB) Service {
	t.Helper()
	agent := agentbin.Path(t)
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.end == nil && shared.err == nil {
		shared.err = shared.start(agent)
	}
	switch {
	case shared.err == nil:
	case exit.Code(shared.err) == exit.Config && os.Getenv("ORCHARD_REQUIRE_ALL") != "1":
		t.Skipf("no sandboxes on this machine: %v", shared.err)
	default:
		t.Fatal(shared.err)
	}
	return shared.service
}

// Client is a client of that service.
func Client(t testing.TB) sandbox.Client {
	t.Helper()
	s := New(t)
	c, err := httpclient.New(httpclient.Options{URL: s.URL, Key: s.Key})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Open is a sandbox of that service, closed when the test ends. An empty spec.Image is
// Image.
func Open(t testing.TB, spec sandbox.Spec) sandbox.Sandbox {
	t.Helper()
	if spec.Image == "" {
		spec.Image = Image
	}
	return open(t, Client(t), spec)
}

func open(t testing.TB, c sandbox.Client, spec sandbox.Spec) sandbox.Sandbox {
	t.Helper()
	box, err := c.Create(t.Context(), spec)
	if err != nil {
		t.Fatalf("create sandbox: %v", err)
	}
	closeAfter(t, box)
	return box
}

// closeAfter closes a sandbox when the test is over, which is fine for one that has ended too.
func closeAfter(t testing.TB, box sandbox.Sandbox) {
	t.Helper()
	t.Cleanup(func() {
		if err := box.Close(context.Background()); err != nil {
			t.Errorf("close sandbox: %v", err)
		}
	})
}

// Main runs a package's tests and ends the service after them: os.Exit(Main(m)) in
// TestMain. Without it the service ends with the process, and the next test process
// tidies up its folder.
func Main(m *testing.M) int {
	code := m.Run()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.end != nil {
		if err := shared.end(); err != nil {
			fmt.Fprintln(os.Stderr, "end of the test sandbox service:", err)
			return 1
		}
	}
	return code
}

// shared is the service of this process.
var shared process

type process struct {
	mu      sync.Mutex
	service Service
	end     func() error // nil while it does not run
	err     error        // of the start
}

func (p *process) start(agent string) error {
	base := filepath.Join(os.TempDir(), fmt.Sprintf("orchard-test-sandboxes-%d", os.Getuid()))
	rt, err := local.New(context.Background(), local.Options{
		StateDir: base, CacheDir: local.DefaultCache(), AgentPath: agent,
	})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return errors.Join(err, rt.Close())
	}
	set := control.Defaults()
	// Tests run in parallel on small machines.
	set.DefaultCPU, set.DefaultMemory = "1", "1Gi"
	key := control.NewKey()
	set.Keys = control.ParseKeys(key)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- control.Serve(ctx, l, rt, set) }()
	p.service = Service{"http://" + l.Addr().String(), key}
	p.end = func() error {
		cancel()
		return errors.Join(<-served, rt.Close())
	}
	return nil
}
