// Package quantity reads amounts of processor and memory as Kubernetes writes them.
package quantity

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// suffixes of Kubernetes quantities, longest first.
var suffixes = []struct {
	text   string
	factor float64
}{
	{"Ki", 1 << 10}, {"Mi", 1 << 20}, {"Gi", 1 << 30}, {"Ti", 1 << 40}, {"Pi", 1 << 50}, {"Ei", 1 << 60},
	{"m", 1e-3}, {"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}, {"P", 1e15}, {"E", 1e18},
}

// Parse reads a positive Kubernetes quantity: "2", "500m", "0.5", "16Gi", "1e3".
func Parse(s string) (float64, error) {
	number, factor := s, 1.0
	for _, u := range suffixes {
		if rest, ok := strings.CutSuffix(s, u.text); ok {
			number, factor = rest, u.factor
			break
		}
	}
	if number == "" || strings.Trim(number, "0123456789.eE+-") != "" {
		return 0, fmt.Errorf("%q is not a quantity such as 2, 500m or 16Gi", s)
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || v <= 0 || math.IsInf(v*factor, 0) {
		return 0, fmt.Errorf("%q is not a quantity above zero such as 2, 500m or 16Gi", s)
	}
	return v * factor, nil
}
