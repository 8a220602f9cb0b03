package rules

import (
	"cmp"
	"slices"
	"strings"
)

// nearest is up to three of names that look most like name.
func nearest(name string, names []string) []string {
	type near struct {
		name string
		far  int
	}
	var list []near
	for _, n := range names {
		far := distance(strings.ToLower(name), strings.ToLower(n))
		if strings.Contains(n, name) || strings.Contains(name, n) && len(n) > 2 {
			far = min(far, 2)
		}
		if far <= max(2, len(name)/2) {
			list = append(list, near{n, far})
		}
	}
	slices.SortFunc(list, func(a, b near) int { return cmp.Or(cmp.Compare(a.far, b.far), cmp.Compare(a.name, b.name)) })
	var out []string
	for _, n := range list[:min(3, len(list))] {
		out = append(out, n.name)
	}
	return out
}

// didYouMean is a clause that names what was probably meant; "" when nothing is near.
func didYouMean(name string, names []string) string {
	near := nearest(name, names)
	if len(near) == 0 {
		return ""
	}
	return "; nearest are " + strings.Join(near, ", ")
}

// distance is how many letters have to change to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// torn is a clause for the key that is left of an expression which YAML took apart, as it
// does with a comma or brackets in {…}; "" when it does not look like one.
func torn(key string) string {
	if !strings.ContainsAny(key, "()[]=<>&|+ ") {
		return ""
	}
	return "; if this is a part of an expression, put the whole of it in '…'"
}
