package imports

import (
	"bytes"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/compress"
	"github.com/apache/arrow/go/v17/parquet/pqarrow"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"orchard/datasets/record"
	"orchard/internal/exit"
)

// The shapes of this file are made by hand as pandas and Hugging Face datasets write
// them: large_string and dictionaries, an index column, NaN for absent, nested lists of
// structs with a null wherever there may be one, and streams named .arrow.

func nullable(name string, typ arrow.DataType) arrow.Field {
	return arrow.Field{Name: name, Type: typ, Nullable: true}
}

func table(t *testing.T, rows string, fields ...arrow.Field) arrow.Record {
	t.Helper()
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, arrow.NewSchema(fields, nil), strings.NewReader(rows))
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func asParquet(t *testing.T, rec arrow.Record) []byte {
	t.Helper()
	var buf bytes.Buffer
	w, err := pqarrow.NewFileWriter(rec.Schema(), &buf, parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Snappy), parquet.WithMaxRowGroupLength(1)), pqarrow.NewArrowWriterProperties(pqarrow.WithStoreSchema()))
	if err == nil {
		err = w.Write(rec)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func asStream(t *testing.T, rec arrow.Record) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := ipc.NewWriter(&buf, ipc.WithSchema(rec.Schema()))
	if err := w.Write(rec); err != nil {
		t.Fatal(err)
	}
	if err := w.Write(rec.NewSlice(0, 1)); err != nil { // a second batch
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestPandas(t *testing.T) {
	t.Parallel()
	text, words := arrow.BinaryTypes.LargeString, &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}
	rec := table(t, `[{"instance_id":"a-1","repo":"a/b","base_commit":"1234567","problem_statement":"s","patch":"eA==",
		"test_patch":null,"hints_text":null,"version":1.5,"created_at":"2023-05-31 12:30:00","FAIL_TO_PASS":"['t 1' 't2']","PASS_TO_PASS":["x",null],"environment_setup_commit":"z","__index_level_0__":0}]`,
		nullable("instance_id", text), nullable("repo", words), nullable("base_commit", text), nullable("problem_statement", text), nullable("patch", arrow.BinaryTypes.Binary),
		nullable("test_patch", text), nullable("hints_text", arrow.PrimitiveTypes.Float64), nullable("version", arrow.PrimitiveTypes.Float64),
		nullable("created_at", &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "UTC"}), nullable("FAIL_TO_PASS", text),
		nullable("PASS_TO_PASS", arrow.ListOf(text)), nullable("environment_setup_commit", text), nullable("__index_level_0__", arrow.PrimitiveTypes.Int64))
	bad := write(t, "pandas.parquet", string(asParquet(t, withBytes(t, rec))))
	f, err := Detect(t.Context(), bad)
	if err != nil || f.Name != "swe-bench" {
		t.Fatal(f, err)
	}
	err = Read(t.Context(), bad, func(r Row, problem *Problem) error {
		if problem == nil {
			_, problem = f.Parse(r, "set")
		}
		if problem == nil || problem.Field != "PASS_TO_PASS" || !strings.Contains(problem.What, "element 1 must be text, not null") || !strings.HasSuffix(problem.Place, "pandas.parquet: row 1") {
			t.Errorf("got %v", problem)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// withBytes has the patch as bytes: RecordFromJSON reads base64 for those.
func withBytes(t *testing.T, rec arrow.Record) arrow.Record {
	t.Helper()
	b := array.NewBinaryBuilder(memory.DefaultAllocator, arrow.BinaryTypes.Binary)
	for range rec.NumRows() {
		b.Append([]byte(pyPatch))
	}
	i := rec.Schema().FieldIndices("patch")[0]
	out, err := rec.SetColumn(i, b.NewArray())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

var chatType = arrow.ListOf(arrow.StructOf(nullable("role", arrow.BinaryTypes.String), nullable("content", arrow.BinaryTypes.String),
	nullable("tool_calls", arrow.ListOf(arrow.StructOf(nullable("id", arrow.BinaryTypes.String), nullable("function", arrow.StructOf(
		nullable("name", arrow.BinaryTypes.String), nullable("arguments", arrow.StructOf(nullable("command", arrow.BinaryTypes.String), nullable("path", arrow.BinaryTypes.String))))))))))

const hubRows = `[
	{"trajectory_id":"a","instance_id":"i","repo":null,"trajectory":[{"role":"user","content":"u","tool_calls":null},{"role":"assistant","content":null,"tool_calls":[{"id":"c","function":{"name":"bash","arguments":{"command":"ls","path":null}}}]}],"tools":[],"model_patch":null,"exit_status":"submit","resolved":1,"gen_tests_correct":null},
	{"trajectory_id":"b","instance_id":"i","repo":"r","trajectory":[{"role":"assistant","content":"x","tool_calls":[]}],"tools":null,"model_patch":"","exit_status":null,"resolved":null,"gen_tests_correct":0.5}]`

// TestHub: a nested set as Parquet, as an Arrow stream, and as the JSON of its raw rows.
func TestHub(t *testing.T) {
	t.Parallel()
	s := arrow.BinaryTypes.String
	rec := table(t, hubRows, nullable("trajectory_id", s), nullable("instance_id", s), nullable("repo", s), nullable("trajectory", chatType), nullable("tools", arrow.ListOf(s)),
		nullable("model_patch", s), nullable("exit_status", s), nullable("resolved", arrow.PrimitiveTypes.Int64), nullable("gen_tests_correct", arrow.PrimitiveTypes.Float64))
	stream := asStream(t, rec)
	want := parseFile(t, write(t, "f.json", hubRows), "openhands-trajectories")
	if want[0].Rollout.Trajectory.Messages[1].ToolCalls[0].Arguments != `{"command":"ls"}` || want[1].Rollout.Verdict.Outcome != record.NotGraded {
		t.Fatalf("%+v", want[0].Rollout)
	}
	for name, content := range map[string][]byte{"f.parquet": asParquet(t, rec), "data-00000-of-00001.arrow": stream} {
		got := parseFile(t, write(t, name, string(content)), "openhands-trajectories")
		for i := range want {
			if d := cmp.Diff(want[i].Rollout, got[i].Rollout, cmpopts.IgnoreFields(record.Rollout{}, "Raw")); d != "" {
				t.Errorf("%s: -want +got:\n%s", name, d)
			}
		}
		if name != "f.parquet" && len(got) != 3 {
			t.Errorf("%s: %d rows", name, len(got))
		}
	}
	// A stream that ends after a whole batch is still cut off.
	for cut := 1; cut < len(stream); cut += 7 {
		_, err := seen(t, write(t, "cut.arrow", string(stream[:len(stream)-cut])))
		if err == nil || exit.Code(err) != exit.Input || !strings.Contains(err.Error(), "Arrow file cannot be read") {
			t.Fatalf("without the last %d bytes: %v", cut, err)
		}
	}
}

// TestColumnsNotUTF8: text that is not UTF-8 is refused by row and column; a patch in a
// column of bytes is kept exactly.
func TestColumnsNotUTF8(t *testing.T) {
	t.Parallel()
	b := array.NewStringBuilder(memory.DefaultAllocator)
	b.Append("ok")
	b.Append("b\xffd")
	rec := array.NewRecord(arrow.NewSchema([]arrow.Field{nullable("a", arrow.BinaryTypes.String)}, nil), []arrow.Array{b.NewArray()}, 2)
	got, err := seen(t, write(t, "f.parquet", string(asParquet(t, rec))))
	want := []string{`f.parquet: row 1 {"a":"ok"}`, "! f.parquet: row 2: (no instance_id): a: holds text that is not valid UTF-8; convert it, or store it as bytes"}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Error(err, d)
	}
	latin := strings.Replace(pyPatch, "return a + b", "return a + b # \xe9", 1)
	bytesRow := array.NewBinaryBuilder(memory.DefaultAllocator, arrow.BinaryTypes.Binary)
	bytesRow.Append([]byte(latin))
	core := table(t, `[{"instance_id":"a-1","repo":"a/b","base_commit":"1234567","problem_statement":"s","FAIL_TO_PASS":["t"],"patch":"eA=="}]`,
		nullable("instance_id", arrow.BinaryTypes.String), nullable("repo", arrow.BinaryTypes.String), nullable("base_commit", arrow.BinaryTypes.String),
		nullable("problem_statement", arrow.BinaryTypes.String), nullable("FAIL_TO_PASS", arrow.ListOf(arrow.BinaryTypes.String)), nullable("patch", arrow.BinaryTypes.Binary))
	exact, err := core.SetColumn(5, bytesRow.NewArray())
	if err != nil {
		t.Fatal(err)
	}
	first := parseFile(t, write(t, "f.parquet", string(asParquet(t, exact))), "tasks")
	again := parseFile(t, exported(t, first), "tasks")
	if first[0].Task.GoldPatch.Value != latin || again[0].Task.GoldPatch != first[0].Task.GoldPatch {
		t.Errorf("%q, then %q", first[0].Task.GoldPatch.Value, again[0].Task.GoldPatch.Value)
	}
	row := Row{Place: "f:1", Values: row(map[string]any{"patch": []byte(latin)})}
	p, problem := Parse(row, "set")
	if problem != nil || p.Task.GoldPatch.Value != latin {
		t.Errorf("%v %q", problem, p.Task.GoldPatch.Value)
	}
	row.Values["patch"] = map[string]any{rawBytes: "ZGlmZg=="}
	if got, err := asText(row.Values["patch"]); got != "diff" || err != nil {
		t.Errorf("%q %v", got, err)
	}
	row.Values["problem_statement"] = []byte("caf\xe9")
	if _, problem := Parse(row, "set"); problem == nil || problem.Field != "problem_statement" || !strings.Contains(problem.What, "invalid UTF-8 at byte 3") {
		t.Errorf("got %v", problem)
	}
}
