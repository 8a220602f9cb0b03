package cosine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// Near finds all kept vectors that are as close as tau. Equal vectors are, whatever tau is,
// with the score 1. Searches may run at the same time as each other, not as Keep.
type Near struct {
	index *Index
	equal map[uint64][]int // numbers of the kept by the hash of their vectors
}

// NewNear keeps nothing yet; vectors are of dim numbers.
func NewNear(dim int, o Options) (*Near, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	return &Near{NewIndex(dim, o), map[uint64][]int{}}, nil
}

// Keep adds a unit vector under the next number, from 0. It must not change.
func (n *Near) Keep(unit []float32) error {
	if err := n.fits(unit); err != nil {
		return err
	}
	q := n.index.Query(unit)
	h := hash(q.near)
	n.equal[h] = append(n.equal[h], n.index.Len())
	n.index.Add(q)
	return nil
}

func (n *Near) fits(unit []float32) error {
	if len(unit) != n.index.dim {
		return fmt.Errorf("a vector of %d numbers among those of %d", len(unit), n.index.dim)
	}
	return nil
}

// Find is for each unit vector the kept ones that are close to it, by number.
func (n *Near) Find(ctx context.Context, units [][]float32) ([][]Hit, error) {
	for _, u := range units {
		if err := n.fits(u); err != nil {
			return nil, err
		}
	}
	queries, hits := make([]*Query, len(units)), make([][]Hit, len(units))
	if err := each(ctx, n.index.Workers, len(units), func(i int) { queries[i] = n.index.Query(units[i]) }); err != nil {
		return nil, err
	}
	err := n.index.parts(ctx, len(units), func(ctx context.Context, lo, hi int) error {
		return n.index.all(ctx, queries[lo:hi], hits[lo:hi])
	})
	if err != nil {
		return nil, err
	}
	for i, q := range queries {
		hits[i] = n.same(q, hits[i])
	}
	return hits, nil
}

// same adds equal vectors, whose product is not quite 1 as a rule.
func (n *Near) same(q *Query, hits []Hit) []Hit {
	for i := range hits {
		hits[i].Score = min(hits[i].Score, 1)
	}
	for _, key := range n.equal[hash(q.near)] {
		if !slices.Equal(q.v, n.index.kept[key].v) {
			continue
		}
		i, there := slices.BinarySearchFunc(hits, key, func(h Hit, key int) int { return cmp.Compare(h.Key, key) })
		if !there {
			hits = slices.Insert(hits, i, Hit{Key: key})
		}
		hits[i].Score = 1
	}
	return hits
}

// all is search for everything that is as close as tau.
func (x *Index) all(ctx context.Context, queries []*Query, hits [][]Hit) error {
	s := x.searching(queries)
	for lo := 0; lo < x.panelCount(); lo += x.tile {
		if err := ctx.Err(); err != nil {
			return err
		}
		for p := lo; p < min(lo+x.tile, x.panelCount()); p++ {
			x.screen(s, queries, p, lo*panelKeys, 0)
		}
		for _, f := range s.found { // those of each query are by key, as screen found them
			row, key := f&(1<<16-1), lo*panelKeys+int(f>>16)
			if score, ok := x.same(queries[row], x.kept[key]); ok {
				hits[row] = append(hits[row], Hit{Key: key, Score: score})
			}
		}
		s.found = s.found[:0]
	}
	return nil
}
