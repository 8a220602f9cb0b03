package minhash

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/sync/errgroup"
)

// Options say what a near-duplicate is and how pairs are proposed.
type Options struct {
	N     int  // words, or characters, in a shingle
	Chars bool // shingles of characters

	Bands, Rows int     // hashes: Bands times Rows
	Jaccard     float64 // least similarity of a duplicate, over 0 and at most 1
	// Trust takes every proposed pair for a duplicate, without a look at the texts; the
	// score is then the share of equal hashes.
	Trust bool

	Workers int    // goroutines that hash; under 1 is one. Does not change the result.
	Seed    uint64 // what the hash functions are drawn from
}

// Validate says everything that is wrong.
func (o Options) Validate() error {
	var errs []error
	for _, c := range []struct {
		ok   bool
		what string
		v    any
	}{
		{o.N >= 1 && o.N <= 1000, "%d words or characters in a shingle: must be 1 to 1000", o.N},
		{o.Bands >= 1 && o.Bands <= 1000, "%d bands: must be 1 to 1000", o.Bands},
		{o.Rows >= 1 && o.Rows <= 1000, "%d rows in a band: must be 1 to 1000", o.Rows},
		{o.Jaccard > 0 && o.Jaccard <= 1, "a least similarity of %v: must be over 0 and at most 1", o.Jaccard},
	} {
		if !c.ok {
			errs = append(errs, fmt.Errorf(c.what, c.v))
		}
	}
	return errors.Join(errs...)
}

// hashing is a family of functions of a 64-bit hash: a*h+b, of which the upper bits count.
type hashing struct{ a, b []uint64 }

func newHashing(o Options) hashing {
	r := rand.New(rand.NewPCG(o.Seed, 0x6d696e68617368))
	h := hashing{make([]uint64, o.Bands*o.Rows), make([]uint64, o.Bands*o.Rows)}
	for i := range h.a {
		h.a[i], h.b[i] = r.Uint64()|1, r.Uint64()
	}
	return h
}

// signature is the least value of each function over a set.
func (h hashing) signature(set []uint64) []uint64 {
	out := make([]uint64, len(h.a))
	for i, a := range h.a {
		least, b := uint64(math.MaxUint64), h.b[i]
		for _, s := range set {
			least = min(least, a*s+b)
		}
		out[i] = least
	}
	return out
}

// Finder finds near-duplicates among texts that are decided in order, a block at a time. Not
// for several goroutines; its hashing uses several.
type Finder struct {
	o     Options
	text  func(row int) string
	hash  hashing
	bands []map[uint64][]int32 // numbers of the kept, ascending
	kept  []*prepared
	ready map[int]*prepared
}

type prepared struct {
	row       int
	set       []uint64
	signature []uint64 // let go once a row is kept, unless proposed pairs are trusted
	bands     []uint64
	twin      int // number of the kept; -1 for none
	score     float64
	seen      int // how many were kept when it was looked for
}

// NewFinder makes a finder; text is the text of a row, and an empty one has no duplicate.
func NewFinder(o Options, text func(row int) string) (*Finder, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	f := &Finder{o: o, text: text, hash: newHashing(o), bands: make([]map[uint64][]int32, o.Bands), ready: map[int]*prepared{}}
	for i := range f.bands {
		f.bands[i] = map[uint64][]int32{}
	}
	return f, nil
}

// Prepare hashes rows.
func (f *Finder) Prepare(ctx context.Context, rows []int) error {
	made := make([]*prepared, len(rows))
	g, ctx := errgroup.WithContext(ctx)
	parts := min(max(f.o.Workers, 1), len(rows))
	for p := range parts {
		g.Go(func() error {
			for i := p; i < len(rows) && ctx.Err() == nil; i += parts {
				made[i] = f.make(rows[i])
			}
			return ctx.Err()
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for i, row := range rows {
		f.ready[row] = made[i]
	}
	return nil
}

func (f *Finder) make(row int) *prepared {
	p := &prepared{row: row, set: Shingles(f.text(row), f.o.N, f.o.Chars), twin: -1}
	if len(p.set) == 0 {
		return p
	}
	p.signature = f.hash.signature(p.set)
	buf := make([]byte, 8*f.o.Rows)
	for b := range f.o.Bands {
		for i, v := range p.signature[b*f.o.Rows : (b+1)*f.o.Rows] {
			binary.LittleEndian.PutUint64(buf[8*i:], v)
		}
		p.bands = append(p.bands, xxhash.Sum64(buf))
	}
	return p
}

// First is the earliest kept row that row is a near-duplicate of, and their similarity.
func (f *Finder) First(row int) (twin int, score float64, found bool) {
	p := f.ready[row]
	if p.twin < 0 && p.seen < len(f.kept) {
		var keys []int32
		for b, v := range p.bands {
			bucket := f.bands[b][v]
			at, _ := slices.BinarySearch(bucket, int32(p.seen))
			keys = append(keys, bucket[at:]...)
		}
		p.seen = len(f.kept)
		slices.Sort(keys)
		for _, key := range slices.Compact(keys) {
			if score, ok := f.alike(p, f.kept[key]); ok {
				p.twin, p.score = int(key), score
				break
			}
		}
	}
	if p.twin < 0 {
		return 0, 0, false
	}
	return f.kept[p.twin].row, p.score, true
}

// alike decides a proposed pair.
func (f *Finder) alike(p, kept *prepared) (float64, bool) {
	if f.o.Trust {
		same := 0
		for i, v := range p.signature {
			if v == kept.signature[i] {
				same++
			}
		}
		return float64(same) / float64(len(p.signature)), true
	}
	s := Jaccard(p.set, kept.set)
	return s, s >= f.o.Jaccard
}

// Refuse is never a reason: every text can be compared.
func (f *Finder) Refuse(int) string { return "" }

// Keep adds a row.
func (f *Finder) Keep(row int) {
	p := f.ready[row]
	for b, v := range p.bands {
		f.bands[b][v] = append(f.bands[b][v], int32(len(f.kept)))
	}
	p.bands = nil
	if f.o.Trust {
		p.set = nil
	} else {
		p.signature = nil
	}
	f.kept = append(f.kept, p)
}

// Forget drops rows that are decided.
func (f *Finder) Forget(rows []int) {
	for _, row := range rows {
		delete(f.ready, row)
	}
}
