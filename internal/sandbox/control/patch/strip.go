package patch

import (
	"regexp"
	"strconv"
	"strings"
)

var hunkHeader = regexp.MustCompile(`^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@`)

// strip takes the first folder off the names of plain "---" and "+++" headers, as git
// apply does; the parser does it only below a "diff --git" line. Lines of a hunk that
// look like a header are left alone.
func strip(diff string) string {
	lines := strings.SplitAfter(diff, "\n")
	at := func(i int) string {
		if i < len(lines) {
			return lines[i]
		}
		return ""
	}
	git := false          // below "diff --git", above its first hunk
	before, after := 0, 0 // lines that the hunk still has of the old and the new file
	for i, line := range lines {
		switch {
		case before > 0 || after > 0:
			switch line[:min(1, len(line))] {
			case "-":
				before--
			case "+":
				after--
			case "\\":
			default:
				before, after = before-1, after-1
			}
		case strings.HasPrefix(line, "diff --git "):
			git = true
		case hunkHeader.MatchString(line):
			m := hunkHeader.FindStringSubmatch(line)
			git, before, after = false, count(m[1]), count(m[2])
		case !git && strings.HasPrefix(line, "--- ") && strings.HasPrefix(at(i+1), "+++ ") && strings.HasPrefix(at(i+2), "@@ -"):
			lines[i], lines[i+1] = stripName(line), stripName(lines[i+1])
		}
	}
	return strings.Join(lines, "")
}

// count is a number of lines, which a header leaves out when it is one.
func count(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 1
	}
	return n
}

func stripName(line string) string {
	mark, name := line[:4], line[4:]
	if strings.HasPrefix(name, "/dev/null") {
		return line
	}
	quote := ""
	if strings.HasPrefix(name, `"`) {
		quote, name = `"`, name[1:]
	}
	path, rest, tab := strings.Cut(name, "\t")
	if _, after, ok := strings.Cut(path, "/"); ok {
		path = after
	}
	if tab {
		path += "\t" + rest
	}
	return mark + quote + path
}
