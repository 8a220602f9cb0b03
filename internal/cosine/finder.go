package cosine

import (
	"context"
	"fmt"
	"math"
	"slices"
)

// Finder finds duplicates among rows that are decided in order, a block at a time: by
// equal vectors first, then by search. Not for several goroutines; its searches use several.
type Finder struct {
	o      Options
	approx bool

	exact   *Index
	simhash *SimHash
	rows    []int            // of the kept, by number in the index
	equal   map[uint64][]int // numbers of the kept by the hash of their vectors
	ready   map[int]*prepared
	audit   *audit // nil unless an approximate search is to be measured
}

// prepared is a row of the block.
type prepared struct {
	q    *Query
	hash uint64
	sign []uint64 // of an approximate search
	hit  Hit
	seen int // how many were kept when it was searched for
}

// NewFinder makes a finder; the first vectors say how long vectors are.
func NewFinder(o Options) (*Finder, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	return &Finder{o: o, equal: map[uint64][]int{}, ready: map[int]*prepared{}}, nil
}

// Approximate makes the finder use SimHash, and compare the rows that sample picks with all
// that were kept before them. To be called before anything else.
func (f *Finder) Approximate(sample func(row int) bool) {
	f.approx, f.audit = true, &audit{sample: sample}
}

// Prepare searches for rows, whose unit vectors these are, among what is kept. The vectors
// are kept and must not change.
func (f *Finder) Prepare(ctx context.Context, rows []int, vectors [][]float32) error {
	if len(rows) == 0 {
		return nil
	}
	if f.exact == nil && f.simhash == nil {
		if f.approx {
			f.simhash = NewSimHash(len(vectors[0]), f.o)
		} else {
			f.exact = NewIndex(len(vectors[0]), f.o)
		}
	}
	for i, v := range vectors {
		if want := f.space().dim; len(v) != want {
			return fmt.Errorf("row %d has a vector of %d numbers, those before have %d", rows[i], len(v), want)
		}
	}
	made := make([]*prepared, len(rows))
	err := each(ctx, f.o.Workers, len(rows), func(i int) {
		made[i] = &prepared{seen: len(f.rows), hit: none}
		if f.approx {
			made[i].q, made[i].sign = f.simhash.query(vectors[i]), f.simhash.Signature(vectors[i])
		} else {
			made[i].q = f.exact.Query(vectors[i])
		}
		made[i].hash = hash(made[i].q.near)
	})
	if err != nil {
		return err
	}
	return f.search(ctx, rows, made)
}

func (f *Finder) search(ctx context.Context, rows []int, made []*prepared) error {
	var todo []*prepared
	for i, p := range made {
		f.ready[rows[i]] = p
		if p.hit = f.same(p); p.hit.Key < 0 {
			todo = append(todo, p)
		}
	}
	hits := make([]Hit, len(todo))
	var err error
	if f.approx {
		err = each(ctx, f.o.Workers, len(todo), func(i int) { hits[i] = f.simhash.one(todo[i].q, todo[i].sign, 0) })
	} else {
		queries := make([]*Query, len(todo))
		for i, p := range todo {
			queries[i] = p.q
		}
		hits, err = f.exact.First(ctx, queries, 0)
	}
	if err != nil {
		return err
	}
	for i, p := range todo {
		p.hit = hits[i]
	}
	if f.audit != nil {
		for i, p := range made {
			f.audit.note(rows[i], p)
		}
	}
	return nil
}

// same finds an equal vector. It is the earliest duplicate as well: what was kept before
// it would have removed it.
func (f *Finder) same(p *prepared) Hit {
	for _, key := range f.equal[p.hash] {
		if slices.Equal(p.q.v, f.kept(key).v) {
			return Hit{Key: key, Score: 1}
		}
	}
	return none
}

// First is the earliest kept row that row is a duplicate of.
func (f *Finder) First(row int) (twin int, score float64, found bool) {
	p := f.ready[row]
	if p.hit.Key < 0 && p.seen < len(f.rows) {
		p.hit = f.since(p)
		p.seen = len(f.rows)
	}
	if p.hit.Key < 0 {
		return 0, 0, false
	}
	return f.rows[p.hit.Key], math.Min(p.hit.Score, 1), true
}

// since searches among what was kept after a row was prepared.
func (f *Finder) since(p *prepared) Hit {
	if hit := f.same(p); hit.Key >= 0 {
		return hit
	}
	if f.approx {
		return f.simhash.one(p.q, p.sign, p.seen)
	}
	return f.exact.one(p.q, p.seen)
}

// Keep adds a row that was prepared.
func (f *Finder) Keep(row int) {
	p := f.ready[row]
	f.equal[p.hash] = append(f.equal[p.hash], len(f.rows))
	f.rows = append(f.rows, row)
	if f.approx {
		f.simhash.add(p.q, p.sign)
	} else {
		f.exact.Add(p.q)
	}
}

// Forget drops rows that are decided.
func (f *Finder) Forget(rows []int) {
	for _, row := range rows {
		delete(f.ready, row)
	}
}

func (f *Finder) space() *space {
	if f.approx {
		return f.simhash.space
	}
	return f.exact.space
}

func (f *Finder) kept(key int) *Query {
	if f.approx {
		return f.simhash.kept[key]
	}
	return f.exact.kept[key]
}

// hash mixes the bits of a view; vectors that are equal have equal views.
func hash(view []float32) uint64 {
	h := uint64(14695981039346656037)
	for _, f := range view {
		h = (h ^ uint64(math.Float32bits(f))) * 1099511628211
	}
	return h
}
