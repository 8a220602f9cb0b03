package datasets

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"orchard/datasets/record"
	"orchard/internal/objstore"
)

// The card lies beside the manifest, follows from what the digest covers, and its head
// is YAML with the files that a loader shall read.
func TestCard(t *testing.T) {
	t.Parallel()
	s := folder(t, t.TempDir())
	m := meta(7, 0)
	m.Dropped = map[string]int64{"too | long": 6}
	m.Inputs = []Input{{Kind: InputFile, Name: "tasks`.json", Digest: strings.Repeat("1", 64), Role: "tasks", URI: "/home/someone/tasks.json"}}
	m.Usage = record.Usage{ModelCalls: 12345}
	v := mustCommit(t, s, "notes", []note{{ID: "a"}}, m, WriterOptions{})
	stored, _, err := objstore.ReadAll(t.Context(), s, CardKey("notes", v.Digest()), 1<<20)
	if err != nil || string(stored) != string(Card(v.Manifest())) {
		t.Errorf("the stored card is another: %v", err)
	}
	later := v.Manifest()
	later.Run, later.Checksum = Run{}, ""
	if string(Card(later)) != string(stored) {
		t.Error("the card depends on times or usage")
	}
	for _, want := range []string{"1 rows of schema `note` version 1", "| digest | `" + v.Digest() + "` |", "| rows | 1 of 7 read |", "| `too \\| long` | 6 |", "| file `tasks'.json` | `tasks` |",
		"| `id` | string |  |", "| `next` | list of string |", "| `text` | struct |", "| `text.blob` | string | names a blob |", "| `n` | int64 | may be null |"} {
		if !strings.Contains(string(stored), want) {
			t.Errorf("the card lacks %s", want)
		}
	}
	if strings.Contains(string(stored), "12345") || strings.Contains(string(stored), "someone") {
		t.Error("the card tells usage or places")
	}
	card := string(Card(v.Manifest(), "data/train-0.parquet", `data/"odd": x.parquet`))
	_, head, _ := strings.Cut(card, "---\n")
	head, _, _ = strings.Cut(head, "---\n")
	var got struct {
		SizeCategories []string `json:"size_categories"`
		Configs        []struct {
			ConfigName string `json:"config_name"`
			DataFiles  []struct {
				Split string
				Path  []string
			} `json:"data_files"`
		}
	}
	if err := yaml.UnmarshalStrict([]byte(head), &got); err != nil && !strings.Contains(err.Error(), "unknown field") {
		t.Fatalf("%v in\n%s", err, head)
	}
	if len(got.Configs) != 1 || got.Configs[0].DataFiles[0].Path[1] != `data/"odd": x.parquet` || got.SizeCategories[0] != "n<1K" {
		t.Errorf("the head says %+v", got)
	}
	for rows, want := range map[int64]string{0: "n<1K", 999: "n<1K", 1000: "1K<n<10K", 1_000_000: "1M<n<10M", 5e12: "n>1T"} {
		if got := sizeCategory(rows); got != want {
			t.Errorf("%d rows are %s, want %s", rows, got, want)
		}
	}
}
