package minhash

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"orchard/jobs/dedup/greedy"
)

var usual = Options{N: 5, Bands: 14, Rows: 8, Jaccard: 0.8}

func run(t testing.TB, texts []string, block int, o Options) []greedy.Decision {
	t.Helper()
	f, err := NewFinder(o, func(row int) string { return texts[row] })
	if err != nil {
		t.Fatal(err)
	}
	out, err := greedy.Run(t.Context(), len(texts), block, f)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// reference is the plain loop over sets of strings.
func reference(texts []string, n int, least float64) []greedy.Decision {
	sets := make([]map[string]bool, len(texts))
	var kept []int
	out := make([]greedy.Decision, len(texts))
	for i, text := range texts {
		sets[i] = map[string]bool{}
		words := strings.Split(text, " ")
		for j := range words {
			if j == 0 || j+n <= len(words) {
				sets[i][strings.Join(words[j:min(j+n, len(words))], " ")] = true
			}
		}
		out[i] = greedy.Decision{By: -1, Twin: -1}
		for _, k := range kept {
			both, all := 0, len(sets[k])
			for s := range sets[i] {
				if sets[k][s] {
					both++
				} else {
					all++
				}
			}
			if s := float64(both) / float64(all); s >= least {
				out[i] = greedy.Decision{Twin: k, Score: s}
				break
			}
		}
		if out[i].Kept() {
			kept = append(kept, i)
		}
	}
	return out
}

// With so many bands that every pair over the threshold is proposed, the result is that of
// the plain loop, for any block and number of goroutines.
func TestEqualsThePlainLoop(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		texts := make([]string, rapid.IntRange(0, 60).Draw(rt, "n"))
		for i := range texts {
			if i > 0 && r.IntN(2) == 0 {
				texts[i] = edit(r, texts[r.IntN(i)], r.IntN(4))
			} else {
				texts[i] = sentence(r, 1+r.IntN(40))
			}
		}
		n := rapid.IntRange(1, 5).Draw(rt, "words")
		want := reference(texts, n, 0.5)
		o := Options{N: n, Bands: 200, Rows: 1, Jaccard: 0.5, Workers: rapid.IntRange(0, 3).Draw(rt, "workers")}
		got := run(t, texts, rapid.SampledFrom([]int{1, 7, 100}).Draw(rt, "block"), o)
		if d := cmp.Diff(want, got); d != "" {
			rt.Fatal(d)
		}
	})
}

func sentence(r *rand.Rand, n int) string {
	words := make([]string, n)
	for i := range words {
		words[i] = "w" + strconv.Itoa(r.IntN(5000))
	}
	return strings.Join(words, " ")
}

// edit replaces some words.
func edit(r *rand.Rand, text string, n int) string {
	words := strings.Split(text, " ")
	for range n {
		words[r.IntN(len(words))] = "x" + strconv.Itoa(r.IntN(5000))
	}
	return strings.Join(words, " ")
}

func TestTexts(t *testing.T) {
	t.Parallel()
	long := sentence(rand.New(rand.NewPCG(1, 2)), 300)
	for _, c := range []struct {
		name  string
		o     Options
		texts []string
		twins []int
	}{
		{"none", usual, nil, nil},
		{"one", usual, []string{"a"}, []int{-1}},
		{"no text is a duplicate of no text", usual, []string{"", "", "a b c d e f", ""}, []int{-1, -1, -1, -1}},
		{"shorter than a shingle", usual, []string{"fix it", "fix it", "fix", "it"}, []int{-1, 0, -1, -1}},
		{"only signs", usual, []string{"+++", "+++", "---"}, []int{-1, 0, -1}},
		{"signs are no words", usual, []string{long, strings.ReplaceAll(long, " ", ", ")}, []int{-1, 0}},
		{"a word more", usual, []string{long, long + " more"}, []int{-1, 0}},
		{"characters of short texts", Options{N: 3, Chars: true, Bands: 14, Rows: 4, Jaccard: 0.7}, []string{"open the red door", "open the red doors", "close it"}, []int{-1, 0, -1}},
		{"Chinese has no spaces", Options{N: 2, Bands: 30, Rows: 1, Jaccard: 0.5}, []string{"打开红色的门", "打开红色的窗", "关上"}, []int{-1, 0, -1}},
		{"unverified", Options{N: 5, Bands: 14, Rows: 8, Jaccard: 1, Trust: true}, []string{long, long + " more", "b"}, []int{-1, 0, -1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, block := range []int{1, 100} {
				got := run(t, c.texts, block, c.o)
				for i, want := range c.twins {
					if got[i].Twin != want {
						t.Errorf("text %d has twin %d, want %d", i, got[i].Twin, want)
					}
				}
			}
		})
	}
}

// In a chain A~B~C with A and C apart both ends stay.
func TestChain(t *testing.T) {
	t.Parallel()
	words := strings.Fields(sentence(rand.New(rand.NewPCG(3, 4)), 100))
	a, b, c := strings.Join(words[:80], " "), strings.Join(words[8:88], " "), strings.Join(words[16:96], " ")
	got := run(t, []string{a, b, c}, 10, Options{N: 2, Bands: 100, Rows: 1, Jaccard: 0.8})
	if got[0].Twin != -1 || got[1].Twin != 0 || got[2].Twin != -1 {
		t.Errorf("%+v", got)
	}
}

func TestBadOptions(t *testing.T) {
	t.Parallel()
	for _, o := range []Options{{}, {N: 5, Bands: 1, Rows: 1, Jaccard: 1.5}, {N: 0, Bands: 1, Rows: 1, Jaccard: 1}, {N: 1, Bands: -1, Rows: 1, Jaccard: 1}} {
		if _, err := NewFinder(o, nil); err == nil {
			t.Errorf("%+v passes", o)
		}
	}
}

// BenchmarkPlanted plants a near-duplicate for each of a half of the texts: words of a
// statement of 200 replaced, so that similarities lie on both sides of the threshold.
func BenchmarkPlanted(b *testing.B) {
	n := 20_000
	if s := os.Getenv("ORCHARD_BENCH_SHARE"); s != "" {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || f <= 0 || f > 1 {
			b.Fatalf("ORCHARD_BENCH_SHARE: %q must be over 0 and at most 1", s)
		}
		n = int(float64(n) * f)
	}
	r := rand.New(rand.NewPCG(1, 2))
	texts, planted := make([]string, n), make([]bool, n) // planted: truly over the threshold
	for i := range texts {
		texts[i] = sentence(r, 200)
		if i >= n/2 {
			from := texts[i-n/2]
			texts[i] = edit(r, from, r.IntN(12))
			planted[i] = Jaccard(Shingles(from, usual.N, false), Shingles(texts[i], usual.N, false)) >= usual.Jaccard
		}
	}
	o := usual
	o.Workers = runtime.GOMAXPROCS(0)
	var got []greedy.Decision
	for b.Loop() {
		got = run(b, texts, 1024, o)
	}
	var right, wrong, truth float64
	for i, d := range got {
		switch {
		case !d.Kept() && planted[i] && d.Twin == i-n/2:
			right++
		case !d.Kept():
			wrong++
		}
		if planted[i] {
			truth++
		}
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "docs/s")
	b.ReportMetric(right/(right+wrong), "precision")
	b.ReportMetric(right/truth, "recall")
}

// Fewer than so many words or characters is one shingle, never none.
func TestShinglesOfAnyText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		text, n, chars := rapid.String().Draw(rt, "text"), rapid.IntRange(1, 8).Draw(rt, "n"), rapid.Bool().Draw(rt, "chars")
		set := Shingles(text, n, chars)
		if (len(set) == 0) != (text == "") || !slices.IsSorted(set) || len(slices.Compact(slices.Clone(set))) != len(set) {
			rt.Fatal(fmt.Sprint(set))
		}
		if text != "" && Jaccard(set, set) != 1 {
			rt.Fatal("a set is not like itself")
		}
	})
}
