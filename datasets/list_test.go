package datasets

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"orchard/internal/objstore"
)

func TestNamesAndVersions(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	s := folder(t, root)
	mustCommit(t, s, "b", []note{{ID: "a"}}, meta(1, 1), WriterOptions{})
	one := mustCommit(t, s, "a", notes(t, s, 3), meta(3, 1), WriterOptions{})
	two := mustCommit(t, s, "a", notes(t, s, 3), meta(3, 2), WriterOptions{})
	if _, err := s.Create(t.Context(), "unfinished/units/k/x", objstore.Bytes("x")); err != nil {
		t.Fatal(err)
	}
	names, err := Names(t.Context(), s)
	if err != nil || !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("names %q, %v", names, err)
	}
	if err := os.WriteFile(filepath.Join(root, ManifestKey("a", one.Digest())), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	var got []string
	for v, err := range Versions(t.Context(), s, "a") {
		if err != nil {
			got = append(got, "damaged")
		} else {
			got = append(got, v.Digest())
		}
	}
	slices.Sort(got)
	want := []string{"damaged", two.Digest()}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("versions %q, want %q", got, want)
	}
}

func TestLineage(t *testing.T) {
	t.Parallel()
	here, there := t.TempDir(), t.TempDir()
	s, far := folder(t, here), folder(t, there)
	with := func(seed int64, inputs ...Input) Meta {
		m := meta(1, seed)
		m.Inputs = inputs
		return m
	}
	row := []note{{ID: "a"}}
	file := Input{Kind: InputFile, Name: "tasks.jsonl", Digest: strings.Repeat("1", 64), Role: "tasks"}
	tasks := mustCommit(t, far, "tasks", row, with(1, file), WriterOptions{})
	rollouts := mustCommit(t, s, "rollouts", row, with(2, tasks.Input("tasks")), WriterOptions{})
	gone := Input{Kind: InputDataset, Name: "gone", Digest: strings.Repeat("2", 64), Role: "extra", URI: "file://" + there + "/gone"}
	sft := mustCommit(t, s, "sft", row, with(3, rollouts.Input("rollouts"), tasks.Input("tasks"), gone), WriterOptions{})

	list := func(opener Opener) string {
		var out []string
		for _, a := range Lineage(t.Context(), opener, sft) {
			out = append(out, fmt.Sprintf("%d %s %s opened=%v err=%v", a.Depth, a.Role, a.Name, a.Version != nil, a.Err != nil))
		}
		return strings.Join(out, "\n")
	}
	want := `1 rollouts rollouts opened=true err=false
2 tasks tasks opened=true err=false
3 tasks tasks.jsonl opened=false err=false
1 tasks tasks opened=true err=false
1 extra gone opened=false err=true`
	if got := list(Stores); got != want {
		t.Errorf("lineage:\n%s\nwant:\n%s", got, want)
	}
	// The same data beside its child is found when the place it came from is gone.
	mustCommit(t, s, "tasks", row, with(1, file), WriterOptions{})
	if err := os.RemoveAll(there); err != nil {
		t.Fatal(err)
	}
	if got := list(Stores); got != want {
		t.Errorf("lineage after the move:\n%s\nwant:\n%s", got, want)
	}
}
