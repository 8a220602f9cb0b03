package argo_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orchard/datasets"
	"orchard/datasets/compare"
	"orchard/datasets/record"
)

// What every run here rolls out: the first example tasks, which are in Go.
const (
	tasksUsed    = 3
	rolloutsEach = 2
	seed         = "7"
)

// orchardCommand is the program on this machine, with the store's keys and nothing else of the release.
func orchardCommand(ctx context.Context, arg ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(programs, "orchard"), arg...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "ORCHARD_") || strings.HasPrefix(v, "SANDBOX_") || strings.HasPrefix(v, "OPENAI_")
	})
	cmd.Env = append(cmd.Env, stores...)
	return cmd
}

// orchard has to work.
func orchard(t testing.TB, arg ...string) string {
	t.Helper()
	out, err := orchardCommand(t.Context(), arg...).CombinedOutput()
	if err != nil {
		t.Fatalf("orchard %s: %v\n%s", strings.Join(arg, " "), err, out)
	}
	return string(out)
}

// prefix is a place in the store for one test, which removes it.
func prefix(t testing.TB) string {
	t.Helper()
	place := "s3://" + strings.SplitN(strings.TrimPrefix(root, "s3://"), "/", 2)[0] + "/" + unique(t)
	t.Cleanup(func() {
		if t.Failed() { // what is there may say why
			return
		}
		for _, key := range objects(t, place, "") {
			store, err := datasets.Stores(context.Background(), place)
			if err == nil {
				err = store.Delete(context.Background(), key)
			}
			if err != nil {
				t.Errorf("remove %s/%s: %v", place, key, err)
				return
			}
		}
	})
	return place
}

// objects are the keys below a prefix of a root.
func objects(t testing.TB, place, below string) []string {
	t.Helper()
	store, err := datasets.Stores(context.Background(), place)
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for info, err := range store.List(context.Background(), below) {
		if err != nil {
			t.Fatalf("list %s/%s: %v", place, below, err)
		}
		keys = append(keys, info.Key)
	}
	return keys
}

// finished are the ids of a dataset's rollouts that have ended, and tried those of tries that could not find out.
func finished(t testing.TB, place, name string) (finished, tried []string) {
	t.Helper()
	for _, key := range objects(t, place, name+"/units/") {
		parts := strings.Split(strings.TrimSuffix(key, ".json"), "/")
		switch {
		case len(parts) == 4 && parts[3] != "plan":
			finished = append(finished, parts[3])
		case len(parts) == 5 && parts[3] == "attempts":
			tried = append(tried, parts[4])
		}
	}
	return finished, tried
}

// once says that each dataset of a root has one version, and the work one key.
func once(t testing.TB, place string, names ...string) {
	t.Helper()
	for _, name := range names {
		var versions, keys []string
		for _, key := range objects(t, place, name+"/") {
			if strings.HasPrefix(key, name+"/versions/") && strings.HasSuffix(key, "/manifest.json") {
				versions = append(versions, key)
			}
			if strings.HasPrefix(key, name+"/keys/") {
				keys = append(keys, key)
			}
		}
		if len(versions) != 1 || len(keys) != 1 {
			t.Errorf("%s/%s has versions %v and keys %v, want one each", place, name, versions, keys)
		}
	}
}

// pull gets a dataset as users get one and opens the copy.
func pull(t testing.TB, uri string) *datasets.Version {
	t.Helper()
	dir := t.TempDir()
	orchard(t, "dataset", "pull", "--out", dir, uri)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() && e.Name() != "blobs" {
			return opened(t, filepath.Join(dir, e.Name()))
		}
	}
	t.Fatalf("nothing came of pulling %s", uri)
	return nil
}

func opened(t testing.TB, uri string) *datasets.Version {
	t.Helper()
	v, err := datasets.Open(t.Context(), datasets.Stores, uri)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// rows are the rows of a version by id.
func rows[R record.Row](t testing.TB, v *datasets.Version) map[string]R {
	t.Helper()
	all := map[string]R{}
	for row, err := range datasets.Rows[R](t.Context(), v) {
		if err != nil {
			t.Fatal(err)
		}
		all[row.Key()] = row
	}
	return all
}

// essence is what of a rollout must not depend on where it is played.
type essence struct {
	Task                    string
	Index, Seed             int64
	Outcome                 record.Outcome
	Exit, Diff              string
	Roles, Actions, Answers []string
}

func essenceOf(r record.Rollout) essence {
	e := essence{Task: r.TaskID, Index: r.Index, Seed: r.Seed, Outcome: r.Verdict.Outcome, Exit: r.Trajectory.ExitStatus, Diff: r.Trajectory.DiffSHA256}
	for _, m := range r.Trajectory.Messages {
		e.Roles = append(e.Roles, m.Role)
		for _, c := range m.ToolCalls {
			e.Answers = append(e.Answers, c.Name+" "+c.Arguments)
		}
	}
	for _, s := range r.Trajectory.Steps {
		for _, a := range s.Actions {
			e.Actions = append(e.Actions, a.Command)
		}
	}
	return e
}

// mask is what of an SFT row must not: who speaks, what is called, and what is trained.
type mask struct {
	Task, Teacher string
	Resolved      bool
	Segments      []record.Segment
	Messages      []record.SFTMessage
}

func maskOf(r record.SFTRow) mask {
	m := mask{Task: r.TaskID, Teacher: r.Teacher, Resolved: r.Resolved, Segments: r.Segments}
	for _, msg := range r.Messages {
		if msg.Role == "tool" { // what commands print is the machine's
			msg.Content = ""
		}
		m.Messages = append(m.Messages, msg)
	}
	return m
}

// asAlone compares what a run on the cluster has made, as `orchard dataset pull` gives it, with
// what `orchard run` makes on this machine. tasks says how many of the tasks were used.
func asAlone(t testing.TB, place string, tasks int) {
	t.Helper()
	local := reference(t)
	for _, name := range []string{"rollouts", "sft"} {
		here, there := opened(t, local+"/"+name), pull(t, place+"/"+name)
		switch name {
		case "rollouts":
			same(t, place, within(t, tasks, rows[record.Rollout](t, here)), rows[record.Rollout](t, there), essenceOf)
			if n := len(rows[record.Rollout](t, there)); n != tasks*rolloutsEach {
				t.Errorf("%s/%s has %d rows, want %d", place, name, n, tasks*rolloutsEach)
			}
		case "sft":
			same(t, place, within(t, tasks, rows[record.SFTRow](t, here)), rows[record.SFTRow](t, there), maskOf)
		}
		if tasks == tasksUsed {
			tell(t, here, there)
		}
	}
}

// within leaves the rows of the first so many tasks.
func within[R record.Row](t testing.TB, tasks int, all map[string]R) map[string]R {
	t.Helper()
	used := firstTasks(t, tasks)
	for id, row := range all {
		task := ""
		switch r := any(row).(type) {
		case record.Rollout:
			task = r.TaskID
		case record.SFTRow:
			task = r.TaskID
		}
		if !slices.Contains(used, task) {
			delete(all, id)
		}
	}
	return all
}

// firstTasks are the ids of the example tasks that limit=n leaves.
func firstTasks(t testing.TB, n int) []string {
	t.Helper()
	dir := t.TempDir()
	orchard(t, "import", "--in=examples", "--out="+dir+"/tasks", fmt.Sprint("--limit=", n))
	var ids []string
	for id := range rows[record.Task](t, opened(t, dir+"/tasks")) {
		ids = append(ids, id)
	}
	return ids
}

func same[R record.Row, E any](t testing.TB, place string, want, got map[string]R, of func(R) E) {
	t.Helper()
	essences := func(all map[string]R) map[string]E {
		out := map[string]E{}
		for id, row := range all {
			out[id] = of(row)
		}
		return out
	}
	if len(want) == 0 {
		t.Errorf("%s: there is nothing to compare", place)
	}
	if d := cmp.Diff(essences(want), essences(got)); d != "" {
		t.Errorf("%s differs from what one machine made (-alone +cluster):\n%s", place, d)
	}
}

// tell logs what else differs: what commands printed may, and no more.
func tell(t testing.TB, here, there *datasets.Version) {
	t.Helper()
	d, err := compare.Versions(t.Context(), here, there, compare.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !d.Equal() {
		t.Logf("beyond what must be equal, %s and %s differ in %d rows, columns %v, counts %v", d.A, d.B, d.Rows.Changed, d.Rows.Columns, d.Counts)
	}
}
