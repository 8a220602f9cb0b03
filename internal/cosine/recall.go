package cosine

import "context"

// audit is the rows of an approximate search that are compared with everything later on.
type audit struct {
	sample func(row int) bool
	noted  []noted
}

type noted struct {
	q     *Query
	kept  int  // how many there were to be found
	found bool // whether one was
}

func (a *audit) note(row int, p *prepared) {
	if a.sample(row) {
		a.noted = append(a.noted, noted{p.q, p.seen, p.hit.Key >= 0})
	}
}

// Recall is how much an approximate search finds: each row of a sample is compared with
// every row that was kept when its block began.
type Recall struct {
	Bits   int      `json:"bits"`
	Tables int      `json:"tables"`
	Sample int      `json:"sample"` // rows compared
	Exact  int      `json:"exact"`  // of these with a duplicate among the kept
	Found  int      `json:"found"`  // of these found by the search
	Recall *float64 `json:"recall"` // found of exact; nil when there was nothing to find
}

// Recall measures; nil for an exact search, which finds all.
func (f *Finder) Recall(ctx context.Context) (*Recall, error) {
	if f.audit == nil || f.simhash == nil {
		return nil, nil
	}
	r := &Recall{Bits: f.simhash.Bits, Tables: f.simhash.Tables, Sample: len(f.audit.noted)}
	all := &Index{space: f.simhash.space}
	for _, q := range f.simhash.kept {
		all.Add(q)
	}
	queries := make([]*Query, len(f.audit.noted))
	for i, n := range f.audit.noted {
		queries[i] = n.q
	}
	hits, err := all.First(ctx, queries, 0)
	if err != nil {
		return nil, err
	}
	for i, n := range f.audit.noted {
		if hits[i].Key < 0 || hits[i].Key >= n.kept { // First finds the earliest
			continue
		}
		r.Exact++
		if n.found {
			r.Found++
		}
	}
	if r.Exact > 0 {
		share := float64(r.Found) / float64(r.Exact)
		r.Recall = &share
	}
	return r, nil
}
