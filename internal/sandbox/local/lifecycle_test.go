//go:build linux

package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"orchard/agent/wire"
	"orchard/internal/sandbox"
	"orchard/internal/sandbox/control"
)

func ownerOf(info os.FileInfo) int { return int(info.Sys().(*syscall.Stat_t).Uid) }

// ended waits for a sandbox's end.
func ended(t *testing.T, r *Runtime, id string) control.State {
	t.Helper()
	b, err := r.find(id)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-b.ended:
	case <-t.Context().Done():
	case <-time.After(2 * time.Minute):
		t.Fatalf("sandbox %s did not end", id)
	}
	return b.snapshot()
}

// nothingLeft checks that no folder and no cgroup of a sandbox is left.
func nothingLeft(t *testing.T, r *Runtime, uid string) {
	t.Helper()
	if _, err := os.Lstat(r.service.boxDir(uid)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the sandbox's folder is left: %v", err)
	}
	if r.cgroups == nil {
		return
	}
	for _, dir := range r.cgroups.each() {
		if _, err := os.Lstat(filepath.Join(dir, uid)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a cgroup is left in %s: %v", dir, err)
		}
	}
}

func TestStopLeavesNothing(t *testing.T) {
	t.Parallel()
	r := open(t)
	st := begin(t, r, sandbox.Spec{Reserve: sandbox.Reserve{CPU: "100m", Memory: "64Mi"}})
	id := st.Spec.ID
	if st.Scheduled.IsZero() {
		t.Error("its cost counts from never")
	}
	must(t, r, id, `mkdir -p /root/a/b && touch /root/a/b/c && chmod 000 /root/a && (setsid sleep 1000 >/dev/null 2>&1 &)`)
	if err := r.Stop(t.Context(), id, control.ReasonDeleted); err != nil {
		t.Fatal(err)
	}
	got, err := r.Get(t.Context(), id)
	if err != nil || got.Phase != control.Ended || got.Reason != control.ReasonDeleted || got.Ended.IsZero() || got.UID != st.UID {
		t.Errorf("after the end: %+v, %v", got, err)
	}
	nothingLeft(t, r, st.UID)
	if err := r.Stop(t.Context(), id, "again"); err != nil {
		t.Errorf("second stop: %v", err)
	}
	if got, _ := r.Get(t.Context(), id); got.Reason != control.ReasonDeleted {
		t.Errorf("the first reason did not stay: %s", got.Reason)
	}
	if _, _, err := r.Agent(t.Context(), id); !errors.Is(err, control.ErrNotReady) {
		t.Errorf("agent of an ended sandbox: %v", err)
	}
	if _, err := r.Get(t.Context(), "never-was"); !errors.Is(err, control.ErrNotFound) {
		t.Errorf("unknown id: %v", err)
	}
}

func TestSameID(t *testing.T) {
	t.Parallel()
	r := open(t)
	first := begin(t, r, sandbox.Spec{ID: "same"})
	st, err := r.Start(t.Context(), sandbox.Spec{ID: "same", Image: HostImage, Memory: "1Gi"})
	if !errors.Is(err, control.ErrExists) || st.UID != first.UID || st.Spec.Memory != "" {
		t.Errorf("second create: %+v, %v", st, err)
	}
	if err := r.Stop(t.Context(), "same", control.ReasonDeleted); err != nil {
		t.Fatal(err)
	}
	if again := begin(t, r, sandbox.Spec{ID: "same"}); again.UID == first.UID {
		t.Error("another sandbox has the first one's UID")
	}
}

func TestRefusedSpecs(t *testing.T) {
	t.Parallel()
	r := open(t)
	for _, c := range []struct {
		name string
		spec sandbox.Spec
		says string
	}{
		{"id", sandbox.Spec{ID: "../x", Image: "host"}, "id"},
		{"no image", sandbox.Spec{ID: "a"}, "image"},
		{"network", sandbox.Spec{ID: "a", Image: "host", OpenNetwork: true}, "network"},
		{"cpu", sandbox.Spec{ID: "a", Image: "host", CPU: "many"}, "cpu"},
		{"memory", sandbox.Spec{ID: "a", Image: "host", Memory: "1Mi"}, "memory"},
		{"workdir", sandbox.Spec{ID: "a", Image: "host", Workdir: "rel"}, "workdir"},
		{"env", sandbox.Spec{ID: "a", Image: "host", Env: map[string]string{"A=B": ""}}, "env"},
		{"disk", sandbox.Spec{ID: "a", Image: "host", Disk: "1Gi"}, "disk:"},
		{"gpu", sandbox.Spec{ID: "a", Image: "host", Placement: sandbox.Placement{GPU: 1}}, "gpu:"},
		{"node selector", sandbox.Spec{ID: "a", Image: "host", Placement: sandbox.Placement{NodeSelector: map[string]string{"a": "b"}}}, "node_selector:"},
		{"tolerations", sandbox.Spec{ID: "a", Image: "host", Placement: sandbox.Placement{Tolerations: []sandbox.Toleration{{Operator: "Exists"}}}}, "tolerations:"},
		{"runtime class", sandbox.Spec{ID: "a", Image: "host", Placement: sandbox.Placement{RuntimeClass: "kata"}}, "runtime_class:"},
		{"priority class", sandbox.Spec{ID: "a", Image: "host", Placement: sandbox.Placement{PriorityClass: "high"}}, "priority_class:"},
		{"pull secrets", sandbox.Spec{ID: "a", Image: "host", Placement: sandbox.Placement{PullSecrets: []string{"x"}}}, "image_pull_secrets:"},
		{"spot", sandbox.Spec{ID: "a", Image: "host", Placement: sandbox.Placement{Spot: true}}, "spot:"},
	} {
		var refused *sandbox.Refused
		if _, err := r.Start(t.Context(), c.spec); !errors.As(err, &refused) || !strings.Contains(refused.Reason, c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if list, err := r.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("a refused spec left %v, %v", list, err)
	}
}

func TestRefusedAfterStart(t *testing.T) {
	t.Parallel()
	r := open(t)
	if _, err := r.Start(t.Context(), sandbox.Spec{ID: "a", Image: "/no/such/image.tar"}); err != nil {
		t.Fatal(err)
	}
	st, err := r.Wait(t.Context(), "a")
	if st = ended(t, r, "a"); err != nil || st.Reason != control.ReasonRefused || !strings.Contains(st.Message, "/no/such/image.tar") {
		t.Errorf("%+v, %v", st, err)
	}
}

func TestEnvironmentAndWorkdir(t *testing.T) {
	t.Parallel()
	r := open(t)
	id := begin(t, r, sandbox.Spec{Workdir: "/made/for/this", Env: map[string]string{"NAME": "a b\nc", "LANG": "C"}}).Spec.ID
	if got := must(t, r, id, `printf '%s|%s|%s' "$PWD" "$NAME" "$LANG"`); got != "/made/for/this|a b\nc|C" {
		t.Errorf("got %q", got)
	}
}

func TestFiftyAtOnce(t *testing.T) {
	t.Parallel()
	r := open(t)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			id := fmt.Sprintf("many-%d", i)
			if _, err := r.Start(t.Context(), sandbox.Spec{ID: id, Image: HostImage, Memory: "256Mi"}); err != nil {
				t.Errorf("%s: %v", id, err)
				return
			}
			if st, err := r.Wait(t.Context(), id); err != nil || st.Phase != control.Ready {
				t.Errorf("%s: %+v, %v", id, st, err)
				return
			}
			job, err := run(t.Context(), r, id, wire.ExecRequest{Argv: []string{"hostname"}})
			if err != nil || string(job.Stdout.Data) != id+"\n" {
				t.Errorf("%s: %+v, %v", id, job, err)
			}
			if err := r.Stop(t.Context(), id, control.ReasonDeleted); err != nil {
				t.Errorf("%s: %v", id, err)
			}
		})
	}
	wg.Wait()
	left, err := os.ReadDir(filepath.Join(r.service.dir, "boxes"))
	if err != nil || len(left) != 0 {
		t.Errorf("%d folders are left, %v", len(left), err)
	}
}

// TestStopWhileStarting stops at every moment of a start, by stopping after ever more
// looks at the state.
func TestStopWhileStarting(t *testing.T) {
	t.Parallel()
	r := open(t)
	for i := range 30 {
		id := fmt.Sprintf("brief-%d", i)
		st, err := r.Start(t.Context(), sandbox.Spec{ID: id, Image: HostImage})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*2*time.Millisecond)
		r.Wait(ctx, id)
		cancel()
		if err := r.Stop(t.Context(), id, control.ReasonDeleted); err != nil {
			t.Fatal(err)
		}
		if got, err := r.Get(t.Context(), id); err != nil || got.Phase != control.Ended || got.Reason != control.ReasonDeleted {
			t.Fatalf("%+v, %v", got, err)
		}
		nothingLeft(t, r, st.UID)
	}
}

func TestTombstonesAreForgotten(t *testing.T) {
	t.Parallel()
	r := open(t)
	st := begin(t, r, sandbox.Spec{})
	if err := r.Stop(t.Context(), st.Spec.ID, control.ReasonDeleted); err != nil {
		t.Fatal(err)
	}
	if list, _ := r.List(t.Context()); len(list) != 1 {
		t.Errorf("%d sandboxes known, want the ended one", len(list))
	}
	b, err := r.find(st.Spec.ID)
	if err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	b.state.Ended = time.Now().Add(-tombstone - time.Second)
	b.mu.Unlock()
	if list, _ := r.List(t.Context()); len(list) != 0 {
		t.Errorf("%d sandboxes known after an hour", len(list))
	}
}

func TestCloseEndsAll(t *testing.T) {
	t.Parallel()
	r, err := New(t.Context(), Options{StateDir: t.TempDir(), CacheDir: cacheDir, AgentPath: agentBinary})
	if err != nil {
		t.Fatal(err)
	}
	st := begin(t, r, sandbox.Spec{})
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	nothingLeft(t, r, st.UID)
	if got, _ := r.Get(t.Context(), st.Spec.ID); got.Reason != control.ReasonShutdown {
		t.Errorf("%+v", got)
	}
	if _, err := r.Start(t.Context(), sandbox.Spec{ID: "x", Image: HostImage}); err == nil {
		t.Error("a closed runtime starts sandboxes")
	}
}
