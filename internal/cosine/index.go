package cosine

import (
	"context"
	"math/bits"
	"slices"

	"golang.org/x/sync/errgroup"
)

// Hit is what a search found: a kept vector by its number and the cosine. Key is -1 when
// there is none.
type Hit struct {
	Key   int
	Score float64
}

var none = Hit{Key: -1}

// Index is the vectors that are kept, numbered from 0. Searches may run at the same time
// as each other, not as Add.
type Index struct {
	*space
	kept   []*Query
	panels []float32 // near views in panels, the last one padded with zeros
}

// NewIndex makes an empty index of vectors of dim numbers.
func NewIndex(dim int, o Options) *Index { return &Index{space: newSpace(dim, o)} }

// Query prepares a unit vector, which is kept and must not change.
func (x *Index) Query(v []float32) *Query { return x.query(v) }

// Len is how many are kept.
func (x *Index) Len() int { return len(x.kept) }

// Add keeps q.
func (x *Index) Add(q *Query) {
	lane := len(x.kept) % panelKeys
	if lane == 0 {
		x.panels = append(x.panels, make([]float32, x.panelLen())...)
	}
	panel := x.panel(len(x.kept) / panelKeys)
	for i, f := range q.near {
		panel[i*panelKeys+lane] = f
	}
	x.kept = append(x.kept, q)
}

func (x *Index) panelCount() int { return (len(x.kept) + panelKeys - 1) / panelKeys }

func (x *Index) panelLen() int { return x.near.width * panelKeys }

func (x *Index) panel(i int) []float32 { return x.panels[i*x.panelLen() : (i+1)*x.panelLen()] }

// searchRows is how many queries go through the panels together, so that a panel is read
// once for all; tilePanels is after how many panels what they left is decided, so that
// queries with a twin drop out. Both are large enough for vectors that are close to
// each other to meet in one tile (see settle), and fit the 16 bits that a pair has for each.
const (
	searchRows = 512
	tilePanels = 64
)

// First finds for each query the kept vector with the lowest number, from on, that it is
// a duplicate of.
func (x *Index) First(ctx context.Context, queries []*Query, from int) ([]Hit, error) {
	hits := make([]Hit, len(queries))
	return hits, x.parts(ctx, len(queries), func(ctx context.Context, lo, hi int) error {
		return x.search(ctx, queries[lo:hi], hits[lo:hi], from)
	})
}

// parts divides n queries into searches: enough for all goroutines, of no more rows than one
// takes.
func (x *Index) parts(ctx context.Context, n int, search func(ctx context.Context, lo, hi int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(max(x.Workers, 1))
	rows := min(searchRows, max(quadQuery, (n+max(x.Workers, 1)-1)/max(x.Workers, 1)))
	for lo := 0; lo < n; lo += rows {
		g.Go(func() error { return search(ctx, lo, min(lo+rows, n)) })
	}
	return g.Wait()
}

// one is First for a single query.
func (x *Index) one(q *Query, from int) Hit {
	var hit [1]Hit
	_ = x.search(context.Background(), []*Query{q}, hit[:], from) // only a cancelled context is an error
	return hit[0]
}

// searching is the queries of one search that have no twin yet.
type searching struct {
	rows  []int     // where they are in the list
	quads []float32 // their near views, in quads, padded with zeros
	found []uint64  // of this tile: pairs that are not ruled out, as key in the tile << 16 | row
	label []uint64  // by row: the first key of this tile that it was found with
}

func (x *Index) search(ctx context.Context, queries []*Query, hits []Hit, from int) error {
	for i := range hits {
		hits[i] = none
	}
	if from >= len(x.kept) {
		return nil
	}
	s := x.searching(queries)
	panels := x.panelCount()
	for lo := from / panelKeys; lo < panels && len(s.rows) > 0; lo += x.tile {
		if err := ctx.Err(); err != nil {
			return err
		}
		for p := lo; p < min(lo+x.tile, panels); p++ {
			x.screen(s, queries, p, lo*panelKeys, from)
		}
		x.settle(s, queries, hits, lo*panelKeys)
	}
	return nil
}

// searching begins a search for all of the queries.
func (x *Index) searching(queries []*Query) *searching {
	s := &searching{rows: make([]int, len(queries))}
	for i := range s.rows {
		s.rows[i] = i
	}
	x.pack(s, queries)
	return s
}

// pack lays the near views of the queries that are left in quads.
func (x *Index) pack(s *searching, queries []*Query) {
	w := x.near.width * quadQuery
	need := (len(s.rows) + quadQuery - 1) / quadQuery * w
	if cap(s.quads) < need {
		s.quads = make([]float32, need)
	}
	s.quads = s.quads[:need]
	clear(s.quads[max(0, need-w):])
	for i, row := range s.rows {
		quad := s.quads[i/quadQuery*w:]
		for j, f := range queries[row].near {
			quad[j*quadQuery+i%quadQuery] = f
		}
	}
}

// screen notes which keys of a panel, in the tile that begins with key tile, are not ruled out.
func (x *Index) screen(s *searching, queries []*Query, p, tile, from int) {
	panel, first := x.panel(p), p*panelKeys
	valid := uint32(1)<<min(panelKeys, len(x.kept)-first) - 1
	if from > first {
		valid &^= 1<<(from-first) - 1
	}
	var least [8]float32
	for i := range least {
		least[i] = float32(x.near.least)
	}
	w := x.near.width * quadQuery
	for i := 0; i < len(s.rows); i += quadQuery {
		masks := x.k.screen(s.quads[i/quadQuery*w:][:w], panel, &least)
		for q, mask := range masks {
			if i+q >= len(s.rows) {
				break
			}
			for mask &= valid; mask != 0; mask &= mask - 1 {
				key, row := first+bits.TrailingZeros32(mask), s.rows[i+q]
				if !x.apart(queries[row], x.kept[key]) {
					s.found = append(s.found, uint64(key-tile)<<16|uint64(row))
				}
			}
		}
	}
}

// settle decides the pairs that a tile has left, those of each query by key, and lets go of
// the queries that have a twin. What costs here is reading the vectors, so queries that were
// found with the same first key, which are close to the same others, are taken
// together.
func (x *Index) settle(s *searching, queries []*Query, hits []Hit, tile int) {
	const low, none = 1<<16 - 1, 1 << 32
	s.label = slices.Grow(s.label[:0], len(queries))[:len(queries)]
	for i := range s.label {
		s.label[i] = none
	}
	for _, p := range s.found {
		s.label[p&low] = min(s.label[p&low], p>>16)
	}
	for i, p := range s.found {
		s.found[i] = s.label[p&low]<<32 | p
	}
	slices.Sort(s.found)
	for _, p := range s.found {
		row, key := p&low, tile+int(p>>16&low)
		if hits[row].Key < 0 {
			if score, ok := x.same(queries[row], x.kept[key]); ok {
				hits[row] = Hit{Key: key, Score: score}
			}
		}
	}
	s.found = s.found[:0]
	before := len(s.rows)
	s.rows = slices.DeleteFunc(s.rows, func(row int) bool { return hits[row].Key >= 0 })
	if len(s.rows) < before {
		x.pack(s, queries)
	}
}
