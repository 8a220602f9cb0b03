package datasets

import (
	"bufio"
	"container/heap"
	"errors"
	"iter"
	"slices"
	"strings"

	"orchard/datasets/arrowio"
	"orchard/datasets/record"
	"orchard/internal/exit"
)

// fanIn is how many sorted runs are merged at once; each has a small batch in memory.
const fanIn = 64

// sorter sorts rows by id with bounded memory: it keeps rows up to its budget, and then
// writes them, sorted, to an unnamed temporary file, as long as the rows themselves:
// compressing is most of what writing costs, and would be done twice. Runs of a level are merged into one
// of the next when there are fanIn of them.
type sorter[R record.Row] struct {
	name   string // of the dataset, for messages
	budget int64  // bytes of rows in memory

	rows   []R
	weight int64
	levels [][]*sortedRun[R]
}

// sortedRun is rows sorted by id in a temporary file.
type sortedRun[R record.Row] struct {
	tmp     *spool
	decoder *arrowio.Decoder[R]
}

func (s *sorter[R]) add(row R) error {
	s.rows = append(s.rows, row)
	if s.weight += arrowio.Weigh(row); s.weight < s.budget {
		return nil
	}
	r, err := s.spill(values(s.take()))
	if err != nil {
		return err
	}
	return s.keep(r, 0)
}

// take is the rows in memory, sorted.
func (s *sorter[R]) take() []R {
	rows := s.rows
	slices.SortStableFunc(rows, func(a, b R) int { return strings.Compare(a.Key(), b.Key()) })
	s.rows, s.weight = nil, 0
	return rows
}

func values[R record.Row](rows []R) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		for _, r := range rows {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// keep adds a run to a level, and merges the level when it is full.
func (s *sorter[R]) keep(r *sortedRun[R], level int) error {
	if level == len(s.levels) {
		s.levels = append(s.levels, nil)
	}
	s.levels[level] = append(s.levels[level], r)
	runs := s.levels[level]
	if len(runs) < fanIn {
		return nil
	}
	merged, err := s.spill(merge(runs, nil))
	if err != nil {
		return err
	}
	s.levels[level] = nil
	closeRuns(runs)
	return s.keep(merged, level+1)
}

// spill writes sorted rows to a run.
func (s *sorter[R]) spill(rows iter.Seq2[R, error]) (r *sortedRun[R], err error) {
	tmp, err := newSpool()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			tmp.Close()
		}
	}()
	out := bufio.NewWriterSize(tmp, 256<<10)
	w, err := arrowio.NewPlainWriter[R](out)
	if err != nil {
		return nil, err
	}
	b := arrowio.NewSmallBatcher[R]()
	for row, err := range rows {
		if err != nil {
			return nil, err
		}
		full, err := b.Add(row)
		if err != nil {
			return nil, exit.Inputf("dataset %s: row %q: %w", s.name, row.Key(), err)
		}
		if full {
			if err := w.Write(b.Take()); err != nil {
				return nil, err
			}
		}
	}
	if last := b.Take(); last != nil {
		if err := w.Write(last); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(w.Close(), out.Flush()); err != nil {
		return nil, err
	}
	f, err := arrowio.Open(tmp.f, tmp.Size())
	if err != nil {
		return nil, err
	}
	d, err := arrowio.Decode[R](f, arrowio.Query{})
	return &sortedRun[R]{tmp, d}, err
}

// all yields every row by id, those of the same id beside each other.
func (s *sorter[R]) all() iter.Seq2[R, error] {
	var runs []*sortedRun[R]
	for _, level := range slices.Backward(s.levels) { // older rows first
		runs = append(runs, level...)
	}
	return merge(runs, s.take())
}

// close frees the disk space.
func (s *sorter[R]) close() {
	for _, level := range s.levels {
		closeRuns(level)
	}
	s.levels, s.rows = nil, nil
}

func closeRuns[R record.Row](runs []*sortedRun[R]) {
	for _, r := range runs {
		r.tmp.Close()
	}
}

// merge yields the rows of several runs, and of a list, by id.
func merge[R record.Row](runs []*sortedRun[R], rows []R) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		h := cursors[R]{&cursor[R]{order: len(runs), rows: rows}}
		for i, r := range runs {
			h = append(h, &cursor[R]{order: i, run: r})
		}
		h = slices.DeleteFunc(h, func(c *cursor[R]) bool { return !c.fill() && c.err == nil })
		heap.Init(&h)
		for len(h) > 0 {
			c := h[0]
			if c.err != nil {
				var zero R
				yield(zero, c.err)
				return
			}
			if !yield(c.rows[0], nil) {
				return
			}
			if c.rows = c.rows[1:]; c.fill() || c.err != nil {
				heap.Fix(&h, 0)
			} else {
				heap.Pop(&h)
			}
		}
	}
}

// cursor is a place in a run.
type cursor[R record.Row] struct {
	order int
	run   *sortedRun[R] // nil when rows are all
	batch int
	rows  []R
	err   error
}

// fill makes rows hold the next row; false at the end, or with err.
func (c *cursor[R]) fill() bool {
	for len(c.rows) == 0 && c.run != nil && c.batch < c.run.decoder.Batches() && c.err == nil {
		c.rows, c.err = c.run.decoder.Rows(c.batch)
		c.batch++
	}
	return len(c.rows) > 0 && c.err == nil
}

// cursors is a heap by the id of the next row; trouble comes first.
type cursors[R record.Row] []*cursor[R]

func (h cursors[R]) Len() int      { return len(h) }
func (h cursors[R]) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h cursors[R]) Less(i, j int) bool {
	a, b := h[i], h[j]
	if a.err != nil || b.err != nil {
		return a.err != nil && b.err == nil
	}
	if o := strings.Compare(a.rows[0].Key(), b.rows[0].Key()); o != 0 {
		return o < 0
	}
	return a.order < b.order
}
func (h *cursors[R]) Push(x any) { *h = append(*h, x.(*cursor[R])) }
func (h *cursors[R]) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
