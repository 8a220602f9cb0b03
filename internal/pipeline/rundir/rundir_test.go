package rundir

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"orchard/internal/exit"
	"orchard/internal/pipeline"

	"github.com/google/go-cmp/cmp"
)

func record(id string) Record {
	return Record{ID: id, Pipeline: "p", Params: map[string]string{"out": "/d"}, PID: os.Getpid(),
		Started: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Phase: pipeline.Running}
}

func TestOneProcessARun(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	d, err := Open(state, record("r1"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(state, record("r1")); exit.Code(err) != exit.Retry || !strings.Contains(err.Error(), "run r1 is going on") {
		t.Errorf("second runner: %v", err)
	}
	if r, err := Read(state, "r1"); err != nil || r.Phase != pipeline.Running || !Active(state, "r1") {
		t.Errorf("%+v, %v", r, err)
	}
	now := time.Date(2026, 1, 1, 0, 1, 0, 0, time.UTC)
	if err := d.Finish(now, pipeline.Result{Phase: pipeline.Succeeded, Outputs: map[string]string{"o": "v"}}, nil); err != nil {
		t.Fatal(err)
	}
	want := record("r1")
	want.Ended, want.Phase, want.Outputs = &now, pipeline.Succeeded, map[string]string{"o": "v"}
	got, err := Read(state, "r1")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	other := record("r1")
	other.Pipeline = "q"
	if _, err := Open(state, other); exit.Code(err) != exit.Config {
		t.Errorf("another pipeline under the same id: %v", err)
	}
}

func TestFailureKeepsItsExitCode(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	d, err := Open(state, record("r"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []pipeline.Event{{Node: "p/a", Phase: pipeline.Running}, {Node: "p/b", Phase: pipeline.Running}, {Node: "p/a", Phase: pipeline.Failed, Message: "m"}} {
		if err := d.Event(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Finish(time.Now(), pipeline.Result{}, exit.With(exit.Input, errors.New("bad row"))); err != nil {
		t.Fatal(err)
	}
	r, err := Read(state, "r")
	if err != nil || r.ExitCode != exit.Input || r.Phase != pipeline.Failed || r.Error != "bad row" {
		t.Errorf("%+v, %v", r, err)
	}
	nodes, err := Nodes(state, "r")
	if err != nil || len(nodes) != 2 || nodes[0].Phase != pipeline.Failed || nodes[1].Node != "p/b" {
		t.Errorf("%+v, %v", nodes, err)
	}
}

// A record that says Running while nobody holds the lock is of a process that was killed.
func TestKilledRunIsSeen(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	d, err := Open(state, record("r"))
	if err != nil {
		t.Fatal(err)
	}
	d.lock.Close()
	r, err := Read(state, "r")
	if err != nil || r.Phase != pipeline.Error || !strings.Contains(r.Error, "retry") {
		t.Errorf("%+v, %v", r, err)
	}
	again, err := Open(state, record("r"))
	if err != nil {
		t.Fatalf("going on: %v", err)
	}
	dir, err := again.StepDir("p/a(0)", 1)
	if err != nil || filepath.Base(filepath.Dir(dir)) != "p_a(0)" {
		t.Fatalf("%s, %v", dir, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "log"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	logs, err := Logs(state, "r", "a(0)")
	if err != nil || len(logs) != 1 {
		t.Errorf("%v, %v", logs, err)
	}
	runs, err := List(state)
	if err != nil || len(runs) != 1 {
		t.Errorf("%v, %v", runs, err)
	}
}

func TestIDs(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", "-a", "A", "a/b", "..", strings.Repeat("a", 64), "a_b"} {
		if CheckID(id) == nil {
			t.Errorf("%q is taken", id)
		}
	}
	if _, err := Read(t.TempDir(), "none"); exit.Code(err) != exit.Config || !strings.Contains(err.Error(), "orchard run ls") {
		t.Errorf("%v", err)
	}
}
