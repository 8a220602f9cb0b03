package cosine

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// paper draws vectors of the shape of the paper's pool of web tasks. Clusters of
// near-duplicates lie in groups of related ones:
//
//   - the directions of groups have cosines around 0.5, give or take 0.1: half of each is
//     shared by all, half lies in 25 dimensions;
//   - the first rows of clusters of a group have cosines of 0.985 to 0.9893 with each other:
//     no duplicates, and the pairs that no short prefix rules out;
//   - the other rows of a cluster have a cosine with its first one of 0.999 and more (three in
//     five) or of 0.9905 to 0.999, and come after it;
//   - the n-k other rows are spread over the k clusters by the square of a uniform number,
//     so that sizes go from a few rows to around sqrt(k)*n/k.
//
// What stays at 0.99 is so the first row of each cluster. Shares no code with the search.
type paper struct {
	rows    [][]float32
	first   []int // by cluster
	cluster []int // by row
}

const paperTau = 0.99

func newPaper(n, dim int) *paper {
	k := n * 111 / 1000
	const groups = 64
	r := rand.New(rand.NewPCG(1, 2))
	shared, base := signs(r, dim), make([][]float32, 25)
	for i := range base {
		base[i] = signs(r, dim)
	}
	centers := make([][]float32, groups)
	for g := range centers {
		w := direction(r, len(base))
		centers[g] = slices.Clone(shared)
		for i, b := range base {
			mix(centers[g], b, w[i])
		}
		scale(centers[g])
	}
	p := &paper{rows: make([][]float32, n), cluster: make([]int, n), first: make([]int, k)}
	for i := range n {
		p.cluster[i], p.first[i%k] = i, -1
		if i >= k {
			u := r.Float64()
			p.cluster[i] = int(float64(k) * u * u)
		}
	}
	r.Shuffle(n, func(i, j int) { p.cluster[i], p.cluster[j] = p.cluster[j], p.cluster[i] })
	for i, c := range p.cluster {
		if p.first[c] < 0 {
			p.first[c] = i
		}
	}
	slab := make([]float32, n*dim)
	for i := range n {
		p.rows[i] = slab[i*dim : (i+1)*dim : (i+1)*dim]
		p.draw(i, centers)
	}
	return p
}

// draw makes row i, which depends on its number and its cluster's alone.
func (p *paper) draw(i int, centers [][]float32) {
	v, c := p.rows[i], p.cluster[i]
	of := rand.New(rand.NewPCG(uint64(c), 3))
	copy(v, centers[of.IntN(len(centers))])
	mix(v, signs(of, len(v)), math.Sqrt(0.0115+0.004*of.Float64()))
	scale(v)
	if p.first[c] == i {
		return
	}
	own := rand.New(rand.NewPCG(uint64(i), 4))
	cos := 0.999 + 0.00099*own.Float64()
	if own.IntN(5) >= 3 {
		cos = 0.9905 + 0.0085*own.Float64()
	}
	mix(v, signs(own, len(v)), math.Sqrt(1/(cos*cos)-1))
	scale(v)
}

// signs is a random vector of length one: cheap to draw, and nearly at right angles to
// any other.
func signs(r *rand.Rand, dim int) []float32 {
	v, size := make([]float32, dim), float32(1/math.Sqrt(float64(dim)))
	for i := 0; i < dim; i += 64 {
		bits := r.Uint64()
		for j := i; j < min(i+64, dim); j++ {
			v[j] = size - 2*size*float32(bits&1)
			bits >>= 1
		}
	}
	return v
}

func mix(v, w []float32, by float64) {
	for i := range v {
		v[i] += float32(by) * w[i]
	}
}

func scale(v []float32) {
	u, err := Unit(v)
	if err != nil {
		panic(err)
	}
	copy(v, u)
}

// sizes is the least, the middle and the greatest size of a cluster.
func (p *paper) sizes() (least, middle, most int) {
	n := make([]int, len(p.first))
	for _, c := range p.cluster {
		n[c]++
	}
	slices.Sort(n)
	return n[0], n[len(n)/2], n[len(n)-1]
}

// pairs samples pairs of a row and the first row of another cluster: the mean and spread of
// the cosines of unrelated ones, and the share that is close to tau.
func (p *paper) pairs(sample int) (mean, spread, close float64) {
	r := rand.New(rand.NewPCG(7, 8))
	var n, sum, squares float64
	for range sample {
		i, k := r.IntN(len(p.rows)), r.IntN(len(p.first))
		if p.cluster[i] == k {
			continue
		}
		s := Score(p.rows[i], p.rows[p.first[k]])
		if s >= 0.985 && s <= 0.995 {
			close++
		}
		if s < 0.95 {
			n, sum, squares = n+1, sum+s, squares+s*s
		}
	}
	mean = sum / n
	return mean, math.Sqrt(squares/n - mean*mean), close / float64(sample)
}

// A small pool is what it says, and is decided as planted.
func TestPaperShape(t *testing.T) {
	t.Parallel()
	p := newPaper(2000, 512)
	mean, spread, close := p.pairs(20000)
	if math.Abs(mean-0.5) > 0.03 || math.Abs(spread-0.1) > 0.02 || close < 0.005 || close > 0.02 {
		t.Errorf("cosines of %.3f +- %.3f, %.2f%% close to tau", mean, spread, 100*close)
	}
	if least, middle, most := p.sizes(); least < 1 || middle < 4 || most < 50 {
		t.Errorf("sizes %d, %d, %d", least, middle, most)
	}
	p.planted(t, run(t, p.rows, 256, Options{Tau: paperTau, Workers: 2}))
}
