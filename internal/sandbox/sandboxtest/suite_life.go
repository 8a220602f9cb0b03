package sandboxtest

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	"orchard/internal/sandbox"
)

func suiteRefused(t *testing.T, c sandbox.Client, base sandbox.Spec) {
	for name, change := range map[string]func(*sandbox.Spec){
		"no image": func(s *sandbox.Spec) { s.Image = "" },
		"bad id":   func(s *sandbox.Spec) { s.ID = "Not A Label" },
		"bad cpu":  func(s *sandbox.Spec) { s.CPU = "many" },
	} {
		spec := base
		change(&spec)
		var refused *sandbox.Refused
		box, err := c.Create(t.Context(), spec)
		if !errors.As(err, &refused) {
			t.Errorf("%s: %v, %v, want *sandbox.Refused", name, box, err)
		}
	}
}

func suiteSpec(t *testing.T, c sandbox.Client, base sandbox.Spec) {
	spec := base
	spec.Env, spec.Workdir = map[string]string{"WORD": "w x"}, "/tmp/made/for/it"
	box := open(t, c, spec)
	if box.ID() == "" {
		t.Error("no id")
	}
	if r := run(t, box, sandbox.Command{Shell: `echo "$WORD"; pwd`}); string(r.Stdout) != "w x\n/tmp/made/for/it\n" {
		t.Errorf("env and workdir: %q %q", r.Stdout, r.Stderr)
	}
	other := open(t, c, base)
	if other.ID() == box.ID() {
		t.Error("two sandboxes have one id")
	}
	if _, err := other.Get(t.Context(), "/tmp/made"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("one sandbox sees another's files: %v", err)
	}
}

// suiteClose: closing twice is fine, and afterwards everything says that it is gone.
func suiteClose(t *testing.T, c sandbox.Client, base sandbox.Spec) {
	box := open(t, c, base)
	running := make(chan error, 1)
	go func() {
		_, err := box.Exec(t.Context(), sandbox.Command{Shell: "touch /tmp/begun; sleep 300", Timeout: 10 * minute})
		running <- err
	}()
	run(t, box, sandbox.Command{Shell: "while ! [ -e /tmp/begun ]; do sleep 0.01; done", Concurrent: true})
	for range 2 {
		if err := box.Close(t.Context()); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	if err := <-running; !sandbox.IsLost(err) {
		t.Errorf("the command that ran: %v, want *sandbox.Lost", err)
	}
	_, execErr := box.Exec(t.Context(), sandbox.Command{Shell: "true", Timeout: minute})
	_, getErr := box.Get(t.Context(), "/etc/hostname")
	_, listErr := box.List(t.Context(), "/")
	putErr := box.Put(t.Context(), "/tmp/x", strings.NewReader("x"), 1, 0o644)
	for name, err := range map[string]error{"exec": execErr, "get": getErr, "list": listErr, "put": putErr} {
		if !sandbox.IsLost(err) || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s after close: %v, want *sandbox.Lost", name, err)
		}
	}
}

// suiteLifetime: a sandbox whose time is over is lost, and says why.
func suiteLifetime(t *testing.T, c sandbox.Client, base sandbox.Spec) {
	spec := base
	var box sandbox.Sandbox
	// It may begin before the sandbox is ready, which in a cluster takes seconds, on a busy one many.
	for spec.Lifetime = 3 * time.Second; box == nil; spec.Lifetime *= 4 {
		made, err := c.Create(t.Context(), spec)
		if err == nil {
			box = made
		} else if !strings.Contains(err.Error(), "lifetime") || spec.Lifetime > 2*minute {
			t.Fatalf("create a sandbox for %v: %v", spec.Lifetime, err)
		}
	}
	closeAfter(t, box)
	r, err := box.Exec(t.Context(), sandbox.Command{Shell: "sleep 300", Timeout: 10 * minute})
	if !sandbox.IsLost(err) || !strings.Contains(err.Error(), "lifetime") {
		t.Errorf("%+v, %v, want *sandbox.Lost for the lifetime", r, err)
	}
}

// suiteLease: an open sandbox keeps its lease by itself.
func suiteLease(t *testing.T, c sandbox.Client, base sandbox.Spec) {
	spec := base
	spec.Lease = 4 * time.Second
	box := open(t, c, spec)
	if r := run(t, box, sandbox.Command{Shell: "sleep 6; echo kept"}); string(r.Stdout) != "kept\n" {
		t.Errorf("the lease was not kept: %+v", r)
	}
}
