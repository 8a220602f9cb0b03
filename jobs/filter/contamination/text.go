package contamination

import (
	"encoding/binary"
	"hash/fnv"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"orchard/internal/seal"
	"orchard/internal/wording"
)

// words is a text's words: runs of letters, marks and digits, in one spelling (NFKC, case
// folded), so that neither width, accents' encoding, case, spaces nor punctuation count.
func words(s string) []string {
	return wording.Runs(norm.NFKC.String(cases.Fold().String(norm.NFKC.String(s))))
}

// grams is the hashes of all runs of n words. A text of fewer words has none.
func grams(words []string, n int) map[uint64]bool {
	out := map[uint64]bool{}
	for i := 0; i+n <= len(words); i++ {
		out[hash(words[i:i+n])] = true
	}
	return out
}

// hash is 64 bits of a list of words. With a few thousand evaluation tasks of a few
// thousand n-grams, two of 10^9 n-grams meet by chance about once in a thousand runs.
func hash(words []string) uint64 {
	h := fnv.New128a()
	for _, w := range words {
		h.Write([]byte(w))
		h.Write([]byte{0})
	}
	return binary.LittleEndian.Uint64(h.Sum(nil))
}

// edits is what a patch does: for each file the lines it removes and adds, without their
// surroundings, numbers, indentation and line ends.
func edits(patch string) []string {
	var out []string
	removed, added := 0, 0 // lines that the hunk still has
	for line := range strings.Lines(patch) {
		line = strings.TrimRight(line, "\r\n")
		if removed <= 0 && added <= 0 {
			if name, ok := strings.CutPrefix(line, "+++ "); ok {
				name, _, _ = strings.Cut(strings.TrimPrefix(name, "b/"), "\t")
				out = append(out, "f "+name)
			} else if m := hunk.FindStringSubmatch(line); m != nil {
				removed, added = length(m[1]), length(m[2])
			}
			continue
		}
		sign := " "
		if line != "" {
			sign = line[:1]
		}
		switch sign {
		case "-":
			removed--
		case "+":
			added--
		case "\\": // no newline at the end of the file
			continue
		default:
			removed, added = removed-1, added-1
			continue
		}
		if body := strings.Join(strings.Fields(line[1:]), " "); body != "" {
			out = append(out, sign+" "+body)
		}
	}
	return out
}

var hunk = regexp.MustCompile(`^@@ -[0-9]+(?:,([0-9]+))? \+[0-9]+(?:,([0-9]+))? @@`)

// length is the number of lines that a hunk's head gives; none means one.
func length(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 1
	}
	return n
}

// sameEdits is the hash of a patch's edits, "" for a patch that does nothing.
func sameEdits(edits []string) string {
	if len(edits) == 0 {
		return ""
	}
	return seal.Bytes([]byte(strings.Join(edits, "\n")))
}

const (
	shingle     = 5 // words in a row of a patch
	leastShared = 8 // shingles that a patch must have before similarity says anything
)

// shingles is what patches are compared by: runs of words of their edits. Names of files
// are no part of it, so that a moved file is found too.
func shingles(edits []string) map[uint64]bool {
	var all []string
	for _, e := range edits {
		if !strings.HasPrefix(e, "f ") {
			all = append(all, e[:1])
			all = append(all, words(e[2:])...)
		}
	}
	return grams(all, shingle)
}
