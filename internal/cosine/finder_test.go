package cosine

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// decision is what became of a row: Twin is the kept row that it is a duplicate of, -1 for
// one that is kept itself.
type decision struct {
	Twin  int
	Score float64
}

func (d decision) Kept() bool { return d.Twin < 0 }

// decided puts vectors through a finder, a block at a time.
func decided(t testing.TB, f *Finder, vectors [][]float32, block int) []decision {
	t.Helper()
	out := make([]decision, len(vectors))
	for lo := 0; lo < len(vectors); lo += block {
		hi := min(lo+block, len(vectors))
		rows := make([]int, hi-lo)
		for i := range rows {
			rows[i] = lo + i
		}
		if err := f.Prepare(t.Context(), rows, vectors[lo:hi]); err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			out[row] = decision{Twin: -1}
			if twin, score, found := f.First(row); found {
				out[row] = decision{twin, score}
			} else {
				f.Keep(row)
			}
		}
		f.Forget(rows)
	}
	return out
}

func run(t testing.TB, vectors [][]float32, block int, o Options) []decision {
	t.Helper()
	f, err := NewFinder(o)
	if err != nil {
		t.Fatal(err)
	}
	out := decided(t, f, vectors, block)
	if len(f.ready) > 0 {
		t.Fatalf("%d rows are not forgotten", len(f.ready))
	}
	return out
}

func units(t testing.TB, raw [][]float32) [][]float32 {
	t.Helper()
	out := make([][]float32, len(raw))
	for i, v := range raw {
		var err error
		if out[i], err = Unit(v); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// reference is the plain loop in float64, from the vectors as they came.
func reference(raw [][]float32, tau float64) []decision {
	var kept []int
	unit := make([][]float64, len(raw))
	out := make([]decision, len(raw))
	for i, v := range raw {
		var n float64
		for _, f := range v {
			n += float64(f) * float64(f)
		}
		for _, f := range v {
			unit[i] = append(unit[i], float64(float32(float64(f)/math.Sqrt(n))))
		}
		out[i] = decision{Twin: -1}
		for _, k := range kept {
			var dot float64
			for j := range v {
				dot += unit[i][j] * unit[k][j]
			}
			if dot >= tau || slices.Equal(unit[i], unit[k]) {
				out[i] = decision{Twin: k, Score: min(dot, 1)}
				break
			}
		}
		if out[i].Kept() {
			kept = append(kept, i)
		}
	}
	return out
}

func same(t testing.TB, what string, got, want []decision) {
	t.Helper()
	for i := range want {
		if got[i].Kept() != want[i].Kept() || got[i].Twin != want[i].Twin || math.Abs(got[i].Score-want[i].Score) > 1e-6 {
			t.Fatalf("%s: row %d: got %+v, want %+v", what, i, got[i], want[i])
		}
	}
}

// around draws vectors in clusters whose cosines lie on both sides of tau, many of them
// within the rounding of float32.
func around(r *rand.Rand, n, dim, clusters int, tau float64) [][]float32 {
	centers := make([][]float64, clusters)
	for c := range centers {
		centers[c] = direction(r, dim)
	}
	off := math.Sqrt(1/(tau*tau) - 1)
	out := make([][]float32, n)
	for i := range out {
		c, w := centers[r.IntN(clusters)], direction(r, dim)
		by := off * (1 + []float64{-1, -0.3, 0, 1e-7, -1e-7, 1e-5, 0.3}[r.IntN(7)])
		length := math.Exp(6 * r.NormFloat64()) // a vector's length says nothing
		out[i] = make([]float32, dim)
		for j := range out[i] {
			out[i][j] = float32(length * (c[j] + by*w[j]))
		}
	}
	return out
}

func direction(r *rand.Rand, dim int) []float64 {
	v := make([]float64, dim)
	var n float64
	for j := range v {
		v[j] = r.NormFloat64()
		n += v[j] * v[j]
	}
	for j := range v {
		v[j] /= math.Sqrt(n)
	}
	return v
}

// The result is that of the plain loop, whatever the block, the goroutines, the bounds and
// the kernels are.
func TestEqualsThePlainLoop(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		dim := rapid.SampledFrom([]int{1, 2, 7, 64, 100, 333}).Draw(rt, "dim")
		tau := rapid.SampledFrom([]float64{0.5, 0.9, 0.95, 0.99, 0.999, 1}).Draw(rt, "tau")
		raw := around(r, rapid.IntRange(0, 120).Draw(rt, "n"), dim, rapid.IntRange(1, 100).Draw(rt, "clusters"), tau)
		vectors, want := units(t, raw), reference(raw, tau)
		for range 3 {
			o := Options{
				Tau: tau, Workers: rapid.IntRange(0, 5).Draw(rt, "workers"), Seed: rapid.Uint64().Draw(rt, "signs"),
				Matryoshka: rapid.Bool().Draw(rt, "matryoshka"), prefix: rapid.SampledFrom([]int{0, 1, 3, 8, 20}).Draw(rt, "prefix"),
				tile: rapid.IntRange(0, 3).Draw(rt, "tile"),
			}
			if rapid.Bool().Draw(rt, "scalar") {
				o.with = plain
			}
			block := rapid.SampledFrom([]int{1, 2, 5, 17, 64, 1000}).Draw(rt, "block")
			same(t, fmt.Sprintf("%d x %d, block %d, %+v", len(raw), dim, block, o), run(t, vectors, block, o), want)
		}
	})
}

// Long vectors use both bounds; the twins and scores are the same to the last bit.
func TestLongVectorsAreTheSameOnEveryPath(t *testing.T) {
	t.Parallel()
	t.Logf("the fastest path of this build and processor is %s", Path())
	r := rand.New(rand.NewPCG(1, 2))
	raw := around(r, 240, 2048, 15, 0.99)
	vectors := units(t, raw)
	want := run(t, vectors, 1, Options{Tau: 0.99, with: plain})
	same(t, "the plain loop", want, reference(raw, 0.99))
	for _, o := range []Options{{Tau: 0.99}, {Tau: 0.99, Workers: 3}, {Tau: 0.99, Matryoshka: true}, {Tau: 0.99, prefix: 2048}, {Tau: 0.99, Workers: 2, Seed: 9, with: plain}} {
		for _, block := range []int{3, 128, 1024} {
			if got := run(t, vectors, block, o); !slices.Equal(got, want) {
				t.Errorf("block %d, workers %d, matryoshka %v, prefix %d, path %s: another result", block, o.Workers, o.Matryoshka, o.prefix, o.with.name)
			}
		}
	}
}

// at is a vector in the plane, so many degrees round.
func at(degrees float64) []float32 {
	a := degrees * math.Pi / 180
	return []float32{float32(math.Cos(a)), float32(math.Sin(a))}
}

func TestSmallSets(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		vectors [][]float32
		twins   []int
	}{
		{"none", nil, nil},
		{"one", [][]float32{at(10)}, []int{-1}},
		{"all the same", [][]float32{at(10), at(10), at(10), at(10)}, []int{-1, 0, 0, 0}},
		{"a chain keeps both ends", [][]float32{at(0), at(7), at(14)}, []int{-1, 0, -1}},
		{"a chain from its middle", [][]float32{at(7), at(0), at(14)}, []int{-1, 0, 0}},
		{"the earliest, not the closest", [][]float32{at(0), at(9), at(8)}, []int{-1, -1, 0}},
		{"opposite is not alike", [][]float32{at(0), at(180)}, []int{-1, -1}},
	} {
		got := run(t, units(t, c.vectors), 2, Options{Tau: 0.99}) // 8.1 degrees
		for i, want := range c.twins {
			if got[i].Twin != want {
				t.Errorf("%s: row %d has twin %d, want %d", c.name, i, got[i].Twin, want)
			}
		}
	}
}

func TestBadVectors(t *testing.T) {
	t.Parallel()
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, c := range []struct {
		v    []float32
		want error
	}{
		{[]float32{0, 0}, ErrZero}, {[]float32{}, ErrZero}, {[]float32{1, nan}, ErrNotFinite}, {[]float32{1, inf}, ErrNotFinite},
		{[]float32{3e38, 3e38}, nil}, {[]float32{1e-45, 0}, nil},
	} {
		u, err := Unit(c.v)
		if err != c.want || err == nil && math.Abs(Score(u, u)-1) > 1e-6 {
			t.Errorf("Unit(%v) = %v, %v", c.v, u, err)
		}
	}
	f, err := NewFinder(Options{Tau: 0.9})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Prepare(t.Context(), []int{4, 5}, [][]float32{{1, 0}, {1, 0, 0}}); err == nil || err.Error() != "row 5 has a vector of 3 numbers, those before have 2" {
		t.Errorf("mixed dimensions: %v", err)
	}
	for _, tau := range []float64{0, -1, 1.1, math.NaN()} {
		if _, err := NewFinder(Options{Tau: tau}); err == nil {
			t.Errorf("tau %v passes", tau)
		}
	}
}

// Ten times a vector is the same vector.
func TestLengthSaysNothing(t *testing.T) {
	t.Parallel()
	raw := around(rand.New(rand.NewPCG(3, 4)), 200, 96, 10, 0.97)
	want := run(t, units(t, raw), 64, Options{Tau: 0.99})
	for j := range raw[7] {
		raw[7][j] *= 10
	}
	same(t, "row 7 times 10", run(t, units(t, raw), 64, Options{Tau: 0.99}), want)
}

// What SimHash finds is right, it finds nearly all, and its recall says so.
func TestApproximateSearch(t *testing.T) {
	t.Parallel()
	raw := around(rand.New(rand.NewPCG(5, 6)), 1500, 200, 40, 0.995)
	vectors := units(t, raw)
	var results [][]decision
	for _, c := range []struct{ block, workers int }{{128, 1}, {128, 4}, {7, 3}} {
		f, err := NewFinder(Options{Tau: 0.99, Workers: c.workers, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		f.Approximate(func(row int) bool { return row%2 == 0 })
		got := decided(t, f, vectors, c.block)
		r, err := f.Recall(t.Context())
		if err != nil || r.Sample != 750 || r.Recall == nil || *r.Recall < 0.95 || *r.Recall > 1 || r.Bits != 24 || r.Tables != 16 {
			t.Fatalf("recall %+v, %v", r, err)
		}
		results = append(results, got)
	}
	for i, d := range results[0] {
		if !d.Kept() && Score(vectors[i], vectors[d.Twin]) < 0.99 {
			t.Errorf("row %d: twin %d has cosine %v", i, d.Twin, Score(vectors[i], vectors[d.Twin]))
		}
		if d != results[1][i] || d != results[2][i] {
			t.Errorf("row %d: %+v, %+v, %+v: block or goroutines change the result", i, d, results[1][i], results[2][i])
		}
	}
}

// A search that finds nothing has a recall that says so.
func TestRecallIsMeasured(t *testing.T) {
	t.Parallel()
	vectors := units(t, around(rand.New(rand.NewPCG(5, 6)), 300, 50, 5, 0.995))
	f, err := NewFinder(Options{Tau: 0.99})
	if err != nil {
		t.Fatal(err)
	}
	f.Approximate(func(int) bool { return true })
	if err := f.Prepare(t.Context(), []int{0}, vectors[:1]); err != nil {
		t.Fatal(err)
	}
	f.Keep(0)
	for table := range f.simhash.tables { // what the search looks into is lost
		f.simhash.tables[table] = nil
	}
	rows := make([]int, 299)
	for i := range rows {
		rows[i] = i + 1
	}
	if err := f.Prepare(t.Context(), rows, vectors[1:]); err != nil {
		t.Fatal(err)
	}
	r, err := f.Recall(t.Context())
	if err != nil || r.Recall == nil || *r.Recall != 0 || r.Exact == 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// The tables are those that the reference states for its two thresholds.
func TestShape(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		tau          float64
		bits, tables int
	}{{0.99, 24, 16}, {0.95, 16, 32}, {1, 24, 1}} {
		if bits, tables := shape(c.tau); bits != c.bits || tables != c.tables {
			t.Errorf("tau %v: %d bits, %d tables, want %d, %d", c.tau, bits, tables, c.bits, c.tables)
		}
	}
}
