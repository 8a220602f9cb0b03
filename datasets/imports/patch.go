package imports

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// reversed is the patch that undoes a patch.
func reversed(patch string) (string, error) {
	files, _, err := gitdiff.Parse(strings.NewReader(patch))
	if err != nil {
		return "", fmt.Errorf("it does not parse as a diff: %w", err)
	}
	if len(files) == 0 {
		return "", fmt.Errorf("it changes no file; it must be a diff as git diff writes it")
	}
	var out strings.Builder
	for _, f := range files {
		switch {
		case f.IsCopy:
			return "", fmt.Errorf("it copies %s to %s, which no diff undoes", f.OldName, f.NewName)
		case f.IsBinary && f.ReverseBinaryFragment == nil:
			return "", fmt.Errorf("it changes the binary file %s without saying what it was", f.NewName)
		}
		b := *f
		b.OldName, b.NewName = f.NewName, f.OldName
		b.IsNew, b.IsDelete = f.IsDelete, f.IsNew
		b.OldMode, b.NewMode = f.NewMode, f.OldMode
		if f.NewMode == 0 && !f.IsNew && !f.IsDelete { // the mode on the index line, which stays
			b.OldMode, b.NewMode = f.OldMode, 0
		}
		b.OldOIDPrefix, b.NewOIDPrefix = f.NewOIDPrefix, f.OldOIDPrefix
		b.BinaryFragment, b.ReverseBinaryFragment = f.ReverseBinaryFragment, f.BinaryFragment
		b.TextFragments = nil
		for _, t := range f.TextFragments {
			b.TextFragments = append(b.TextFragments, reversedFragment(t))
		}
		out.WriteString(b.String())
	}
	return out.String(), nil
}

// reversedFragment swaps what is added and what is deleted, and has deletions first, as
// git does.
func reversedFragment(t *gitdiff.TextFragment) *gitdiff.TextFragment {
	b := *t
	b.OldPosition, b.OldLines, b.NewPosition, b.NewLines = t.NewPosition, t.NewLines, t.OldPosition, t.OldLines
	b.LinesAdded, b.LinesDeleted = t.LinesDeleted, t.LinesAdded
	b.Lines = nil
	var added []gitdiff.Line // since the last line of context
	for _, l := range t.Lines {
		switch l.Op {
		case gitdiff.OpAdd:
			b.Lines = append(b.Lines, gitdiff.Line{Op: gitdiff.OpDelete, Line: l.Line})
		case gitdiff.OpDelete:
			added = append(added, gitdiff.Line{Op: gitdiff.OpAdd, Line: l.Line})
		default:
			b.Lines = append(append(b.Lines, added...), l)
			added = nil
		}
	}
	b.Lines = append(b.Lines, added...)
	return &b
}

// newFile is the patch that makes a file of text.
func newFile(name, text string) string { return changeFile(name, "", text, true, false) }

// joinPatches is one patch after the other.
func joinPatches(a, b string) string {
	if strings.TrimSpace(a) == "" {
		return b
	}
	if !strings.HasSuffix(a, "\n") {
		a += "\n"
	}
	return a + b
}

// applyCommand is a command that applies a patch to the repository and commits it. The
// patch goes in base64, which no shell and no newline can change.
func applyCommand(patch string) string {
	return "echo " + base64.StdEncoding.EncodeToString([]byte(patch)) + " | base64 -d | git apply --whitespace=nowarn - && " +
		"git add -A && git -c user.name=base -c user.email=base@localhost -c commit.gpgSign=false commit -q --no-verify -m base"
}

// changeFile is the patch that turns a file's old text into the new one: one hunk
// around all that differs.
func changeFile(name, old, now string, created, deleted bool) string {
	a, b := splitLines(old), splitLines(now)
	same := 0
	for same < len(a) && same < len(b) && a[same] == b[same] {
		same++
	}
	end := 0
	for end < len(a)-same && end < len(b)-same && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	from := max(0, same-3)
	rest := min(3, end)
	var h strings.Builder
	line := func(op, l string) {
		h.WriteString(op + l)
		if !strings.HasSuffix(l, "\n") {
			h.WriteString("\n\\ No newline at end of file\n")
		}
	}
	for _, l := range a[from:same] {
		line(" ", l)
	}
	for _, l := range a[same : len(a)-end] {
		line("-", l)
	}
	for _, l := range b[same : len(b)-end] {
		line("+", l)
	}
	for _, l := range a[len(a)-end : len(a)-end+rest] {
		line(" ", l)
	}
	head, minus, plus := "", "a/"+name, "b/"+name
	if created {
		head, minus = "new file mode 100644\n", "/dev/null"
	} else if deleted {
		head, plus = "deleted file mode 100644\n", "/dev/null"
	}
	if h.Len() == 0 { // an empty file
		return fmt.Sprintf("diff --git a/%s b/%s\n%s", name, name, head)
	}
	was, is := len(a)-end+rest-from, len(b)-end+rest-from
	return fmt.Sprintf("diff --git a/%s b/%s\n%s--- %s\n+++ %s\n@@ -%s +%s @@\n%s", name, name, head, minus, plus, span(from, was), span(from, is), h.String())
}

// span is the lines of one side of a hunk.
func span(from, n int) string {
	if n > 0 {
		from++
	}
	return fmt.Sprintf("%d,%d", from, n)
}

func splitLines(s string) []string {
	lines := strings.SplitAfter(s, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}
