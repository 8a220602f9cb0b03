package stats

import (
	"encoding/json"
	"math/bits"
)

// Histogram counts whole numbers by powers of two: 0, 1, 2–3, 4–7 and so on.
type Histogram struct {
	Name    string  `json:"name"`
	Values  int64   `json:"values"`
	Unknown int64   `json:"unknown"` // rows that do not know the number
	Sum     int64   `json:"sum"`
	Min     int64   `json:"min"` // 0 without values, and so is Max
	Max     int64   `json:"max"`
	Buckets []int64 `json:"buckets"` // the i-th holds what has i binary digits
}

func (h *Histogram) add(n int64) {
	if h.Values == 0 {
		h.Min, h.Max = n, n
	}
	h.Min, h.Max = min(h.Min, n), max(h.Max, n)
	h.Values++
	h.Sum += n
	i := bits.Len64(uint64(max(n, 0)))
	for len(h.Buckets) <= i {
		h.Buckets = append(h.Buckets, 0)
	}
	h.Buckets[i]++
}

func (h *Histogram) maybe(n *int64) {
	if n == nil {
		h.Unknown++
		return
	}
	h.add(*n)
}

// Bounds is the least and the most that the i-th bucket holds.
func (h *Histogram) Bounds(i int) (least, most int64) {
	if i == 0 {
		return 0, 0
	}
	return 1 << (i - 1), 1<<i - 1
}

// Mean is the average; 0 without values.
func (h *Histogram) Mean() float64 {
	if h.Values == 0 {
		return 0
	}
	return float64(h.Sum) / float64(h.Values)
}

// sourceOf is the source in the metadata of an SFT row, "" when it has none.
func sourceOf(metadata string) string {
	var m struct {
		Source string `json:"source"`
	}
	_ = json.Unmarshal([]byte(metadata), &m) // what is no JSON has no source
	return m.Source
}
