package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"

	"orchard/datasets/record"
	"orchard/internal/sandbox"
	"orchard/internal/seal"
)

// Diff is what the working tree has changed against the prepared tree: new, deleted
// and changed files, modes, symlinks and binary content, as "git apply" reads it.
// No change is no bytes. *TooLargeError when no fix is that large.
func Diff(ctx context.Context, sb sandbox.Sandbox, task record.Task) ([]byte, error) {
	if err := check(task); err != nil {
		return nil, err
	}
	s := at(sb, task)
	sum, err := s.sum(ctx)
	if errors.Is(err, errNoGit) {
		return s.diffOutside(ctx)
	}
	if err != nil {
		return nil, err
	}
	diff, err := s.read(ctx, s.private+"/diff", maxDiff)
	if err != nil {
		return nil, err
	}
	if got := seal.Bytes(diff); got != sum {
		return nil, fmt.Errorf("sandbox %s, task %s: the diff changed while it was read: sha256 %s, then %s", sb.ID(), task.TaskID, sum, got)
	}
	return diff, nil
}

// TreeSHA256 is the sha256 of what Diff would be. It is one command in the sandbox and
// moves no file.
func TreeSHA256(ctx context.Context, sb sandbox.Sandbox, task record.Task) (string, error) {
	if err := check(task); err != nil {
		return "", err
	}
	s := at(sb, task)
	sum, err := s.sum(ctx)
	if errors.Is(err, errNoGit) {
		diff, err := s.diffOutside(ctx)
		return seal.Bytes(diff), err
	}
	return sum, err
}

// sum writes the diff to a file in the sandbox and says its sha256.
func (s site) sum(ctx context.Context) (string, error) {
	out, err := s.output(ctx, "diff.sh", nil)
	if err != nil {
		return "", err
	}
	sum, _, _ := strings.Cut(string(out), " ")
	if sum = strings.TrimSpace(sum); len(sum) != 64 {
		return "", fmt.Errorf("sandbox %s, task %s: no sha256 in %q", s.sb.ID(), s.task.TaskID, out)
	}
	return sum, nil
}

// read is a whole file of the sandbox; *TooLargeError beyond limit bytes.
func (s site) read(ctx context.Context, path string, limit int64) ([]byte, error) {
	r, err := s.sb.Get(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("sandbox %s: get %s: %w", s.sb.ID(), path, err)
	}
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("sandbox %s: get %s: %w", s.sb.ID(), path, err)
	}
	if int64(len(b)) > limit {
		n, err := io.Copy(io.Discard, r)
		if err != nil {
			return nil, fmt.Errorf("sandbox %s: get %s: %w", s.sb.ID(), path, err)
		}
		return nil, &TooLargeError{Bytes: int64(len(b)) + n}
	}
	return b, nil
}

// Paths is every path that a diff touches, under its old and new name, sorted. A text
// without any file section has none and is no error.
func Paths(diff []byte) ([]string, error) {
	files, err := parse(diff)
	if err != nil {
		return nil, fmt.Errorf("read diff: %w", err)
	}
	seen := map[string]bool{}
	for _, f := range files {
		seen[f.OldName], seen[f.NewName] = true, true
	}
	delete(seen, "")
	paths := make([]string, 0, len(seen))
	for p := range seen {
		paths = append(paths, p)
	}
	sort.Strings(paths)
	return paths, nil
}

// parse reads the file sections of a patch. The names of one without git's headers
// lose their first part, as "-p1" has it.
func parse(patch []byte) ([]*gitdiff.File, error) {
	files, _, err := gitdiff.Parse(bytes.NewReader(finalNewline(patch)))
	if err != nil {
		return nil, err
	}
	if bytes.HasPrefix(patch, []byte("diff --git ")) || bytes.Contains(patch, []byte("\ndiff --git ")) {
		return files, nil
	}
	for _, f := range files {
		for _, name := range []*string{&f.OldName, &f.NewName} {
			if _, rest, ok := strings.Cut(*name, "/"); ok {
				*name = rest
			}
		}
	}
	return files, nil
}

// finalNewline ends a patch with a newline. Tools that trim text lose it, and then the
// last hunk is "corrupt" to git.
func finalNewline(patch []byte) []byte {
	if len(patch) == 0 || patch[len(patch)-1] == '\n' {
		return patch
	}
	return append(patch[:len(patch):len(patch)], '\n')
}
