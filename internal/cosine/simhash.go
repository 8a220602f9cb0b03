package cosine

import (
	"context"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"

	"golang.org/x/sync/errgroup"
)

// SimHash is an index that compares a vector only with those that agree with it in all
// bits of one of its tables: the signs of random projections. It misses some pairs
// (Charikar 2002: two vectors at angle a agree in a bit with probability 1-a/pi); what it
// finds is decided as Index does. Searches may run at the same time as each other, not as Add.
type SimHash struct {
	*space
	Bits, Tables int

	size   int         // of a rotation: dim up to a power of two
	flips  [][]float32 // the signs of each rotation, two for each size of projections
	kept   []*Query
	tables []map[uint64][]int32
}

// NewSimHash makes an empty index. Bits and tables follow from tau: as few tables as find
// a pair at tau itself with probability over 0.998.
func NewSimHash(dim int, o Options) *SimHash {
	x := &SimHash{space: newSpace(dim, o)}
	x.Bits, x.Tables = shape(o.Tau)
	x.size = 1 << bits.Len(uint(max(dim, 2)-1))
	x.tables = make([]map[uint64][]int32, x.Tables)
	for i := range x.tables {
		x.tables[i] = map[uint64][]int32{}
	}
	r := rand.New(rand.NewPCG(o.Seed, 0x73696d68617368))
	for n := 0; n < x.Bits*x.Tables; n += x.size {
		for range 2 { // one rotation leaves a vector with few numbers in few directions
			flips := make([]float32, x.size)
			for i := range flips {
				flips[i] = float32(1 - 2*int64(r.Uint64()&1))
			}
			x.flips = append(x.flips, flips)
		}
	}
	return x
}

func shape(tau float64) (bits, tables int) {
	bits = 8
	if tau >= 0.9 {
		bits = 16
	}
	if tau >= 0.98 {
		bits = 24
	}
	agree := math.Pow(1-math.Acos(min(tau, 1))/math.Pi, float64(bits))
	const miss = 0.0018
	if agree >= 1-miss {
		return bits, 1
	}
	return bits, int(math.Ceil(math.Log(miss) / math.Log(1-agree)))
}

// Signature is the bits of a vector in each table. It only adds and subtracts float32 in a
// fixed order, so it is the same everywhere.
func (x *SimHash) Signature(v []float32) []uint64 {
	out := make([]uint64, x.Tables)
	z := make([]float32, x.size)
	bit := 0
	for f := 0; f < len(x.flips); f += 2 {
		clear(z)
		copy(z, v)
		rotate(z, x.flips[f])
		rotate(z, x.flips[f+1])
		for i := 0; i < len(z) && bit < x.Bits*x.Tables; i, bit = i+1, bit+1 {
			if z[i] >= 0 {
				out[bit/x.Bits] |= 1 << (bit % x.Bits)
			}
		}
	}
	return out
}

// rotate is a Walsh-Hadamard rotation of z after signs, without its scale: only signs of
// the result are used.
func rotate(z, flips []float32) {
	for i := range z {
		z[i] *= flips[i]
	}
	for h := 1; h < len(z); h *= 2 {
		for i := 0; i < len(z); i += 2 * h {
			a, b := z[i:i+h], z[i+h:i+2*h]
			for j := range a {
				a[j], b[j] = a[j]+b[j], a[j]-b[j]
			}
		}
	}
}

func (x *SimHash) add(q *Query, signature []uint64) {
	for t, bits := range signature {
		x.tables[t][bits] = append(x.tables[t][bits], int32(len(x.kept)))
	}
	x.kept = append(x.kept, q)
}

// one is the earliest kept vector, from on, that is a duplicate and shares a bucket.
func (x *SimHash) one(q *Query, signature []uint64, from int) Hit {
	var keys []int32
	for t, bits := range signature {
		bucket := x.tables[t][bits] // ascending
		at, _ := slices.BinarySearch(bucket, int32(from))
		keys = append(keys, bucket[at:]...)
	}
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		if x.apart(q, x.kept[key]) {
			continue
		}
		if score, ok := x.same(q, x.kept[key]); ok {
			return Hit{Key: int(key), Score: score}
		}
	}
	return none
}

// each calls do for 0 to n-1 on some goroutines.
func each(ctx context.Context, workers, n int, do func(int)) error {
	g, ctx := errgroup.WithContext(ctx)
	parts := min(max(workers, 1), n)
	for p := range parts {
		g.Go(func() error {
			for i := p; i < n && ctx.Err() == nil; i += parts {
				do(i)
			}
			return ctx.Err()
		})
	}
	return g.Wait()
}
