package httpclient_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"orchard/internal/sandbox"
	"orchard/internal/sandbox/control"
	"orchard/internal/sandbox/httpclient"
	"orchard/internal/sandbox/sandboxtest/plain"
)

const key = "key-of-the-test"

// rig is a real service over real agents, behind a handler that a test may put first.
type rig struct {
	rt   *plain.Runtime
	work string
	url  string
}

func newRig(t *testing.T, wrap func(http.Handler) http.Handler) *rig {
	t.Helper()
	set := control.Defaults()
	set.Keys, set.DefaultWorkdir = control.ParseKeys(key), t.TempDir()
	set.ReadyWait, set.RetryWindow = 200*time.Millisecond, 3*time.Second
	set.AllowPlacement = []string{"node_selector", "tolerations", "priority_class", "image_pull_secrets", "runtime_class"}
	rt := plain.New(t)
	s, err := control.New(rt, set)
	if err != nil {
		t.Fatal(err)
	}
	h := http.Handler(s)
	if wrap != nil {
		h = wrap(h)
	}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	t.Cleanup(s.Drain)
	return &rig{rt, set.DefaultWorkdir, server.URL}
}

func newClient(t *testing.T, url, key string) *httpclient.Client {
	t.Helper()
	c, err := httpclient.New(httpclient.Options{URL: url, Key: key, Patience: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func create(t *testing.T, c sandbox.Client, spec sandbox.Spec) sandbox.Sandbox {
	t.Helper()
	if spec.Image == "" {
		spec.Image = "host"
	}
	box, err := c.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return box
}
