package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"orchard/datasets/record"
	"orchard/internal/sandbox"
)

// Apply applies a patch to the working tree, wholly or not at all, and says by which
// method. The methods go from strict to lenient and the tree is put back between
// them. *ApplyError when none of them can.
func Apply(ctx context.Context, sb sandbox.Sandbox, task record.Task, patch []byte) (method string, err error) {
	if err := check(task); err != nil {
		return "", err
	}
	s := at(sb, task)
	patch = finalNewline(patch)
	if err := s.put(ctx, s.private+"/patch", patch, 0o600); err != nil {
		return "", err
	}
	vars := map[string]string{}
	if !namesGitFolder(patch) {
		vars["FUZZY"] = "1"
	}
	out, err := s.output(ctx, "apply.sh", vars)
	if errors.Is(err, errNoGit) {
		return s.applyOutside(ctx, patch)
	}
	return strings.TrimSpace(string(out)), err
}

// namesGitFolder reports whether a patch names a path in a .git folder. "git apply"
// refuses such a path by itself, GNU patch would follow it.
func namesGitFolder(patch []byte) bool {
	for line := range bytes.Lines(patch) {
		for _, head := range []string{"--- ", "+++ ", "*** ", "diff ", "rename ", "copy ", "Index: "} {
			if bytes.HasPrefix(line, []byte(head)) && bytes.Contains(bytes.ToLower(line), []byte(".git/")) {
				return true
			}
		}
	}
	return false
}

// Restore puts paths, relative to the working tree, back to the prepared tree; a path
// that is not in it is removed.
func Restore(ctx context.Context, sb sandbox.Sandbox, task record.Task, paths []string) error {
	if err := check(task); err != nil {
		return err
	}
	if len(paths) == 0 {
		return nil
	}
	for _, p := range paths {
		if !local(p) {
			return fmt.Errorf("restore %q in task %s: not a path within the working tree", p, task.TaskID)
		}
	}
	s := at(sb, task)
	err := s.script(ctx, "restore.sh", nil, paths...)
	if errors.Is(err, errNoGit) {
		return s.restoreOutside(ctx, paths)
	}
	return err
}

func (s site) put(ctx context.Context, path string, b []byte, mode uint32) error {
	if err := s.sb.Put(ctx, path, bytes.NewReader(b), int64(len(b)), mode); err != nil {
		return fmt.Errorf("sandbox %s: put %s: %w", s.sb.ID(), path, err)
	}
	return nil
}
