//go:build linux

package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"orchard/internal/exit"
	"orchard/internal/sandbox"
)

func TestBadOptions(t *testing.T) {
	t.Parallel()
	notAgent := filepath.Join(t.TempDir(), "true")
	if err := os.WriteFile(notAgent, []byte("#!/bin/true\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		opts Options
		says string
	}{
		{"no state folder", Options{AgentPath: agentBinary}, "state folder"},
		{"tool", Options{StateDir: t.TempDir(), AgentPath: agentBinary, Tools: []string{"/no/such/tool"}}, "--tool /no/such/tool"},
		{"no agent", Options{StateDir: t.TempDir(), AgentPath: "/no/such/agent"}, "/no/such/agent"},
		{"another program", Options{StateDir: t.TempDir(), AgentPath: notAgent}, "sandboxes"},
	} {
		r, err := New(t.Context(), c.opts)
		if err == nil {
			r.Close()
		}
		if exit.Code(err) != exit.Config || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: exit %d: %v", c.name, exit.Code(err), err)
		}
	}
}

func TestLongStateFolder(t *testing.T) {
	t.Parallel()
	deep := filepath.Join(t.TempDir(), strings.Repeat("folder/", 30))
	r := open(t, func(o *Options) { o.StateDir = deep })
	must(t, r, begin(t, r, sandbox.Spec{}).Spec.ID, "true")
}

func TestTools(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bin", "my-tool"), []byte("#!/bin/sh\necho mine\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	r := open(t, func(o *Options) { o.Tools = []string{dir} })
	id := begin(t, r, sandbox.Spec{}).Spec.ID
	if got := must(t, r, id, "my-tool"); got != "mine" {
		t.Errorf("got %q", got)
	}
	if _, code := sh(t, r, id, "touch "+dir+"/x"); code == 0 {
		t.Error("a sandbox writes a tool's folder")
	}
}
