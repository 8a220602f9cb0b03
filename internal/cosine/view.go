package cosine

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// Options say what is searched for and how.
type Options struct {
	// Tau is the least cosine of a duplicate, over 0 and at most 1.
	Tau float64
	// Workers is how many goroutines search; under 1 is one. It does not change the result.
	Workers int
	// Matryoshka takes the leading numbers as they are for the prefix, without rotation. It
	// does not change the result.
	Matryoshka bool
	// Seed is what the signs of the rotation are drawn from. It changes the result only of an
	// approximate search.
	Seed uint64

	prefix int     // of the first bound; 0 chooses
	tile   int     // panels in a tile of the search; 0 is tilePanels
	with   kernels // the zero value is the fastest
}

func (o Options) check() error {
	if !(o.Tau > 0 && o.Tau <= 1) {
		return fmt.Errorf("a least cosine of %v: must be over 0 and at most 1", o.Tau)
	}
	return nil
}

// space is what is fixed for vectors of one length.
type space struct {
	Options
	dim int
	k   kernels

	signs     []float32
	near, mid level   // mid.p is 0 when there is none
	least     float64 // a float32 product of whole vectors below this is below tau for sure
}

// level is one prefix bound: a view of p numbers and the length of the rest as one more, so
// that the product of two views is at least that of the vectors.
//
// The p leading rows of a Walsh-Hadamard rotation of length p*m span what one gets by
// adding the m pieces of the vector, of p numbers each, with the random signs: the rotation
// within the sum changes no product and is left out. What is left is a fold, at the cost of
// reading the vector once. Where the last piece is short, some rows are shorter than one; the
// bound holds for those as well, since the rest's length is what the fold leaves over.
type level struct {
	p, pieces int
	width     int     // of a view: p and the rest
	fold      float64 // how far a stored view can be from the true one, as a length
	least     float64 // a float32 product of views below this means a cosine below tau
}

func newSpace(dim int, o Options) *space {
	s := &space{Options: o, dim: dim, k: o.with}
	if s.k.name == "" {
		s.k = fastest
	}
	if s.tile == 0 {
		s.tile = tilePanels
	}
	s.least = o.Tau - rounding(dotTerms(dim))
	s.signs = make([]float32, dim)
	r := rand.New(rand.NewPCG(s.Seed, 0x6f726368617264))
	for i := range s.signs {
		s.signs[i] = 1
		if !o.Matryoshka && r.Uint64()&1 == 1 {
			s.signs[i] = -1
		}
	}
	// The squared distance of a pair is 2-2cos, and p of dim numbers show p/dim of it, give
	// or take. A pair is ruled out when they show more than 2-2tau; with this p the pairs
	// around cosine 0.5 are, and most up to 0.74.
	p := o.prefix
	if p == 0 {
		p = max(32, 8*int(math.Round(2*(2-2*o.Tau)*float64(dim)/8)))
	}
	if 2*p > dim {
		p = dim
	}
	s.near = s.newLevel(p, screenTerms)
	if 4*p <= dim/2 {
		s.mid = s.newLevel(4*p, dotTerms)
	}
	return s
}

func (s *space) newLevel(p int, terms func(int) int) level {
	l := level{p: p, pieces: (s.dim + p - 1) / p, width: p + 1}
	if !s.Matryoshka && l.pieces > 1 {
		l.fold = rounding(l.pieces + 3)
	}
	// Each view is off by fold, the product of what is stored by as much again, and then it
	// is computed.
	l.least = s.Tau - 2.1*l.fold - rounding(terms(l.width)+2)
	return l
}

// view writes the view of a unit vector, of which square is the squared length, into z,
// which has l.width numbers, all zero.
func (s *space) view(l level, z, v []float32, square float64) {
	head := z[:l.p]
	if s.Matryoshka || l.pieces == 1 {
		copy(head, v)
	} else {
		s.k.fold(head, v, s.signs)
		scale := float32(1 / math.Sqrt(float64(l.pieces)))
		for i := range head {
			head[i] *= scale
		}
	}
	if l.pieces == 1 {
		return // the view is all there is
	}
	// The rest is rounded up for what the fold and its own rounding may have lost.
	rest := math.Sqrt(max(0, square-s.k.score(head, head)) + 4*l.fold)
	z[l.p] = float32(rest * (1 + 4*ulp))
}

// Query is a unit vector ready to be searched for or kept.
type Query struct {
	v, near, mid []float32
}

// query makes the views of v, which it keeps.
func (s *space) query(v []float32) *Query {
	q := &Query{v: v}
	z := make([]float32, s.near.width+s.mid.width)
	q.near, q.mid = z[:s.near.width:s.near.width], z[s.near.width:]
	square := s.k.score(v, v)
	s.view(s.near, q.near, v, square)
	if s.mid.p > 0 {
		s.view(s.mid, q.mid, v, square)
	}
	return q
}

// apart says that a pair which the first bound left is ruled out by the second.
func (s *space) apart(x, y *Query) bool {
	return s.mid.p > 0 && float64(s.k.dot(x.mid, y.mid)) < s.mid.least
}

// same decides a pair by the definition, after what is cheaper has not ruled it out.
func (s *space) same(x, y *Query) (score float64, ok bool) {
	if float64(s.k.dot(x.v, y.v)) < s.least {
		return 0, false
	}
	score = s.k.score(x.v, y.v)
	return score, score >= s.Tau
}
