package record

import "testing"

func TestSumLeavesItsPartsAlone(t *testing.T) {
	t.Parallel()
	a, b := int64(2), int64(3)
	if got := Sum(&a, &b); *got != 5 || a != 2 || b != 3 {
		t.Errorf("sum %d of %d and %d", *got, a, b)
	}
	if got := Sum(nil, &b); got == nil || *got != 3 {
		t.Errorf("sum with what is not known: %v, want 3", got)
	}
	if got := Sum[float64](nil, nil); got != nil {
		t.Errorf("sum of nothing known: %v", *got)
	}
}
