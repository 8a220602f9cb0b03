package dedup

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orchard/datasets"
	"orchard/datasets/gentest/fixture"
	"orchard/datasets/record"
	"orchard/internal/embed/embedtest"
	"orchard/internal/exit"
	"orchard/internal/objstore"
	"orchard/internal/runner"
)

func quiet() runner.Deps {
	return runner.Deps{Stdout: new(bytes.Buffer), Stderr: new(bytes.Buffer), Backoff: time.Millisecond, Patience: time.Millisecond}
}

func task(id, statement, raw string) record.Task {
	return record.Task{
		TaskID: id, Statement: statement, Raw: raw, PreCommands: []string{}, TestCmds: []string{}, FailToPass: []string{}, PassToPass: []string{},
		GoldPatch: record.Text{Value: "", Bytes: 0},
	}
}

// given writes task datasets, one an argument, and returns a configuration that reads them.
func given(t *testing.T, sets ...[]record.Task) Config {
	t.Helper()
	root := t.TempDir()
	c := Defaults()
	c.Out = filepath.Join(root, "out")
	for i, rows := range sets {
		c.In = append(c.In, fixture.Dataset(t, root, fmt.Sprint("tasks", i), "import", rows))
	}
	return c
}

// output is what a run left: the ids that stay, and its files.
func output(t *testing.T, res runner.Result) (ids []string, list string, f funnel) {
	t.Helper()
	v, err := datasets.Open(t.Context(), datasets.Stores, res.URI)
	if err != nil {
		t.Fatal(err)
	}
	for r, err := range datasets.Rows[record.Task](t.Context(), v) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.TaskID)
	}
	read := func(name string) []byte {
		b, _, err := objstore.ReadAll(t.Context(), v.Store(), datasets.FilesPrefix("out", v.Manifest().Key)+name, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	if err := json.Unmarshal(read("funnel.json"), &f); err != nil {
		t.Fatal(err)
	}
	if err := f.balance(); err != nil || f.In != res.RowsIn || f.Out != res.RowsOut || !cmp.Equal(f.Removed, res.Dropped) {
		t.Fatalf("funnel %+v beside %+v: %v", f, res, err)
	}
	return ids, string(read("removed.jsonl")), f
}

const statement = "When the parser meets an empty header it reads past the end of the buffer and the program ends with a panic. " +
	"The header may be empty when a proxy has removed it, so the parser must take it for absent and go on with the next one, as the standard says."

var tasks = []record.Task{
	task("a", statement, `{"popularity":1}`),
	task("b", strings.ToUpper(statement)+"\n", `{"popularity":9}`),
	task("c", statement+" Please.", `{"popularity":5}`),
	task("d", "Sorting by two columns forgets the first.", `{}`),
	task("e", "", `{"popularity":null}`),
	task("f", "", `{"popularity":7}`),
}

func TestEachMethodNamesWhatStays(t *testing.T) {
	t.Parallel()
	res, err := Run(t.Context(), given(t, tasks), quiet())
	if err != nil {
		t.Fatal(err)
	}
	ids, list, f := output(t, res)
	if got := strings.Join(ids, " "); got != "a d e f" {
		t.Errorf("%s stay", got)
	}
	var lines []removed
	for d := json.NewDecoder(strings.NewReader(list)); d.More(); {
		var r removed
		if err := d.Decode(&r); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, r)
	}
	if len(lines) != 2 || lines[0].TaskID != "b" || lines[0].Method != "exact" || *lines[0].Kept != "a" || *lines[0].Score != 1 ||
		lines[1].TaskID != "c" || lines[1].Reason != ReasonNear || *lines[1].Kept != "a" || !(*lines[1].Score > 0.9 && *lines[1].Score < 1) {
		t.Errorf("removed.jsonl: %s", list)
	}
	if f.NotCompared["no_text"] != 2 || f.Settings.Embedding != "hashed-ngram-v1" || f.Recall != nil {
		t.Errorf("%+v", f)
	}
}

// The order says which one stays; what is not known comes last either way.
func TestOrder(t *testing.T) {
	t.Parallel()
	for order, want := range map[string]string{
		"task_id": "a d e f", "-task_id": "c d e f", "-row.popularity,task_id": "b d e f", "row.popularity": "a d e f",
		"-language,-row.popularity": "b d e f", "created_at": "a d e f",
	} {
		c := given(t, tasks)
		c.Order = order
		res, err := Run(t.Context(), c, quiet())
		if err != nil {
			t.Fatal(err)
		}
		if ids, _, _ := output(t, res); strings.Join(ids, " ") != want {
			t.Errorf("%s: %v stay, want %s", order, ids, want)
		}
	}
}

// The result follows the order that is stated, not the one in which rows come.
func TestPermutedInputs(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	var rows []record.Task
	for i := range 60 {
		words := strings.Fields(statement)
		for range r.IntN(4) {
			words[r.IntN(len(words))] = fmt.Sprint("x", r.IntN(9))
		}
		rows = append(rows, task(fmt.Sprintf("t%02d", i), strings.Join(words, " "), fmt.Sprintf(`{"popularity":%d}`, r.IntN(5))))
	}
	var want, list string
	for i := range 4 {
		r.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		c := given(t, rows[:20+5*i], rows[20+5*i:])
		c.Order, c.Workers, c.Tau = "-row.popularity", 1+i, 0.97
		res, err := Run(t.Context(), c, quiet())
		if err != nil {
			t.Fatal(err)
		}
		ids, removed, _ := output(t, res)
		if i == 0 {
			want, list = strings.Join(ids, " "), removed
		}
		if strings.Join(ids, " ") != want || removed != list {
			t.Errorf("pass %d: %v stay, want %s", i, ids, want)
		}
	}
}

func TestTheSameTaskInTwoInputs(t *testing.T) {
	t.Parallel()
	res, err := Run(t.Context(), given(t, tasks[:2], tasks[1:4]), quiet())
	if err != nil {
		t.Fatal(err)
	}
	if ids, list, f := output(t, res); strings.Join(ids, " ") != "a d" || f.Removed[ReasonSame] != 1 || !strings.Contains(list, `{"task_id":"b","method":"same_row","reason":"same_row","kept":"b","score":1}`) {
		t.Errorf("%v, %s, %+v", ids, list, f)
	}
	other := task("b", "something else", "")
	_, err = Run(t.Context(), given(t, tasks[:2], []record.Task{other}), quiet())
	if exit.Code(err) != exit.Input || !strings.Contains(err.Error(), "task b: is in") || !strings.Contains(err.Error(), "with other content") {
		t.Errorf("%v", err)
	}
}

func TestPatchesAreComparedByWhatTheyChange(t *testing.T) {
	t.Parallel()
	patch := func(line int, context, to string) string {
		return fmt.Sprintf("diff --git a/x.go b/x.go\nindex 1111111..2222222 100644\n--- a/x.go\n+++ b/x.go\n@@ -%d,2 +%d,2 @@ func f() {\n %s\n-\treturn a - b\n+\treturn %s\n", line, line, context, to)
	}
	var rows []record.Task
	for i, p := range []string{patch(1, "// one", "a + b"), patch(9, "// other", "a + b"), patch(1, "// one", "b"), "", "no patch at all"} {
		r := task(fmt.Sprint(i), fmt.Sprint("statement ", i), "")
		r.GoldPatch = record.Text{Value: p, Bytes: int64(len(p))}
		rows = append(rows, r)
	}
	c := given(t, rows)
	c.Column, c.Methods = "patch", "exact"
	res, err := Run(t.Context(), c, quiet())
	if err != nil {
		t.Fatal(err)
	}
	if ids, _, f := output(t, res); strings.Join(ids, " ") != "0 2 3 4" || f.NotCompared["no_text"] != 1 {
		t.Errorf("%v, %+v", ids, f)
	}
}

// numbered is a server for statements such as "one", "two": directions in degrees.
func numbered(degrees map[string]float64) func(string) any {
	return func(text string) any {
		a := degrees[text] * math.Pi / 180
		return []float64{7 * math.Cos(a), 7 * math.Sin(a)} // not of length one
	}
}

func asking(t *testing.T, url string, texts ...string) Config {
	t.Helper()
	var rows []record.Task
	for i, text := range texts {
		rows = append(rows, task(string(rune('a'+i)), text, ""))
	}
	c := given(t, rows)
	c.Embedding.LLM.URL, c.Embedding.Model, c.Embedding.Batch = url, "e", 2
	return c
}

func TestEmbeddingsOfAServer(t *testing.T) {
	t.Parallel()
	url, asked := embedtest.Server(t, numbered(map[string]float64{"zero": 0, "seven": 7, "fourteen": 14, "ninety": 90}))
	c := asking(t, url, "zero", "seven", "fourteen", "ZERO ", "", "ninety")
	res, err := Run(t.Context(), c, quiet())
	if err != nil {
		t.Fatal(err)
	}
	ids, list, f := output(t, res)
	if strings.Join(ids, " ") != "a c e f" || !strings.Contains(list, `{"task_id":"b","method":"semantic","reason":"semantic_duplicate","kept":"a","score":0.9925`) ||
		!strings.Contains(list, `{"task_id":"d","method":"exact","reason":"exact_duplicate","kept":"a","score":1}`) || f.Settings.Embedding != "model e" {
		t.Errorf("%v, %s, %+v", ids, list, f)
	}
	// Another run id is other work, of the same vectors; and what removes nothing by a
	// cheaper method asks for nothing more.
	c.RunID, c.Tau = "again", 0.9
	if res, err = Run(t.Context(), c, quiet()); err != nil || res.Status != runner.StatusDone {
		t.Fatalf("%+v, %v", res, err)
	}
	if got := strings.Join(asked(), " "); got != "fourteen ninety seven zero" {
		t.Errorf("asked for %s", got)
	}
}

func TestBadVectors(t *testing.T) {
	t.Parallel()
	b := binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(math.NaN())))
	nan := base64.StdEncoding.EncodeToString(append(b, 0, 0, 0, 0))
	url, _ := embedtest.Server(t, func(text string) any {
		switch text {
		case "zero":
			return []float64{0, 0}
		case "nan":
			return nan
		case "three":
			return []float64{1, 2, 3}
		case "none":
			return nil
		}
		return []float64{1, 2}
	})
	res, err := Run(t.Context(), asking(t, url, "good", "zero", "nan", "zero too"), quiet())
	if err != nil {
		t.Fatal(err)
	}
	ids, list, f := output(t, res)
	if strings.Join(ids, " ") != "a" || f.Removed[ReasonZero] != 1 || f.Removed[ReasonNotFinite] != 1 || f.Removed[ReasonSemantic] != 1 ||
		!strings.Contains(list, `{"task_id":"b","method":"semantic","reason":"zero_vector","kept":null,"score":null}`) {
		t.Errorf("%v, %s, %+v", ids, list, f)
	}
	for _, c := range []struct {
		text, want string
		code       int
	}{
		{"three", "the embedding of task d has 3 numbers and that of task a 2: one model gives one length", exit.Input},
		{"none", "asked for the embeddings of 2 texts, got 1", exit.Config},
	} {
		cfg := asking(t, url, "good", "better", "best", c.text)
		cfg.Embedding.Batch = map[string]int{"three": 1, "none": 2}[c.text]
		if _, err := Run(t.Context(), cfg, quiet()); exit.Code(err) != c.code || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: exit code %d, %v", c.text, exit.Code(err), err)
		}
	}
}

// A server that is away is worth another try; one that has no embeddings is not.
func TestServersThatCannotBeAsked(t *testing.T) {
	t.Parallel()
	away := httptest.NewServer(http.NotFoundHandler())
	away.Close()
	c := asking(t, away.URL, "a")
	c.Embedding.LLM.MaxRetries, c.Embedding.LLM.MaxWait = 1, time.Millisecond
	if _, err := Run(t.Context(), c, quiet()); exit.Code(err) != exit.Retry {
		t.Errorf("exit code %d, %v", exit.Code(err), err)
	}
	chat := httptest.NewServer(http.NotFoundHandler())
	defer chat.Close()
	for _, mode := range []runner.Mode{runner.ModeRun, runner.ModeCheck} {
		c = asking(t, chat.URL, "a")
		c.Mode = mode
		if _, err := Run(t.Context(), c, quiet()); exit.Code(err) != exit.Config || !strings.Contains(err.Error(), "/v1/embeddings") {
			t.Errorf("exit code %d, %v", exit.Code(err), err)
		}
	}
}

// Killed before and after each write to the store and started again, the stage asks for no
// embedding twice and ends with the same version.
func TestKilledAnywhere(t *testing.T) {
	t.Parallel()
	degrees := map[string]float64{}
	var texts []string
	for i := range 6 {
		texts = append(texts, fmt.Sprint("text ", i))
		degrees[texts[i]] = float64(7 * i)
	}
	url, _ := embedtest.Server(t, numbered(degrees))
	want, err := Run(t.Context(), asking(t, url, texts...), quiet())
	if err != nil {
		t.Fatal(err)
	}
	ended := false
	for n := 0; !ended && n < 60; n++ {
		url, asked := embedtest.Server(t, numbered(degrees))
		c := asking(t, url, texts...)
		c.Workers = 1
		d := quiet()
		writes := 0
		d.Open = func(ctx context.Context, root string) (objstore.Store, error) {
			s, err := datasets.Stores(ctx, root)
			return &breaking{s, &writes, n}, err
		}
		_, err := Run(t.Context(), c, d)
		ended = err == nil
		res, err := Run(t.Context(), c, quiet())
		if err != nil || res.Digest != want.Digest {
			t.Fatalf("write %d: %+v, %v; want digest %s", n/2, res, err, want.Digest)
		}
		// A vector that could not be stored is asked for again, with those of its request.
		if got := len(asked()); got > len(texts)+c.Embedding.Batch {
			t.Errorf("write %d: %d texts were asked for", n/2, got)
		}
	}
	if !ended {
		t.Error("it never ran to its end")
	}
}

// breaking fails a write: the n/2-th, before it is done when n is even.
type breaking struct {
	objstore.Store
	writes *int
	n      int
}

func (b *breaking) write(do func() (objstore.Info, error)) (objstore.Info, error) {
	now := *b.writes
	*b.writes++
	if now > b.n/2 || now == b.n/2 && b.n%2 == 0 {
		return objstore.Info{}, objstore.ErrUnavailable
	}
	info, err := do()
	if now == b.n/2 && err == nil {
		err = objstore.ErrUnavailable
	}
	return info, err
}

func (b *breaking) Create(ctx context.Context, key string, body objstore.Body) (objstore.Info, error) {
	return b.write(func() (objstore.Info, error) { return b.Store.Create(ctx, key, body) })
}

func (b *breaking) Swap(ctx context.Context, key string, body objstore.Body, etag string) (objstore.Info, error) {
	return b.write(func() (objstore.Info, error) { return b.Store.Swap(ctx, key, body, etag) })
}
