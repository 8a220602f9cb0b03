// Package workspace puts a task's repository into a sandbox and takes its diff out
// again, the same way for the harness and for the grader.
//
// What lies in the sandbox is the history up to the base commit and nothing else: no
// other ref, no reflog, no unreachable object, so that a policy cannot read the
// future fix. The diff is taken through a git folder and an index of our own, outside
// the working tree: the model sees no trace of it in its repository, and what it
// staged, committed, configured or deleted there makes no difference. Bytes are kept
// exactly: binary files, CRLF and missing final newlines survive.
//
// The diff is taken against the prepared tree: the working tree of the base commit as
// it was after the task's pre-commands. A change that pre-commands make to a file is
// part of preparing, not of the diff, so a diff taken in one sandbox applies in every
// other that Prepare made of the same task. Files that the working tree's .gitignore
// rules ignore are left out of it, as by "git add -A"; so are repositories nested in
// the working tree, and new files above maxFile, which a line before the diff names.
//
// In an image without git the tree travels as a tar file, and git runs here, on the
// caller's machine, over a copy (outside.go). Nothing from a sandbox is ever executed
// here: our own git folder has no filter, hook or driver to run.
//
// The package never decides whether a diff is any good, and never starts or ends a
// sandbox. Calls for one sandbox must not overlap; calls for different ones may.
package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"strings"

	"orchard/datasets/record"
	"orchard/internal/sandbox"
)

const (
	maxFile = 32 << 20 // a larger new file is no part of a diff
	maxDiff = 64 << 20 // a larger diff is a TooLargeError
)

// Source opens a task's git bundle and says how many bytes it has. It may be called
// more than once.
type Source func(ctx context.Context) (io.ReadCloser, int64, error)

// TaskError says that the task itself cannot be prepared: no other sandbox would help.
type TaskError struct {
	Task, Reason string
}

func (e *TaskError) Error() string {
	return fmt.Sprintf("task %s cannot be prepared: %s", e.Task, e.Reason)
}

// ApplyError says that a patch does not apply to the tree as it is, by any method.
type ApplyError struct {
	Words string // what the tools said, one part for each method tried
}

func (e *ApplyError) Error() string { return "the patch does not apply: " + e.Words }

// TooLargeError says that a diff has more bytes than any fix has.
type TooLargeError struct {
	Bytes int64
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the diff has %d bytes, more than %d", e.Bytes, maxDiff)
}

// Prepare makes the task's repository at task.Workdir and runs its pre-commands.
// bundle is not used, and may be nil, when task.RepoBlob is "": the image then has
// the repository, and everything beyond the base commit is removed from it. A
// *TaskError is the task's fault; any other error is not.
func Prepare(ctx context.Context, sb sandbox.Sandbox, task record.Task, bundle Source) error {
	if err := check(task); err != nil {
		return err
	}
	s := at(sb, task)
	if err := s.reset(ctx); err != nil {
		return err
	}
	inside, err := s.place(ctx, bundle)
	if err != nil {
		return err
	}
	for i, c := range task.PreCommands {
		if err := s.preCommand(ctx, i, c); err != nil {
			return err
		}
	}
	if !inside {
		return s.keepTar(ctx)
	}
	return s.script(ctx, "baseline.sh", nil)
}

// place puts the repository into the sandbox; inside is false when the sandbox has no git.
func (s site) place(ctx context.Context, bundle Source) (inside bool, err error) {
	if s.task.RepoBlob == "" {
		err = s.script(ctx, "strip.sh", nil)
		if errors.Is(err, errNoGit) {
			return false, s.invalid("the image has no git to check its repository with; give the task a repo_bundle")
		}
		return true, err
	}
	if bundle == nil {
		return false, fmt.Errorf("prepare task %s: no source for its bundle %s", s.task.TaskID, s.task.RepoBlob)
	}
	r, size, err := bundle(ctx)
	if err != nil {
		return false, fmt.Errorf("open the bundle of task %s: %w", s.task.TaskID, err)
	}
	defer r.Close()
	if err := s.sb.Put(ctx, s.private+"/bundle", r, size, 0o600); err != nil {
		return false, fmt.Errorf("send the bundle of task %s: %w", s.task.TaskID, err)
	}
	err = s.script(ctx, "unpack.sh", nil)
	if errors.Is(err, errNoGit) {
		return false, s.placeFromOutside(ctx, bundle)
	}
	return true, err
}

var commitID = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// check refuses a task whose fields cannot be followed.
func check(task record.Task) error {
	bad := func(format string, a ...any) error {
		return &TaskError{Task: task.TaskID, Reason: fmt.Sprintf(format, a...)}
	}
	switch w := task.Workdir; {
	case !path.IsAbs(w) || path.Clean(w) != w || w == "/":
		return bad("workdir %q is not a clean absolute path below /", w)
	case strings.ContainsAny(w, "\x00\n"):
		return bad("workdir %q has a newline or NUL", w)
	case !commitID.MatchString(task.BaseCommit):
		return bad("base_commit %q is not a full commit id of 40 or 64 hex digits", task.BaseCommit)
	}
	return nil
}
