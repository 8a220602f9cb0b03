package datasets

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orchard/datasets/arrowio"
	"orchard/datasets/record"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s: what is stored would change (-want +got):\n%s", path, d)
	}
}

func example(t testing.TB) *Manifest {
	t.Helper()
	inputs := []Input{
		{Kind: InputDataset, Name: "tasks", Digest: strings.Repeat("1", 64), Role: "tasks", URI: "file:///data/tasks"},
		{Kind: InputFile, Name: "extra.jsonl", Digest: strings.Repeat("2", 64), Role: "extra", URI: "file:///data/extra.jsonl"},
	}
	stage := Stage{Name: "distill", Version: 3, Config: json.RawMessage(`{"n": 4, "harness": "mini"}`), Seed: 7, RunID: "run-1"}
	key, err := Key(stage, inputs)
	if err != nil {
		t.Fatal(err)
	}
	tokens := int64(1 << 60)
	return &Manifest{
		Content: Content{
			Format: Format, Features: []string{}, Schema: arrowio.SchemaOf[note](),
			Rows: 5, Bytes: 300, RowsIn: 8, Dropped: map[string]int64{"too long": 2, "empty": 1},
			Shards: []Shard{
				{SHA256: strings.Repeat("3", 64), Bytes: 100, Rows: 2, FirstKey: "a", LastKey: "b"},
				{SHA256: strings.Repeat("4", 64), Bytes: 200, Rows: 3, FirstKey: "c", LastKey: "e"},
			},
			Blobs:  BlobList{Count: 2, SHA256: strings.Repeat("5", 64), Bytes: 130},
			Inputs: inputs, Stage: stage, Key: key,
		},
		Run: Run{Started: noon, Committed: noon.Add(time.Minute), Build: "dev", Usage: record.Usage{ModelCalls: 3, PromptTokens: &tokens, TokenSource: "server"}, InputURIs: []string{inputs[0].URI, inputs[1].URI}},
	}
}

func TestManifestGolden(t *testing.T) {
	t.Parallel()
	m := example(t)
	raw, digest, err := m.encode()
	if err != nil {
		t.Fatal(err)
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, raw, "", "  "); err != nil {
		t.Fatal(err)
	}
	pretty.WriteString("digest " + digest + "\n")
	golden(t, "testdata/manifest.golden.json", pretty.Bytes())

	got, again, err := ParseManifest(raw)
	if err != nil || again != digest {
		t.Fatalf("digest %s, %v; want %s", again, err, digest)
	}
	m.Stage.Config = json.RawMessage(`{"harness":"mini","n":4}`) // canonical
	if d := cmp.Diff(m, got); d != "" {
		t.Errorf("manifest changed (-want +got):\n%s", d)
	}
}

// The schemas of all row types: a change here needs a new schema version, unless it is
// a new nullable field.
func TestSchemasGolden(t *testing.T) {
	t.Parallel()
	b, err := json.MarshalIndent([]arrowio.Schema{arrowio.SchemaOf[record.Task](), arrowio.SchemaOf[record.Rollout](), arrowio.SchemaOf[record.SFTRow](), arrowio.SchemaOf[record.Credit](), arrowio.SchemaOf[record.RLSample](), arrowio.SchemaOf[record.RLPrompt](), arrowio.SchemaOf[record.Admission](), arrowio.SchemaOf[record.Evaluation]()}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/schemas.golden.json", append(b, '\n'))
}

func TestDigestLeavesOutTheRun(t *testing.T) {
	t.Parallel()
	digest := func(change func(*Manifest)) string {
		m := example(t)
		change(m)
		_, d, err := m.encode()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	base := digest(func(*Manifest) {})
	for name, change := range map[string]func(*Manifest){
		"times": func(m *Manifest) { m.Run.Started, m.Run.Committed = time.Now(), time.Now() },
		"usage": func(m *Manifest) { m.Run.Usage.ModelCalls++ },
		"place": func(m *Manifest) { m.Inputs[0].URI, m.Run.InputURIs[0] = "s3://b/x", "s3://b/x" },
	} {
		if digest(change) != base {
			t.Errorf("%s: the digest changed", name)
		}
	}
	for name, change := range map[string]func(*Manifest){
		"seed":    func(m *Manifest) { m.Stage.Seed++ },
		"dropped": func(m *Manifest) { m.Dropped["empty"]++ },
		"input":   func(m *Manifest) { m.Inputs[0].Digest = strings.Repeat("9", 64) },
		"run id":  func(m *Manifest) { m.Stage.RunID = "run-2" },
	} {
		if digest(change) == base {
			t.Errorf("%s: the digest did not change", name)
		}
	}
}

func TestKey(t *testing.T) {
	t.Parallel()
	key := func(s Stage, in ...Input) string {
		k, err := Key(s, in)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	base := Stage{Name: "s", Version: 1, Config: []byte(`{"a":1,"b":2}`)}
	in := Input{Kind: InputDataset, Name: "n", Digest: "d", Role: "r"}
	if key(base, in) != key(Stage{Name: "s", Version: 1, Config: []byte(`{ "b":2, "a":1 }`)}, Input{Digest: "d", Role: "r", URI: "elsewhere"}) {
		t.Error("the same work has two keys")
	}
	if key(Stage{Name: "s"}) != key(Stage{Name: "s", Config: []byte("{}")}) {
		t.Error("no configuration is not an empty one")
	}
	seen := map[string]string{key(base, in): "base"}
	for name, k := range map[string]string{
		"version": key(Stage{Name: "s", Version: 2, Config: base.Config}, in),
		"config":  key(Stage{Name: "s", Version: 1, Config: []byte(`{"a":1}`)}, in),
		"seed":    key(Stage{Name: "s", Version: 1, Config: base.Config, Seed: 1}, in),
		"run":     key(Stage{Name: "s", Version: 1, Config: base.Config, RunID: "x"}, in),
		"role":    key(base, Input{Digest: "d", Role: "q"}),
		"inputs":  key(base, in, in),
	} {
		if was, ok := seen[k]; ok {
			t.Errorf("%s has the key of %s", name, was)
		}
		seen[k] = name
	}
	if _, err := Key(Stage{Name: "s", Config: []byte("{")}, nil); err == nil {
		t.Error("broken configuration: no error")
	}
}

// reseal is a stored manifest after a change, with a checksum that is right again.
func reseal(t testing.TB, change func(map[string]any)) []byte {
	t.Helper()
	raw, _, err := example(t).encode()
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		t.Fatal(err)
	}
	change(m)
	sum, err := sumWithout(m, "checksum")
	if err != nil {
		t.Fatal(err)
	}
	m["checksum"] = sum
	out, err := json.Marshal(m) // sorts keys; the example has nothing that HTML escapes
	if err != nil {
		t.Fatal(err)
	}
	return append(out, '\n')
}

func TestParseManifestRefuses(t *testing.T) {
	t.Parallel()
	set := func(key string, value any) func(map[string]any) {
		return func(m map[string]any) { m[key] = value }
	}
	for _, c := range []struct {
		name   string
		change func(map[string]any)
		want   string // "" is accepted
	}{
		{"nothing", func(map[string]any) {}, ""},
		{"a field of a later release", set("later", "x"), ""},
		{"newer format", set("format", 2), "has format 2 and this build reads up to 1: use a newer Orchard"},
		{"no format", set("format", 0), "format 0"},
		{"unknown feature", set("features", []string{"columns"}), `needs feature "columns"`},
		{"row count", set("rows", 6), "shards have 5 rows"},
		{"lost rows", set("rows_in", 9), "9 rows in are not 5 rows out and 3 dropped"},
		{"no shards", func(m map[string]any) { m["shards"], m["rows"], m["bytes"], m["rows_in"] = []any{}, 0, 0, 3 }, "no shards"},
		{"shards out of order", func(m map[string]any) { s := m["shards"].([]any); s[0], s[1] = s[1], s[0] }, "out of order"},
		{"blob list", set("blobs", map[string]any{"count": 1, "bytes": 65, "sha256": "x"}), "blob list of 1"},
		{"key", set("key", "k"), `key "k"`},
		{"type", set("rows", "five"), "rows"},
	} {
		_, _, err := ParseManifest(reseal(t, c.change))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
}

// Every byte counts, also those of times and usage.
func TestParseManifestSeesEveryByte(t *testing.T) {
	t.Parallel()
	raw, _, err := example(t).encode()
	if err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		flipped := bytes.Clone(raw)
		flipped[i] ^= 1
		if _, _, err := ParseManifest(flipped); err == nil {
			t.Errorf("byte %d of %q flipped: no error", i, raw[max(0, i-10):min(len(raw), i+10)])
		}
		if _, _, err := ParseManifest(append(bytes.Clone(raw[:i]), raw[i+1:]...)); err == nil {
			t.Errorf("byte %d deleted: no error", i)
		}
	}
}

func FuzzParseManifest(f *testing.F) {
	raw, _, err := example(f).encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte(`{"format":1,"features":[],"checksum":""}` + "\n"))
	f.Add([]byte("[]"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, digest, err := ParseManifest(raw)
		if err != nil {
			return
		}
		if !digestPattern.MatchString(digest) || m.check() != nil {
			t.Errorf("accepted %q as %s", raw, digest)
		}
	})
}
