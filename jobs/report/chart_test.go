package report

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"orchard/datasets/record"
)

func TestSpread(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		values []int64
		labels []string
	}{
		{"one", []int64{7, 7, 7}, []string{"7"}},
		{"few", []int64{5, 7, 6, 5}, []string{"5", "6", "7"}},
		{"round", []int64{0, 100, 239, 30}, []string{"0", "20", "40", "60", "80", "100", "120", "140", "160", "180", "200", "220"}},
		{"one far away", append(many(5, 60), 100_000, 6), []string{"5", "6+"}},
	} {
		h := spread(measures(c.values), "steps")
		var labels []string
		for _, b := range h.Bins {
			labels = append(labels, b.Label)
		}
		if len(labels) != len(c.labels) {
			t.Errorf("%s: bins %q, want %q", c.name, labels, c.labels)
			continue
		}
		for i := range labels {
			if labels[i] != c.labels[i] {
				t.Errorf("%s: bins %q, want %q", c.name, labels, c.labels)
				break
			}
		}
	}
	if h := spread(nil, "steps"); h.Bins != nil {
		t.Errorf("bins of nothing: %+v", h)
	}
}

// Whatever the values are, every one is counted once and no bin is higher than the chart.
func TestSpreadCountsAll(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.OneOf(rapid.Int64Range(0, 20), rapid.Int64Range(0, math.MaxInt64/4)), 1, 50).Draw(t, "values")
		h := spread(measures(values), "tokens")
		var n int64
		for _, b := range h.Bins {
			n += b.Count
			sum := 0.0
			for _, p := range b.Parts {
				sum += p.Height
			}
			if sum > 100.001 || b.Count > 0 && sum == 0 {
				t.Fatalf("bin %+v is %g high", b, sum)
			}
		}
		if n != int64(len(values)) || len(h.Bins) > 15 {
			t.Fatalf("%d of %d values in %d bins", n, len(values), len(h.Bins))
		}
	})
}

func TestShort(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		0: "0", 9999: "9999", 10_000: "10k", 12_345: "12.3k", 12_500: "12.5k", 100_400: "100k", 999_499: "999k", 999_500: "1M",
		1_221_317: "1.22M", 99_960_000: "100M", 999_499_999: "999M", 2_500_000_000: "2.5G",
	} {
		if got := short(n); got != want {
			t.Errorf("short(%d) = %s, want %s", n, got, want)
		}
	}
}

func many(value int64, n int) []int64 {
	list := make([]int64, n)
	for i := range list {
		list[i] = value
	}
	return list
}

func measures(values []int64) []measure {
	var list []measure
	for i, v := range values {
		list = append(list, measure{v, record.Outcomes[i%len(record.Outcomes)]})
	}
	return list
}
