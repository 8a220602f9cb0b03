package quantity

import "testing"

func TestParse(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]float64{"4": 4, "500m": 0.5, "0.25": 0.25, "16Gi": 16 << 30, "512Mi": 512 << 20, "1k": 1000, "2M": 2e6, "1e3": 1000, "1Ti": 1 << 40} {
		if got, err := Parse(in); err != nil || got != want {
			t.Errorf("Parse(%q) = %v, %v, want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "m", "Gi", "-1", "0", "4 Gi", "4GB", "four", "0x10", "1_000", "inf", "NaN", "1e999"} {
		if got, err := Parse(in); err == nil {
			t.Errorf("Parse(%q) = %v, want an error", in, got)
		}
	}
}
