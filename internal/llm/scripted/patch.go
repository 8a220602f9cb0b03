package scripted

import (
	"fmt"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// piece is a part of a patch that is applied at one go, after those before it.
type piece struct {
	path  string // of the file, as it is afterwards; "" when the patch cannot be read
	isNew bool
	whole bool  // the file's only piece
	first int64 // line that it begins at, 0 when that means nothing
	lines int64 // added and deleted
	text  string
}

// split takes a patch apart: a piece per hunk for plain changes, a piece per file for
// the rest. A patch that cannot be read is one piece.
func split(patch string) []piece {
	if strings.TrimSpace(patch) == "" {
		return nil
	}
	if !strings.HasSuffix(patch, "\n") {
		patch += "\n"
	}
	files, _, err := gitdiff.Parse(strings.NewReader(patch))
	if err != nil || len(files) == 0 {
		return []piece{{text: patch, whole: true}}
	}
	var out []piece
	for _, f := range files {
		path := f.NewName
		if f.IsDelete {
			path = f.OldName
		}
		special := f.IsNew || f.IsDelete || f.IsCopy || f.IsRename || f.IsBinary || f.NewMode != f.OldMode && f.NewMode != 0
		if special || len(f.TextFragments) < 2 {
			p := piece{path: path, isNew: f.IsNew, whole: true, text: render(f)}
			for _, h := range f.TextFragments {
				p.lines += h.LinesAdded + h.LinesDeleted
				p.first = f.TextFragments[0].OldPosition
			}
			out = append(out, p)
			continue
		}
		out = append(out, hunks(f, path)...)
	}
	return out
}

// hunks is a file's hunks one by one, each with the line numbers that hold once those
// before it are applied.
func hunks(f *gitdiff.File, path string) []piece {
	var out []piece
	shift := int64(0) // lines that the earlier hunks added
	for _, h := range f.TextFragments {
		one, part := *f, *h
		part.OldPosition += shift
		part.NewPosition = part.OldPosition
		if h.OldLines == 0 { // the line before an insertion, not its first
			part.NewPosition++
		}
		if h.NewLines == 0 {
			part.NewPosition--
		}
		one.TextFragments = []*gitdiff.TextFragment{&part}
		// The hashes are of the whole change.
		one.OldOIDPrefix, one.NewOIDPrefix = "", ""
		out = append(out, piece{path: path, first: part.OldPosition, lines: h.LinesAdded + h.LinesDeleted, text: render(&one)})
		shift += h.NewLines - h.OldLines
	}
	return out
}

// render is a file's part of a patch. Names with spaces get the tab that ends them for
// "patch", which would take the first word otherwise.
func render(f *gitdiff.File) string {
	header, body, ok := strings.Cut(f.String(), "\n@@")
	if !ok {
		return header
	}
	lines := strings.Split(header, "\n")
	for i, l := range lines {
		if (strings.HasPrefix(l, "--- ") || strings.HasPrefix(l, "+++ ")) && strings.Contains(l[4:], " ") {
			lines[i] += "\t"
		}
	}
	return strings.Join(lines, "\n") + "\n@@" + body
}

// without is the pieces less the largest change, so that what is left looks like work
// and is not enough; nil when there is only one piece.
func without(pieces []piece) []piece {
	if len(pieces) < 2 {
		return nil
	}
	largest := 0
	for i, p := range pieces {
		if p.lines > pieces[largest].lines {
			largest = i
		}
	}
	var out []piece
	for i, p := range pieces {
		if i != largest {
			out = append(out, p)
		}
	}
	return out
}

// apply is the command that applies a piece and keeps it for handing in where there is
// no git.
func (p piece) apply(n int) string {
	end := "PATCH"
	for strings.Contains("\n"+p.text, "\n"+end+"\n") {
		end += "_"
	}
	file := fmt.Sprintf("/tmp/change-%02d.patch", n)
	return fmt.Sprintf("cat > %s <<'%s'\n%s%s\ngit apply --whitespace=nowarn %s 2>/dev/null || patch -p1 -s -i %s",
		file, end, p.text, end, file, file)
}

// quote is s as one word of a shell.
func quote(s string) string {
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./") == "" && s != "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
