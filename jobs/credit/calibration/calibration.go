// Package calibration says how the values of a credit dataset behave: whether curves have
// the shape that is expected of failures, why answers were rejected, how long the
// stretches are that are trained, and how well two ways to find values agree.
//
// It is pure: rows in, numbers and Markdown out. A number over nothing is null, never 0.
package calibration

import (
	"cmp"
	"slices"

	"orchard/datasets/record"
)

// binWidth is of the histograms of probabilities, in percent: whole numbers, so that a
// value on a border is in the bin that begins there.
const binWidth = 5

// Share is a part of a whole.
type Share struct {
	Count int64    `json:"count"`
	Of    int64    `json:"of"`
	Share *float64 `json:"share"` // null of nothing
}

func (s *Share) add(yes bool) {
	s.Of++
	if yes {
		s.Count++
	}
	s.close()
}

func (s *Share) close() {
	if s.Of > 0 {
		v := float64(s.Count) / float64(s.Of)
		s.Share = &v
	}
}

// Bin is how many values lie in [From, To), and the highest bin has its To as well.
type Bin struct {
	From  float64 `json:"from"`
	To    float64 `json:"to"`
	Count int64   `json:"count"`
}

// Lengths is a distribution of lengths in steps.
type Lengths struct {
	Count  int64    `json:"count"`
	Median *float64 `json:"median"`
	Mean   *float64 `json:"mean"`
	Most   *int64   `json:"most"`
	// By is how often each length occurs, the shortest first.
	By []Length `json:"by_length"`
}

// Length is how often a length occurs.
type Length struct {
	Steps int64 `json:"steps"`
	Count int64 `json:"count"`
}

// Report is the numbers of a credit dataset.
type Report struct {
	Rows     int64            `json:"rows"`
	Methods  map[string]int64 `json:"methods"`
	Statuses map[string]int64 `json:"statuses"`
	Dropped  map[string]int64 `json:"dropped"` // rollouts without a row, by reason

	// A curve is an inverted U when its highest point is above both its first and its
	// last, and a smooth one when, besides, it never falls before that point and never
	// rises after it. The points are those that are known: the key steps that a teacher
	// names, the states whose diffs were graded.
	InvertedU Share `json:"inverted_u"`
	Smooth    Share `json:"smooth_inverted_u"`

	Asked    int64            `json:"asked"`       // rollouts that a teacher was asked about
	Accepted []int64          `json:"accepted_at"` // of them, whose first, second, … answer was taken
	Rejected map[string]int64 `json:"rejected"`    // answers by reason

	Rises    Lengths `json:"rises"`    // before they are joined and padded
	Segments Lengths `json:"segments"` // after
	NoRise   Share   `json:"no_rise"`  // rollouts with a curve that rises nowhere
	Trained  Share   `json:"trained"`  // steps of rollouts with a curve

	Start []Bin `json:"start"` // the first point of curves
	Last  []Bin `json:"last"`

	Compared *Comparison `json:"compared"` // null when there was nothing to compare with

	rises, segments map[int64]int64
}

// New is the report of no rows.
func New() *Report {
	return &Report{
		Methods: map[string]int64{}, Statuses: map[string]int64{}, Dropped: map[string]int64{}, Rejected: map[string]int64{},
		Accepted: []int64{}, Start: bins(), Last: bins(), rises: map[int64]int64{}, segments: map[int64]int64{},
	}
}

func bins() []Bin {
	var list []Bin
	for from := 0; from < 100; from += binWidth {
		list = append(list, Bin{From: float64(from) / 100, To: float64(from+binWidth) / 100})
	}
	return list
}

// Add counts one row.
func (r *Report) Add(c record.Credit) {
	r.Rows++
	r.Methods[c.Method]++
	r.Statuses[c.Status]++
	r.answers(c)
	points := Points(c)
	if len(points) == 0 {
		return
	}
	up, smooth := Shape(points)
	r.InvertedU.add(up)
	r.Smooth.add(smooth)
	into(r.Start, points[0])
	into(r.Last, points[len(points)-1])
	r.NoRise.add(len(c.Rises) == 0)
	for _, s := range c.Rises {
		r.rises[s.End-s.Begin]++
	}
	for _, s := range c.Segments {
		r.segments[s.End-s.Begin]++
	}
	r.Trained.Of += c.Steps
	r.Trained.Count += int64(len(c.Trained))
	r.Trained.close()
}

func (r *Report) answers(c record.Credit) {
	if len(c.Answers) == 0 {
		return
	}
	r.Asked++
	for i, a := range c.Answers {
		if a.Reason != "" {
			r.Rejected[a.Reason]++
			continue
		}
		for len(r.Accepted) <= i {
			r.Accepted = append(r.Accepted, 0)
		}
		r.Accepted[i]++
	}
}

// Close makes the distributions of what was added.
func (r *Report) Close() {
	r.Rises, r.Segments = lengths(r.rises), lengths(r.segments)
	if r.Compared != nil {
		r.Compared.close()
	}
}

// Points is what is known of a curve: what a teacher said, or the states with a value.
func Points(c record.Credit) []float64 {
	var list []float64
	if c.Method == record.CreditTeacher {
		for _, k := range c.Keys {
			list = append(list, k.Probability)
		}
		return list
	}
	for _, v := range c.Values {
		if v != nil {
			list = append(list, *v)
		}
	}
	return list
}

// Shape says whether points are an inverted U, and a smooth one: see Report.
func Shape(points []float64) (invertedU, smooth bool) {
	peak := slices.Index(points, slices.Max(points))
	first, last := points[0], points[len(points)-1]
	invertedU = points[peak] > first && points[peak] > last
	falling := slices.IsSortedFunc(points[peak:], func(a, b float64) int { return cmp.Compare(b, a) })
	return invertedU, invertedU && slices.IsSorted(points[:peak+1]) && falling
}

// into counts a probability in its bin.
func into(list []Bin, p float64) {
	i := 0
	for i < len(list)-1 && p >= list[i+1].From-1e-9 {
		i++
	}
	list[i].Count++
}

func lengths(of map[int64]int64) Lengths {
	l := Lengths{By: []Length{}}
	var sum int64
	for steps, n := range of {
		l.By = append(l.By, Length{steps, n})
		l.Count += n
		sum += steps * n
	}
	if l.Count == 0 {
		return l
	}
	slices.SortFunc(l.By, func(a, b Length) int { return cmp.Compare(a.Steps, b.Steps) })
	at := func(n int64) int64 { // the n-th, from 0
		for _, b := range l.By {
			if n -= b.Count; n < 0 {
				return b.Steps
			}
		}
		return 0
	}
	mean, most := float64(sum)/float64(l.Count), l.By[len(l.By)-1].Steps
	median := float64(at((l.Count-1)/2)+at(l.Count/2)) / 2
	l.Mean, l.Median, l.Most = &mean, &median, &most
	return l
}
