package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/objstore"
)

// rival commits other content under the same key just before its caller does.
type rival struct {
	objstore.Store
	once   *sync.Once
	commit func()
}

func (r rival) Swap(ctx context.Context, key string, body objstore.Body, etag string) (objstore.Info, error) {
	if strings.Contains(key, "/keys/") {
		r.once.Do(r.commit)
	}
	return r.Store.Swap(ctx, key, body, etag)
}

// Of two runs of one key with other content the first stands; the other takes its
// version as the result and says so, with both digests.
func TestLoserSaysSo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := newWorld(dir, 1)
	var won Result
	second := newWorld(dir, 1)
	second.deps.Open = func(ctx context.Context, root string) (objstore.Store, error) {
		s, err := datasets.Stores(ctx, root)
		return rival{s, new(sync.Once), func() {
			if won, err = Batch(t.Context(), first.cfg, first.deps, first.stage, batchOf(2)); err != nil {
				t.Error(err)
			}
		}}, err
	}
	var log bytes.Buffer
	ctx := zerolog.New(&log).WithContext(t.Context())
	r, err := Batch(ctx, second.cfg, second.deps, second.stage, batchOf(3))
	if err != nil {
		t.Fatal(err)
	}
	if r.Status != StatusDone || r.Digest != won.Digest || r.RowsOut != 2 || r.Left == "" || r.Left == r.Digest || won.Left != "" {
		t.Errorf("the loser ended with %+v, the winner with %+v", r, won)
	}
	if s := r.Summary(); !strings.Contains(s, r.Left[:12]) || !strings.Contains(s, r.Digest) {
		t.Errorf("the summary says %s", s)
	}
	told := false
	for line := range strings.Lines(log.String()) {
		told = told || strings.Contains(line, r.Left) && strings.Contains(line, `"digest":"`+r.Digest+`"`) && strings.Contains(line, `"level":"warn"`)
	}
	if !told {
		t.Errorf("the log says\n%s", log.String())
	}
}

// TestCompactionMemory makes a version of many finished units, in a process of its own
// whose peak of memory it reads.
func TestCompactionMemory(t *testing.T) {
	n := 300
	if os.Getenv("ORCHARD_SOAK") != "" {
		n = 100_000
	}
	dir := t.TempDir()
	w := newWorld(dir, n)
	w.cfg.DryRun = true
	r := w.must(t) // for the key
	units := filepath.Join(dir, "rollouts", "units", r.Key)
	if err := os.MkdirAll(units, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		row := rollout(Unit{ID: fmt.Sprintf("u%03d", i), Task: "t", Work: i})
		for j := range 20 {
			row.Trajectory.Messages = append(row.Trajectory.Messages, record.Message{Role: "tool", Content: strings.Repeat(strconv.Itoa(i*j), 100)})
		}
		raw, err := json.Marshal(row)
		if err == nil {
			raw, err = json.Marshal(unitObject{Format: unitFormat, Unit: row.RolloutID, Row: raw})
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(units, row.RolloutID+".json"), raw, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childKind+"=compact "+strconv.Itoa(n), childDir+"="+dir, childAt+"=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	digest, rest, _ := strings.Cut(string(out), "\n")
	kb, err := strconv.Atoi(strings.TrimSpace(rest))
	if err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	v, err := datasets.Open(t.Context(), datasets.Stores, w.cfg.Out+"@"+digest)
	if err != nil || v.Manifest().Rows != int64(n) {
		t.Fatalf("%d rows, %v", v.Manifest().Rows, err)
	}
	t.Logf("%d units: memory at most %d MB", n, kb>>10)
	if kb > 512<<10 {
		t.Errorf("took %d KB", kb)
	}
}

// compact is the child of TestCompactionMemory.
func compact(ctx context.Context, units, dir string) (Result, error) {
	n, err := strconv.Atoi(units)
	if err != nil {
		return Result{}, err
	}
	w := newWorld(dir, n)
	w.cfg.Mode = ModeCommit
	r, err := w.run(ctx)
	if err != nil {
		return r, err
	}
	raw, err := os.ReadFile("/proc/self/status")
	_, rest, _ := strings.Cut(string(raw), "VmHWM:")
	r.Digest += "\n" + strings.Fields(rest)[0]
	return r, err
}
