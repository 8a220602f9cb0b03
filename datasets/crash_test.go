package datasets

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orchard/internal/objstore"
	"orchard/internal/objstore/objtest"
)

// work is a stage in small: blobs, two shards, a commit, over an older version.
func work(t testing.TB, s objstore.Store) (digest string, err error) {
	t.Helper()
	w, err := NewWriter[note](s, "notes", WriterOptions{ShardBytes: 1})
	if err != nil {
		return "", err
	}
	defer w.Close()
	keeper := Keeper{Store: s, Limit: 16}
	const n = 4100 // more than one batch, so more than one shard
	for i := range n {
		raw := fmt.Sprintf("note %d", i)
		if i%2000 == 0 {
			raw = strings.Repeat(raw, 20)
		}
		text, err := keeper.Keep(t.Context(), []byte(raw))
		if err != nil {
			return "", err
		}
		if err := w.Write(t.Context(), note{ID: fmt.Sprintf("%06d", i), Text: text}); err != nil {
			return "", err
		}
	}
	digest, _, err = w.Commit(t.Context(), meta(n, 5))
	return digest, err
}

// older is what was there before.
func older(t testing.TB, s objstore.Store) string {
	t.Helper()
	return mustCommit(t, s, "notes", []note{{ID: "old"}}, meta(1, 1), WriterOptions{}).Digest()
}

// check looks at the store after a crash, runs the work again and compares with the
// files that an undisturbed run leaves.
func check(t *testing.T, root, old, want string, undisturbed map[string]string) {
	t.Helper()
	s := folder(t, root)
	v, err := OpenIn(t.Context(), s, "notes", "")
	if err != nil {
		t.Fatalf("the newest version: %v", err)
	}
	if d := v.Digest(); d != old && d != want {
		t.Errorf("the newest version is %s, neither the old nor the new one", d)
	}
	for v, err := range Versions(t.Context(), s, "notes") {
		if err != nil {
			t.Errorf("a version: %v", err)
			continue
		}
		if r, err := Verify(t.Context(), v); err != nil || len(r.Problems) > 0 {
			t.Errorf("verify %s: %v, %v", v.Digest(), r.Problems, err)
		}
	}
	got, err := work(t, s)
	if err != nil || got != want {
		t.Errorf("rerun: %s, %v; want %s", got, err, want)
	}
	if d := cmp.Diff(undisturbed, files(t, root)); d != "" {
		t.Errorf("files after the rerun (-undisturbed +got):\n%s", d)
	}
	if v, err := OpenIn(t.Context(), s, "notes", ""); err != nil || v.Digest() != want {
		t.Errorf("the newest version after the rerun: %v", err)
	}
}

// run does the work undisturbed and returns what a crash test compares with.
func run(t *testing.T) (old, digest string, writes []string, left map[string]string) {
	t.Helper()
	root := t.TempDir()
	s := folder(t, root)
	old = older(t, s)
	count := &objtest.Faults{Store: s}
	digest, err := work(t, count)
	if err != nil {
		t.Fatal(err)
	}
	return old, digest, count.Writes(), files(t, root)
}

func TestCrashAtEachWrite(t *testing.T) {
	t.Parallel()
	old, digest, writes, left := run(t)
	if len(writes) != 10 { // 3 blobs, 2 shards, blob list, card, manifest, key, newest
		t.Fatalf("the work has %d writes: %s", len(writes), writes)
	}
	for at := range writes {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d after=%v", at+1, after), func(t *testing.T) {
				t.Parallel()
				root := t.TempDir()
				s := folder(t, root)
				older(t, s)
				_, err := work(t, &objtest.Faults{Store: s, At: at + 1, After: after})
				if !errors.Is(err, objtest.ErrFault) {
					t.Fatalf("the faulty run ended with %v", err)
				}
				check(t, root, old, digest, left)
			})
		}
	}
}

// TestKillAtEachWrite does the same with a process that is really killed.
func TestKillAtEachWrite(t *testing.T) {
	t.Parallel()
	old, digest, writes, left := run(t)
	for at := range writes {
		root := t.TempDir()
		older(t, folder(t, root))
		spec, err := json.Marshal(objtest.Faults{At: at + 1, After: at%2 == 0})
		if err != nil {
			t.Fatal(err)
		}
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChildWork$")
		child.Env = append(os.Environ(), "DATASETS_TEST_ROOT="+root, "DATASETS_TEST_FAULT="+string(spec))
		out, err := child.CombinedOutput()
		var e *exec.ExitError
		if !errors.As(err, &e) || e.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("the child was not killed: %v\n%s", err, out)
		}
		check(t, root, old, digest, left)
	}
}

func TestChildWork(t *testing.T) {
	root := os.Getenv("DATASETS_TEST_ROOT")
	if root == "" {
		t.Skip("runs inside TestKillAtEachWrite")
	}
	f := &objtest.Faults{Kill: true}
	if err := json.Unmarshal([]byte(os.Getenv("DATASETS_TEST_FAULT")), f); err != nil {
		t.Fatal(err)
	}
	f.Store, f.Kill = folder(t, root), true
	work(t, f)
}
