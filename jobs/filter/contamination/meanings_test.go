package contamination

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"orchard/datasets/record"
	"orchard/internal/cosine"
	"orchard/internal/exit"
)

// table answers with the vectors of texts that are in it.
func table(vectors map[string][]float32) Embed {
	return func(_ context.Context, texts []string) ([][]float32, error) {
		out := make([][]float32, len(texts))
		for i, text := range texts {
			out[i] = vectors[text]
		}
		return out, nil
	}
}

func said(id, statement string) *record.Task {
	return &record.Task{TaskID: id, Statement: statement}
}

// compared adds the tasks of an evaluation set.
func compared(t testing.TB, m *Meanings, set string, tasks ...*record.Task) error {
	t.Helper()
	for _, task := range tasks {
		if err := m.Add(t.Context(), set, task); err != nil {
			return err
		}
	}
	return m.Ready(t.Context())
}

// The findings are those of a plain loop in float64: for each set the nearest statement, of
// equals the first by id.
func TestMeaningsEqualThePlainLoop(t *testing.T) {
	t.Parallel()
	number := rapid.Float32Range(-4, 4)
	rapid.Check(t, func(rt *rapid.T) {
		dim := rapid.IntRange(1, 12).Draw(rt, "dim")
		vectors := map[string][]float32{}
		texts := []string{""} // of statements; of these several tasks may have the same
		for i := range rapid.IntRange(1, 12).Draw(rt, "texts") {
			v := rapid.SliceOfN(number, dim, dim).Draw(rt, "vector")
			v[0] += 5 // never zero, and many are near each other
			text := fmt.Sprint("text ", i)
			texts, vectors[text] = append(texts, text), v
		}
		draw := func(kind string, n int) (out []*record.Task) {
			for i := range n {
				out = append(out, said(fmt.Sprint(kind, (i*7)%n), rapid.SampledFrom(texts).Draw(rt, kind)))
			}
			return out
		}
		tau := rapid.SampledFrom([]float64{0.5, 0.9, 0.99, 1}).Draw(rt, "tau")
		evals := map[string][]*record.Task{
			"one": append(draw("a", rapid.IntRange(0, 20).Draw(rt, "one")), said("z", texts[1])), // a set has a statement
			"two": append(draw("b", rapid.IntRange(0, 20).Draw(rt, "two")), said("z", texts[1])),
		}
		tasks := draw("t", rapid.IntRange(1, 20).Draw(rt, "tasks"))
		m := NewMeanings(tau, 2, table(vectors))
		for _, set := range []string{"two", "one"} {
			if err := compared(t, m, set, evals[set]...); err != nil {
				rt.Fatal(err)
			}
		}
		got, err := m.Match(t.Context(), tasks)
		if err != nil {
			rt.Fatal(err)
		}
		for i, task := range tasks {
			if none := task.Statement == ""; none != (len(got[i].Unknown) == 1) {
				rt.Fatalf("%s: %+v", task.TaskID, got[i])
			}
			var want []Match
			for _, set := range []string{"one", "two"} {
				best := Match{TaskID: task.TaskID, EvalSet: set, Rule: StatementCosine, Score: -1}
				for _, e := range evals[set] {
					if s, near := slow(vectors[task.Statement], vectors[e.Statement], tau); near && (s > best.Score || s == best.Score && e.TaskID < best.EvalID) {
						best.Score, best.EvalID = s, e.TaskID
					}
				}
				if best.Score >= 0 {
					want = append(want, best)
				}
			}
			if !slices.Equal(got[i].Found, want) {
				rt.Fatalf("%s (%q), tau %v: got %+v, want %+v", task.TaskID, task.Statement, tau, got[i].Found, want)
			}
		}
	})
}

// slow is the cosine of vectors in float64, with six digits, and whether it is near enough.
func slow(a, b []float32, tau float64) (score float64, near bool) {
	if a == nil || b == nil {
		return 0, false
	}
	unit := func(v []float32) []float64 {
		var sum float64
		for _, f := range v {
			sum += float64(f) * float64(f)
		}
		var out []float64
		for _, f := range v {
			out = append(out, float64(float32(float64(f)/math.Sqrt(sum))))
		}
		return out
	}
	x, y := unit(a), unit(b)
	var dot float64
	for i := range x {
		dot += x[i] * y[i]
	}
	if slices.Equal(x, y) {
		dot = 1
	}
	return math.Round(min(dot, 1)*1e6) / 1e6, dot >= tau
}

// What is as close as tau is found, by the float64 score and not by its six digits.
func TestMeaningsAtTheBorder(t *testing.T) {
	t.Parallel()
	at := func(degrees float64) []float32 {
		a := degrees * math.Pi / 180
		return []float32{float32(3 * math.Cos(a)), float32(3 * math.Sin(a)), 0.5}
	}
	vectors := map[string][]float32{"eval": at(0), "task": at(25)}
	u, _ := cosine.Unit(vectors["eval"])
	v, _ := cosine.Unit(vectors["task"])
	score := cosine.Score(u, v)
	for tau, want := range map[float64]int{score: 1, math.Nextafter(score, 2): 0, math.Nextafter(score, 0): 1} {
		m := NewMeanings(tau, 1, table(vectors))
		if err := compared(t, m, "s", said("e", "Eval")); err != nil {
			t.Fatal(err)
		}
		got, err := m.Match(t.Context(), []*record.Task{said("t", " TASK\n")})
		if err != nil || len(got[0].Found) != want {
			t.Errorf("score %v, tau %v: %+v, %v", score, tau, got, err)
		}
	}
}

// More evaluation statements than are asked for at once are all there.
func TestMeaningsOfManyStatements(t *testing.T) {
	t.Parallel()
	asked, most := 0, 0
	m := NewMeanings(0.999, 2, func(_ context.Context, texts []string) ([][]float32, error) {
		out := make([][]float32, len(texts))
		for i, text := range texts {
			var n float64
			if _, err := fmt.Sscanf(text, "statement %f", &n); err != nil {
				return nil, err
			}
			out[i] = []float32{float32(math.Cos(n / 400)), float32(math.Sin(n / 400)), 1e-3}
		}
		asked, most = asked+len(texts), max(most, len(texts))
		return out, nil
	})
	const n = 2*asking + 10
	for i := range n {
		if err := m.Add(t.Context(), "s", said(fmt.Sprintf("e%04d", i), fmt.Sprint("Statement ", i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Ready(t.Context()); err != nil || asked != n || most != asking {
		t.Fatalf("%v: asked for %d, at most %d", err, asked, most)
	}
	for _, i := range []int{0, asking - 1, asking, n - 1} {
		got, err := m.Match(t.Context(), []*record.Task{said("t", fmt.Sprint("statement ", i))})
		if err != nil || len(got[0].Found) != 1 || got[0].Found[0].EvalID != fmt.Sprintf("e%04d", i) || got[0].Found[0].Score != 1 {
			t.Errorf("%d: %+v, %v", i, got, err)
		}
	}
}

// A vector that cannot be compared is an error that names what it is of, never "clean".
func TestBadMeanings(t *testing.T) {
	t.Parallel()
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	vectors := map[string][]float32{"good": {1, 2}, "near": {1, 2.1}, "zero": {0, 0}, "nan": {1, nan}, "inf": {inf, 1}, "three": {1, 2, 3}}
	for _, c := range []struct{ eval, task, want string }{
		{"zero", "good", "the embedding of evaluation task e of s has no cosine: all its numbers are zero"},
		{"nan", "good", "the embedding of evaluation task e of s has no cosine: it holds NaN or an infinity"},
		{"long", "good", "evaluation task e of s: its statement is too long for the embedding model"},
		{"", "good", "no task of s has a statement; comparing with it by statement_cosine would call everything clean"},
		{"good", "zero", "the embedding of task t has no cosine: all its numbers are zero"},
		{"good", "inf", "the embedding of task t has no cosine: it holds NaN or an infinity"},
		{"good", "three", "the embedding of task t has 3 numbers and that of evaluation task e of s 2: one model gives one length"},
	} {
		m := NewMeanings(0.9, 1, table(vectors))
		err := compared(t, m, "s", said("e", c.eval))
		if err == nil {
			_, err = m.Match(t.Context(), []*record.Task{said("fine", "near"), said("t", c.task)})
		}
		if exit.Code(err) != exit.Input || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q and %q: exit code %d, %v", c.eval, c.task, exit.Code(err), err)
		}
	}
	m := NewMeanings(0.9, 1, func(context.Context, []string) ([][]float32, error) { return [][]float32{{1}}, nil })
	if err := compared(t, m, "s", said("a", "a"), said("b", "b")); err == nil || !strings.Contains(err.Error(), "asked for the embeddings of 2 texts, got 1") {
		t.Errorf("fewer vectors: %v", err)
	}
	down := errors.New("down")
	m = NewMeanings(0.9, 1, func(context.Context, []string) ([][]float32, error) { return nil, down })
	if err := compared(t, m, "s", said("a", "a")); !errors.Is(err, down) {
		t.Errorf("a server that is down: %v", err)
	}
}

// A task without a statement, or with one that is too long, is not known; those beside it are.
func TestUnknownMeanings(t *testing.T) {
	t.Parallel()
	m := NewMeanings(0.9, 1, table(map[string][]float32{"good": {1, 2}}))
	if err := compared(t, m, "s", said("none", ""), said("e", "good")); err != nil {
		t.Fatal(err)
	}
	web := webTask("w", "https://x.com", "GOOD") // its intent is its statement
	got, err := m.Match(t.Context(), []*record.Task{said("a", " \n"), said("b", "too long"), &web})
	if err != nil {
		t.Fatal(err)
	}
	if len(got[0].Unknown) != 1 || got[0].Unknown[0] != (Unknown{StatementCosine, "the task has no statement"}) || got[0].Found != nil ||
		len(got[1].Unknown) != 1 || !strings.Contains(got[1].Unknown[0].Why, "too long") || got[1].Found != nil ||
		got[2].Unknown != nil || !slices.Equal(got[2].Found, []Match{{"w", "s", "e", StatementCosine, 1}}) {
		t.Errorf("%+v", got)
	}
	if got, err = m.Match(t.Context(), nil); err != nil || len(got) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

// Merge sorts findings by check, and keeps of each set the nearest.
func TestMerge(t *testing.T) {
	t.Parallel()
	a := []Match{{"t", "s", "x", Intent, 1}, {"t", "s", "y", TestNames, 0.5}}
	b := []Match{{"t", "s", "z", StatementCosine, 0.9}, {"t", "s", "b", StatementCosine, 0.95}, {"t", "s", "a", StatementCosine, 0.95}, {"t", "r", "z", StatementCosine, 0.9}}
	want := []Match{a[0], b[3], b[2], a[1]}
	if got := Merge(a, b); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if slices.Contains(Default, StatementCosine) || slices.Index(All, StatementCosine) != slices.Index(All, StatementNgram)+1 {
		t.Errorf("%v, by default %v", All, Default)
	}
}
