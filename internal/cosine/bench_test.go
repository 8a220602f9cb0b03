package cosine

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// share scales the sizes of the benchmark: ORCHARD_BENCH_SHARE, 1 without.
func share(b *testing.B) float64 {
	s := os.Getenv("ORCHARD_BENCH_SHARE")
	if s == "" {
		return 1
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f <= 0 || f > 1 {
		b.Fatalf("ORCHARD_BENCH_SHARE: %q must be over 0 and at most 1", s)
	}
	return f
}

// planted checks a result against what the generator knows.
func (p *paper) planted(t testing.TB, got []decision) {
	t.Helper()
	for i, d := range got {
		if want := p.first[p.cluster[i]] == i; d.Kept() != want {
			t.Fatalf("row %d of cluster %d: kept %v, planted %v", i, p.cluster[i], d.Kept(), want)
		}
	}
}

// BenchmarkPaper compares the search with what it replaces, on the same rows in the same
// run, all against kept rows only and with the same rows kept.
func BenchmarkPaper(b *testing.B) {
	workers := runtime.GOMAXPROCS(0)
	n := int(140_000 * share(b))
	p := newPaper(n, 4096)
	mean, spread, close := p.pairs(100_000)
	least, middle, most := p.sizes()
	b.Logf("path %s, %d goroutines; %d rows x 4096, %d clusters of %d to %d rows (half have up to %d), %.1f%% near-duplicates at %v",
		Path(), workers, n, len(p.first), least, most, middle, 100*(1-float64(len(p.first))/float64(n)), paperTau)
	b.Logf("pairs of a row and a kept row of another cluster: unrelated ones have cosine %.3f +- %.3f, %.2f%% lie in 0.985 to 0.995", mean, spread, 100*close)
	for b.Loop() {
		ours, got := timed(func() []decision { return run(b, p.rows, 1024, Options{Tau: paperTau, Workers: workers}) })
		p.planted(b, got)
		product, blocked := timed(func() []decision { return productLoop(b, p.rows, paperTau, workers) })
		equal(b, "blocked product", got, blocked)
		pairs := comparisons(got)
		b.Logf("ratio %.1f (processors %.1f): %d rows, ours %v, blocked product %v, %.3g pairs at %.1f GFLOP a processor second; the same %d rows kept",
			product.wall/ours.wall, product.cpu/ours.cpu, n, ours, product, pairs, pairs*2*4096/product.cpu/1e9, len(p.first))
		b.ReportMetric(product.wall/ours.wall, "x-blocked")
	}
	p = nil
	small := newPaper(int(20_000*share(b)), 4096)
	one, got := timed(func() []decision { return run(b, small.rows, 1024, Options{Tau: paperTau, Workers: 1}) })
	scalar, want := timed(func() []decision { return scalarLoop(small.rows, paperTau) })
	equal(b, "scalar loop", got, want)
	small.planted(b, got)
	pairs := comparisons(got)
	b.Logf("ratio %.0f (processors %.0f): %d rows, one goroutine, ours %v, scalar loop %v, %.3g pairs at %.1f GFLOP a processor second; the same %d rows kept",
		scalar.wall/one.wall, scalar.cpu/one.cpu, len(got), one, scalar, pairs, pairs*2*4096/scalar.cpu/1e9, len(small.first))
	b.ReportMetric(scalar.wall/one.wall, "x-scalar")
}

// spent is what something took: by the clock, and of the processors, which others may use
// as well.
type spent struct{ wall, cpu float64 }

func timed(do func() []decision) (took spent, out []decision) {
	began, before := time.Now(), processor()
	out = do()
	return spent{time.Since(began).Seconds(), processor() - before}, out
}

func processor() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

func (s spent) String() string { return fmt.Sprintf("%.2f s (processors %.2f s)", s.wall, s.cpu) }

func equal(b *testing.B, what string, got, want []decision) {
	b.Helper()
	if !slices.Equal(got, want) {
		b.Fatalf("the %s decides other rows", what)
	}
}

// comparisons is how many pairs of a row and an earlier kept row there are.
func comparisons(d []decision) (pairs float64) {
	kept := 0
	for _, d := range d {
		pairs += float64(kept)
		if d.Kept() {
			kept++
		}
	}
	return pairs
}

// productLoop is the plain way with the same vector instructions: each block of rows times
// all that is kept, in tiles that fit the caches; then the rows that are left, one by one.
func productLoop(t testing.TB, rows [][]float32, tau float64, workers int) []decision {
	dim := len(rows[0])
	x := NewIndex(dim, Options{Tau: tau, Workers: workers, prefix: dim})
	var keptRows []int
	out := make([]decision, len(rows))
	const block = 512
	for lo := 0; lo < len(rows); lo += block {
		hi := min(lo+block, len(rows))
		queries := make([]*Query, hi-lo)
		hits := make([]Hit, hi-lo)
		var g errgroup.Group
		g.SetLimit(workers)
		for a := 0; a < hi-lo; a += 64 {
			g.Go(func() error {
				e := min(a+64, hi-lo)
				for i := a; i < e; i++ {
					queries[i], hits[i] = x.Query(rows[lo+i]), none
				}
				return x.everything(queries[a:e], hits[a:e])
			})
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		began := x.Len()
		for i, q := range queries {
			for k := began; k < x.Len() && hits[i].Key < 0; k++ {
				if float64(x.k.dot(q.v, x.kept[k].v)) >= x.space.least {
					if s := Score(q.v, x.kept[k].v); s >= tau {
						hits[i] = Hit{k, s}
					}
				}
			}
			if hits[i].Key >= 0 {
				out[lo+i] = decision{Twin: keptRows[hits[i].Key], Score: min(hits[i].Score, 1)}
				continue
			}
			out[lo+i] = decision{Twin: -1}
			keptRows = append(keptRows, lo+i)
			x.Add(q)
		}
	}
	return out
}

// everything multiplies queries with all that is kept, and lets none drop out.
func (x *Index) everything(queries []*Query, hits []Hit) error {
	s := &searching{rows: make([]int, len(queries))}
	for i := range queries {
		s.rows[i] = i
	}
	x.pack(s, queries)
	for p := range (len(x.kept) + panelKeys - 1) / panelKeys {
		x.screen(s, queries, p, p*panelKeys, 0)
		slices.Sort(s.found)
		for _, found := range s.found {
			row, key := found&(1<<16-1), p*panelKeys+int(found>>16)
			if hits[row].Key < 0 {
				if score := Score(queries[row].v, x.kept[key].v); score >= x.Tau {
					hits[row] = Hit{key, score}
				}
			}
		}
		s.found = s.found[:0]
	}
	return nil
}

// scalarLoop is the plain loop over rows and kept rows, eight products at a time.
func scalarLoop(rows [][]float32, tau float64) []decision {
	var kept []int
	out := make([]decision, len(rows))
	off := rounding(dotTerms(len(rows[0])))
	for i, v := range rows {
		out[i] = decision{Twin: -1}
		hit := false
		for _, k := range kept {
			if s := float64(dotPlain(v, rows[k])); s >= tau-off && !hit {
				if s = Score(v, rows[k]); s >= tau {
					out[i], hit = decision{Twin: k, Score: min(s, 1)}, true
				}
			}
		}
		if !hit {
			kept = append(kept, i)
		}
	}
	return out
}
