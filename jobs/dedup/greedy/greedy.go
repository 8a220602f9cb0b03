// Package greedy decides which rows stay, in a stated order: a row stays unless it is a
// duplicate of one that stays before it. It knows neither rows nor what a duplicate is;
// finders say that.
//
// The result is that of the plain loop, one row after another against all that stay: it
// depends on the order and the finders alone, never on the size of a block or on how many
// goroutines a finder uses. In a chain A~B~C in which A and C are no duplicates A and C
// stay, and whatever a row was removed for stays itself.
package greedy

import (
	"context"
	"fmt"
)

// Finder knows the rows that stay and finds those that another row is a duplicate of.
// Rows are numbers from 0, in the order in which they are decided.
type Finder interface {
	// Prepare is told of rows that will be asked for, at most a block of them, in order. It is
	// where slow work belongs, on many goroutines.
	Prepare(ctx context.Context, rows []int) error
	// First is the earliest of the rows kept so far that row, which was prepared, is a
	// duplicate of, and how alike they are.
	First(row int) (twin int, score float64, found bool)
	// Refuse is why a prepared row cannot be decided at all, "" when it can.
	Refuse(row int) string
	// Keep adds a row, which was prepared.
	Keep(row int)
	// Forget drops what Prepare made for rows that are decided.
	Forget(rows []int)
}

// Decision is what became of a row.
type Decision struct {
	By     int     // the finder that found a twin or refused; -1 for a row that stays
	Twin   int     // the row that stays for it; -1 without
	Score  float64 // of the two
	Refuse string  // why it was refused
}

// Kept says whether the row stays.
func (d Decision) Kept() bool { return d.By < 0 }

// Run decides rows 0 to n-1, block rows at a time. Of several finders that find a twin
// the first in the list counts; those after it are spared the row.
func Run(ctx context.Context, n, block int, finders ...Finder) ([]Decision, error) {
	if block < 1 {
		return nil, fmt.Errorf("a block of %d rows: must be at least 1", block)
	}
	out := make([]Decision, n)
	for lo := 0; lo < n; lo += block {
		rows := make([]int, min(block, n-lo))
		for i := range rows {
			rows[i] = lo + i
		}
		if err := decide(ctx, rows, out, finders); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func decide(ctx context.Context, rows []int, out []Decision, finders []Finder) error {
	// asked is, for each row of the block, how many finders were prepared for it: one that
	// is found against the rows of earlier blocks needs no later finder.
	asked := make([]int, len(rows))
	left := rows
	for f, finder := range finders {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := finder.Prepare(ctx, left); err != nil {
			return err
		}
		var still []int
		for _, row := range left {
			asked[row-rows[0]] = f + 1
			if _, decided := ask(finder, f, row); !decided {
				still = append(still, row)
			}
		}
		left = still
	}
	for i, row := range rows {
		out[row] = Decision{By: -1, Twin: -1}
		for f, finder := range finders[:asked[i]] {
			if d, decided := ask(finder, f, row); decided {
				out[row] = d
				break
			}
		}
		if out[row].Kept() {
			for _, finder := range finders {
				finder.Keep(row)
			}
		}
	}
	for _, finder := range finders {
		finder.Forget(rows)
	}
	return nil
}

func ask(finder Finder, f, row int) (Decision, bool) {
	if twin, score, found := finder.First(row); found {
		return Decision{By: f, Twin: twin, Score: score}, true
	}
	if reason := finder.Refuse(row); reason != "" {
		return Decision{By: f, Twin: -1, Refuse: reason}, true
	}
	return Decision{}, false
}
