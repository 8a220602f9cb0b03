package greedy

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// graph is a finder over given edges; it checks how it is used.
type graph struct {
	t        rapid.TB
	edge     map[[2]int]bool
	refuse   map[int]bool
	kept     []int
	prepared map[int]bool
	asked    int
}

func (g *graph) Prepare(_ context.Context, rows []int) error {
	if !slices.IsSorted(rows) {
		g.t.Fatalf("rows %v are not in order", rows)
	}
	for _, row := range rows {
		g.prepared[row] = true
		g.asked++
	}
	return nil
}

func (g *graph) First(row int) (int, float64, bool) {
	if !g.prepared[row] {
		g.t.Fatalf("row %d is asked for and was not prepared", row)
	}
	for _, k := range g.kept {
		if g.edge[[2]int{k, row}] {
			return k, float64(k), true
		}
	}
	return 0, 0, false
}

func (g *graph) Refuse(row int) string {
	if g.refuse[row] {
		return "unfit"
	}
	return ""
}

func (g *graph) Keep(row int) {
	if !g.prepared[row] {
		g.t.Fatalf("row %d is kept and was not prepared", row)
	}
	g.kept = append(g.kept, row)
}

func (g *graph) Forget(rows []int) {
	for _, row := range rows {
		delete(g.prepared, row)
	}
}

// The result is that of one row after another, whatever the block.
func TestEqualsThePlainLoop(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		n := rapid.IntRange(0, 40).Draw(rt, "n")
		edges, unfit := make([]map[[2]int]bool, 3), make([]map[int]bool, 3)
		for f := range edges {
			edges[f], unfit[f] = map[[2]int]bool{}, map[int]bool{}
			for range r.IntN(2*n + 1) {
				a, b := r.IntN(n), r.IntN(n)
				edges[f][[2]int{min(a, b), max(a, b)}] = a != b
			}
			if n > 0 && r.IntN(2) == 0 {
				unfit[f][r.IntN(n)] = true
			}
		}
		var kept []int
		want := make([]Decision, n)
		for i := range want {
			want[i] = decision(i, kept, edges, unfit)
			if want[i].Kept() {
				kept = append(kept, i)
			}
		}
		for _, block := range []int{1, 2, 7, 100} {
			var finders []Finder
			for f := range edges {
				finders = append(finders, &graph{t: rt, edge: edges[f], refuse: unfit[f], prepared: map[int]bool{}})
			}
			got, err := Run(t.Context(), n, block, finders...)
			if err != nil {
				rt.Fatal(err)
			}
			if d := cmp.Diff(want, got); d != "" {
				rt.Fatalf("block %d: %s", block, d)
			}
			for _, d := range got {
				if d.Twin >= 0 && !got[d.Twin].Kept() {
					rt.Fatalf("twin %d does not stay itself", d.Twin)
				}
			}
			for f, finder := range finders {
				if g := finder.(*graph); len(g.prepared) > 0 {
					rt.Fatalf("finder %d is not told to forget %v", f, g.prepared)
				}
			}
		}
	})
}

func decision(i int, kept []int, edges []map[[2]int]bool, unfit []map[int]bool) Decision {
	for f := range edges {
		for _, k := range kept {
			if edges[f][[2]int{k, i}] {
				return Decision{By: f, Twin: k, Score: float64(k)}
			}
		}
		if unfit[f][i] {
			return Decision{By: f, Twin: -1, Refuse: "unfit"}
		}
	}
	return Decision{By: -1, Twin: -1}
}

// What a cheap finder finds against earlier blocks costs the next finder nothing.
func TestLaterFindersAreSpared(t *testing.T) {
	t.Parallel()
	all := map[[2]int]bool{}
	for i := 1; i < 100; i++ {
		all[[2]int{0, i}] = true
	}
	cheap := &graph{t: t, edge: all, prepared: map[int]bool{}}
	dear := &graph{t: t, prepared: map[int]bool{}}
	if _, err := Run(t.Context(), 100, 10, cheap, dear); err != nil || dear.asked != 10 {
		t.Errorf("%d rows of 100 were prepared, %v", dear.asked, err)
	}
}

func TestErrorsEndIt(t *testing.T) {
	t.Parallel()
	if _, err := Run(t.Context(), 1, 0); err == nil {
		t.Error("blocks of nothing pass")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, 1, 1, &graph{t: t, prepared: map[int]bool{}}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
