package patch

import (
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// relocate moves every fragment to where its old lines are in old, nearest to where
// the diff says, by git's rules: a fragment that starts at line 1 must match there,
// one without trailing context must end the file, and fragments keep their order. It
// returns false and the line that the diff names for the first that fits nowhere.
func relocate(old []byte, fragments []*gitdiff.TextFragment) (line int64, ok bool) {
	lines := strings.SplitAfter(string(old), "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	least, drift := 0, 0
	for _, f := range fragments {
		var want []string
		for _, l := range f.Lines {
			if l.Old() {
				want = append(want, l.Line)
			}
		}
		told := max(int(f.OldPosition)-1, 0)
		if len(want) == 0 && f.OldPosition > 0 {
			told = int(f.OldPosition) // "-N,0" stands after line N
		}
		at, ok := find(lines, want, told+drift, least, f)
		if !ok {
			return max(f.OldPosition, 1), false
		}
		f.OldPosition += int64(at - told)
		least, drift = at+len(want), at-told
	}
	return 0, true
}

// find is where want is in lines, at or after least, nearest to guess.
func find(lines, want []string, guess, least int, f *gitdiff.TextFragment) (int, bool) {
	fits := func(at int) bool {
		if at < least || at+len(want) > len(lines) {
			return false
		}
		if f.OldPosition <= 1 && at != 0 || f.TrailingContext == 0 && at+len(want) != len(lines) {
			return false
		}
		for i, w := range want {
			if lines[at+i] != w {
				return false
			}
		}
		return true
	}
	for distance := 0; distance <= len(lines)+guess; distance++ {
		if fits(guess + distance) {
			return guess + distance, true
		}
		if fits(guess - distance) {
			return guess - distance, true
		}
	}
	return 0, false
}
