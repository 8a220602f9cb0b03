package filter

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/embed/embedtest"
	"orchard/internal/exit"
	"orchard/internal/runner"
	"orchard/jobs/filter/contamination"
	"orchard/jobs/filter/funnel"
)

const original = "When the parser meets an empty header it reads past the end of the buffer, and the program ends with a panic instead of an error that says which header it was."

// Nearly the wording of original, but never thirteen words in a row of it.
const reworded = "When a parser meets an empty header, it reads past the end of its buffer and the program ends with a panic instead of the error that says which header this was."

// Hardly a word of original.
const paraphrase = "Blank fields crash decoding: out-of-bounds access kills us where callers expected to be told what field is at fault."

const other = "Sorting a table by two of its columns forgets the first of them when the second has equal values in most of the rows that are shown."

func saying(id, statement string) record.Task {
	t := plain(id, "o/r")
	t.Repo, t.Statement = "", statement
	return t
}

// comparing is a configuration that compares statements by their embeddings, and makes the
// checks of text before that.
func comparing(t *testing.T, evals, tasks []record.Task) Config {
	t.Helper()
	root := t.TempDir()
	c := Defaults()
	c.In, c.Out = []string{written(t, root, "tasks", each(tasks))}, filepath.Join(root, "out")
	c.Evals = []string{"verified=" + written(t, root, "evals", each(evals))}
	c.EvalChecks = "intent,statement_ngram,statement_cosine"
	return c
}

// asking is comparing with a server of embeddings.
func asking(t *testing.T, url string, evals, tasks []record.Task) Config {
	t.Helper()
	c := comparing(t, evals, tasks)
	c.Embedding.LLM.URL, c.Embedding.Model, c.Embedding.Batch = url, "e", 2
	return c
}

// reasons is why each task was dropped, "" for one that was not; and the funnel.
func reasons(t *testing.T, r runner.Result) (map[string]string, funnel.Funnel) {
	t.Helper()
	out := map[string]string{}
	v, err := datasets.Open(t.Context(), datasets.Stores, r.URI)
	if err != nil {
		t.Fatal(err)
	}
	for row, err := range datasets.Rows[record.Task](t.Context(), v) {
		if err != nil {
			t.Fatal(err)
		}
		out[row.TaskID] = ""
	}
	files := resultFiles(t, r)
	for line := range strings.Lines(string(files[FileDropped])) {
		var d dropped
		if err := json.Unmarshal([]byte(line), &d); err != nil {
			t.Fatal(err)
		}
		out[d.TaskID] = d.Reason
	}
	var f funnel.Funnel
	if err := json.Unmarshal(files["funnel.json"], &f); err != nil {
		t.Fatal(err)
	}
	return out, f
}

func must(t *testing.T, c Config) runner.Result {
	t.Helper()
	r, err := Run(t.Context(), c, quiet())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// rulesOf gives a configuration these rules.
func rulesOf(t *testing.T, c *Config, rules string) {
	t.Helper()
	c.Rules = filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(c.Rules, []byte(rules), 0o644); err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, got, want map[string]string) {
	t.Helper()
	for id, reason := range want {
		if g, there := got[id]; !there || g != reason {
			t.Errorf("%s: %q (there: %v), want %q", id, g, there, reason)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%v, want %v", got, want)
	}
}

const byCosine, byNgram, byIntent = "contaminated_statement_cosine", "contaminated_statement_ngram", "contaminated_intent"

// Hashed n-grams find a statement that was reworded a little, and no paraphrase; a task
// without a statement is not known.
func TestHashedStatements(t *testing.T) {
	t.Parallel()
	c := comparing(t, []record.Task{saying("e", original), saying("mute", "")},
		[]record.Task{saying("a", strings.ToUpper(original)), saying("b", original+" Please mend it."), saying("c", reworded), saying("d", paraphrase), saying("f", other), saying("g", "")})
	c.Limits.Cosine = 0.7
	r := must(t, c)
	got, f := reasons(t, r)
	expect(t, got, map[string]string{"a": byIntent, "b": byNgram, "c": byCosine, "d": "", "f": "", "g": ""})
	for _, s := range f.Steps {
		if want := map[bool]int64{true: 1}[s.Name == byCosine]; s.Unknown != want {
			t.Errorf("%s: %d unknown, want %d", s.Name, s.Unknown, want)
		}
	}
	// What was dropped before is listed with its cosine as well.
	found := map[string]float64{}
	for line := range strings.Lines(string(resultFiles(t, r)[FileContamination])) {
		var m contamination.Match
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		if m.Rule == contamination.StatementCosine {
			found[m.TaskID] = m.Score
		}
	}
	if len(found) != 3 || found["a"] != 1 || !(found["b"] > found["c"] && found["b"] < 1) {
		t.Errorf("%v", found)
	}
	// Without the check it is found by nothing.
	c.EvalChecks = "intent,statement_ngram"
	got, _ = reasons(t, must(t, c))
	expect(t, got, map[string]string{"a": byIntent, "b": byNgram, "c": "", "d": "", "f": "", "g": ""})
}

// angles is a server's vectors: directions by the texts in their normal form.
func angles(of map[string]float64) func(string) any {
	return func(text string) any {
		a := of[text] * math.Pi / 180
		return []float64{7 * math.Cos(a), 7 * math.Sin(a)}
	}
}

// A model that knows the meaning finds a paraphrase. Who is asked for what: the evaluation
// set, and those tasks that come to the checks, once.
func TestEmbeddedStatements(t *testing.T) {
	t.Parallel()
	url, asked := embedtest.Server(t, angles(map[string]float64{strings.ToLower(original): 0, strings.ToLower(paraphrase): 10, "near": 25, "far": 26, "spared": 0}))
	spared := saying("s", "spared")
	spared.Language = "cobol"
	c := asking(t, url, []record.Task{saying("e", original)}, []record.Task{saying("p", paraphrase), saying("near", "near"), saying("far", "far"), spared})
	rulesOf(t, &c, "rules:\n  - {name: cobol, drop: language == \"cobol\", absent: keep}\n  - {name: pairs, keep: count_by(task_id matches \"a\") >= 1}\n")
	r := must(t, c)
	got, _ := reasons(t, r)
	expect(t, got, map[string]string{"p": byCosine, "near": byCosine, "far": "", "s": "cobol"}) // cos 25 degrees is 0.906
	want := []string{strings.ToLower(paraphrase), "far", "near", strings.ToLower(original)}
	slices.Sort(want)
	if !slices.Equal(asked(), want) {
		t.Errorf("asked for %q", asked())
	}
	// A rerun does nothing; another run id, or limit, is other work that asks nobody.
	if r = must(t, c); r.Status != runner.StatusAlready {
		t.Errorf("%+v", r)
	}
	for _, change := range []func(*Config){func(c *Config) { c.RunID = "again" }, func(c *Config) { c.Limits.Cosine = 0.95 }} {
		c := c
		change(&c)
		again := must(t, c)
		if again.Status != runner.StatusDone || again.Key == r.Key || len(asked()) != len(want) {
			t.Errorf("%+v; asked for %q", again, asked())
		}
	}
	// The model is part of the settings, and so of the key and the manifest.
	v, err := datasets.Open(t.Context(), datasets.Stores, r.URI)
	if err != nil {
		t.Fatal(err)
	}
	if s := string(v.Manifest().Stage.Config); !strings.Contains(s, `"embedding":"model e"`) || !strings.Contains(s, `"cosine":0.9`) {
		t.Errorf("settings %s", s)
	}
	c.Embedding.Model = "f"
	if again := must(t, c); again.Status != runner.StatusDone || len(asked()) != 2*len(want) {
		t.Errorf("another model: %+v; asked for %q", again, asked())
	}
}

// The check comes before a rule that counts, and there are more tasks than go together: each
// is decided as if it were alone, and each text is asked for once.
func TestManyEmbeddedStatements(t *testing.T) {
	t.Parallel()
	of, want := map[string]float64{}, map[string]string{}
	var tasks []record.Task
	for i := range blockTasks + 40 {
		task := saying(fmt.Sprintf("t%04d", i), fmt.Sprint("statement ", i))
		task.Repo = []string{"o/near", "o/far"}[i%2]
		of[task.Statement], want[task.TaskID] = 30+float64(i%60), ""
		if i%7 == 0 {
			of[task.Statement], want[task.TaskID] = 5, "near"
		} else if task.Repo == "o/near" {
			want[task.TaskID] = "crowd"
		}
		tasks = append(tasks, task)
	}
	url, asked := embedtest.Server(t, angles(of))
	c := asking(t, url, []record.Task{saying("e", "the one")}, tasks)
	c.Embedding.Batch, c.EvalChecks = 100, Defaults().EvalChecks
	left := 0 // of o/far; one fewer of o/near
	for i := range tasks {
		if i%7 != 0 && i%2 == 1 {
			left++
		}
	}
	rulesOf(t, &c, fmt.Sprintf("rules:\n  - {name: near, contaminated: [statement_cosine]}\n  - {name: crowd, keep: count_by(repo) == %d}\n", left))
	got, _ := reasons(t, must(t, c))
	for id, reason := range want {
		if got[id] != reason {
			t.Fatalf("%s: %q, want %q", id, got[id], reason)
		}
	}
	if len(asked()) != len(tasks)+1 || len(got) != len(tasks) {
		t.Errorf("asked for %d texts of %d", len(asked()), len(tasks)+1)
	}
}

// Sets that no step compares by embeddings are not embedded.
func TestEmbeddedSetsOfARule(t *testing.T) {
	t.Parallel()
	url, asked := embedtest.Server(t, angles(map[string]float64{"one": 0, "two": 90, "like one": 1, "like two": 91}))
	c := asking(t, url, []record.Task{saying("e", "one")}, []record.Task{saying("a", "like one"), saying("b", "like two")})
	c.Evals = append(c.Evals, "web="+written(t, t.TempDir(), "web", each([]record.Task{saying("w", "two")})))
	c.EvalChecks = Defaults().EvalChecks
	rulesOf(t, &c, "rules:\n  - {name: near, contaminated: [intent, statement_cosine], evals: [verified]}\n  - {name: same, contaminated: [intent], evals: [web]}\n")
	got, _ := reasons(t, must(t, c))
	expect(t, got, map[string]string{"a": "near", "b": ""})
	if slices.Contains(asked(), "two") || len(asked()) != 3 {
		t.Errorf("asked for %q", asked())
	}
}

// What a server does wrong ends the stage, and nothing is called clean.
func TestBadEmbeddingServers(t *testing.T) {
	t.Parallel()
	nan := base64.StdEncoding.EncodeToString(append(binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(math.NaN()))), 0, 0, 0, 0))
	url, _ := embedtest.Server(t, func(text string) any {
		return map[string]any{"zero": []float64{0, 0}, "nan": nan, "three": []float64{1, 2, 3}, "none": nil, "good": []float64{1, 2}, "fine": []float64{2, 1}}[text]
	})
	for _, c := range []struct {
		eval, task, want string
		code             int
	}{
		{"zero", "good", "--eval: the embedding of evaluation task e of verified has no cosine", exit.Input},
		{"good", "zero", "the embedding of task b has no cosine: all its numbers are zero", exit.Input},
		{"good", "nan", "the embedding of task b has no cosine: it holds NaN", exit.Input},
		{"good", "three", "the embedding of task b has 3 numbers and that of evaluation task e of verified 2", exit.Input},
		{"good", "none", "got 0", exit.Config},
		{"", "good", "no task of verified has a statement", exit.Input},
	} {
		cfg := asking(t, url, []record.Task{saying("e", c.eval)}, []record.Task{saying("a", "fine"), saying("b", c.task)})
		cfg.Embedding.Batch = 1
		if r, err := Run(t.Context(), cfg, quiet()); exit.Code(err) != c.code || !strings.Contains(err.Error(), c.want) || r.URI != "" {
			t.Errorf("%q and %q: exit code %d, %v, %+v", c.eval, c.task, exit.Code(err), err, r)
		}
	}
	for _, mode := range []runner.Mode{runner.ModeRun, runner.ModeCheck} {
		away := httptest.NewServer(http.NotFoundHandler())
		away.Close()
		c := asking(t, away.URL, []record.Task{saying("e", "good")}, []record.Task{saying("a", "good")})
		c.Mode, c.Embedding.LLM.MaxRetries, c.Embedding.LLM.MaxWait = mode, 1, time.Millisecond
		if _, err := Run(t.Context(), c, quiet()); exit.Code(err) != exit.Retry {
			t.Errorf("away: exit code %d, %v", exit.Code(err), err)
		}
		chat := httptest.NewServer(http.NotFoundHandler())
		defer chat.Close()
		c.Embedding.LLM.URL = chat.URL
		if _, err := Run(t.Context(), c, quiet()); exit.Code(err) != exit.Config || !strings.Contains(err.Error(), "/v1/embeddings") {
			t.Errorf("no embeddings: exit code %d, %v", exit.Code(err), err)
		}
		// Who does not make the check needs no server, whatever the environment names.
		c.EvalChecks, c.Embedding.LLM.URL = Defaults().EvalChecks, ""
		if _, err := Run(t.Context(), c, quiet()); err != nil {
			t.Error(err)
		}
	}
}
