package grade

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"orchard/datasets/record"
	"orchard/internal/logx"
	"orchard/internal/sandbox"
	"orchard/internal/seal"
	"orchard/internal/workspace"
)

const closeTimeout = 30 * time.Second

// attempt grades once in a sandbox of its own; a nil diff leaves the base as it is.
func (g *Grader) attempt(ctx context.Context, task record.Task, diff []byte) (finding, error) {
	spec := g.spec(task)
	sb, err := g.Sandboxes.Create(ctx, spec)
	var refused *sandbox.Refused
	switch {
	case errors.As(err, &refused) && task.Image != "":
		f := invalid("%v", refused)
		f.refused = true
		return f, nil
	case err != nil:
		return finding{}, fmt.Errorf("make a sandbox of image %q: %w", spec.Image, err)
	}
	defer func() {
		// However this ends, the sandbox does: a verdict that is known stays known.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		if err := sb.Close(ctx); err != nil && !sandbox.IsLost(err) {
			zerolog.Ctx(ctx).Warn().Err(err).Str(logx.Task, task.TaskID).Str(logx.Sandbox, sb.ID()).Msg("end a grading sandbox")
		}
	}()
	a := &attempt{g: g, sb: sb, task: task}
	return a.grade(ctx, diff)
}

// attempt is one grading under way.
type attempt struct {
	g    *Grader
	sb   sandbox.Sandbox
	task record.Task
}

func (a *attempt) grade(ctx context.Context, diff []byte) (finding, error) {
	var broken *workspace.TaskError
	err := workspace.Prepare(ctx, a.sb, a.task, a.bundle())
	if errors.As(err, &broken) {
		return invalid("%s", broken.Reason), nil
	}
	if err != nil {
		return finding{}, err
	}
	var f finding
	var unfit *workspace.ApplyError
	if diff != nil {
		f.method, err = workspace.Apply(ctx, a.sb, a.task, diff)
		if errors.As(err, &unfit) {
			return finding{outcome: record.PatchFailed, reason: "the diff does not apply to the base commit", log: []byte(unfit.Words)}, nil
		}
		if err != nil {
			return finding{}, fmt.Errorf("apply the diff: %w", err)
		}
	}
	tests, bad, err := a.placeTests(ctx, &f)
	var large *workspace.TooLargeError
	switch {
	case errors.As(err, &large):
		return finding{outcome: record.PatchFailed, reason: large.Error()}, nil
	case err != nil:
		return finding{}, err
	case bad != "":
		f.outcome, f.reason, f.retry = record.TaskInvalid, bad, true
		return f, nil
	}
	before, err := a.sums(ctx, tests)
	if err != nil {
		return finding{}, err
	}
	runs, log, err := a.run(ctx)
	if err != nil {
		return finding{}, err
	}
	after, err := a.sums(ctx, tests)
	if err != nil {
		return finding{}, err
	}
	f.log = log
	if a.g.weigh {
		if f.peak, err = a.peak(ctx); err != nil {
			return finding{}, err
		}
	}
	a.judge(&f, runs, changed(before, after))
	if f.outcome != record.Resolved || diff == nil {
		return f, nil
	}
	forged, err := a.idle(ctx)
	if err != nil {
		return finding{}, err
	}
	if len(forged) > 0 {
		f.outcome = record.Unresolved
		f.reason = fmt.Sprintf("the code under test reports tests by itself: %s was reported while no test was selected", forged[0])
		for i := range f.tests { // nothing it reported can be believed
			f.tests[i].Status = record.TestError
		}
	}
	return f, nil
}

func (a *attempt) bundle() workspace.Source {
	if a.task.RepoBlob == "" {
		return nil
	}
	return func(ctx context.Context) (io.ReadCloser, int64, error) {
		b, err := a.g.Blob(ctx, a.task.RepoBlob)
		return io.NopCloser(bytes.NewReader(b)), int64(len(b)), err
	}
}

// placeTests undoes what the diff did to protected files and to the files of the
// task's tests, and puts those tests in. It returns the paths of the tests. bad says
// why they cannot be placed.
func (a *attempt) placeTests(ctx context.Context, f *finding) (tests []string, bad string, err error) {
	patch, err := a.g.text(ctx, a.task.TestPatch)
	if err != nil {
		return nil, "", fmt.Errorf("read the test patch: %w", err)
	}
	if tests, err = workspace.Paths(patch); err != nil {
		return nil, fmt.Sprintf("test_patch is not a readable diff: %v", err), nil
	}
	diff, err := workspace.Diff(ctx, a.sb, a.task)
	if err != nil {
		return nil, "", fmt.Errorf("list what the diff changed: %w", err)
	}
	touched, err := workspace.Paths(diff)
	if err != nil {
		return nil, "", fmt.Errorf("list what the diff changed: %w", err)
	}
	guard, err := a.guard(ctx, tests)
	if err != nil {
		return nil, "", err
	}
	restore := slices.Clone(tests)
	for _, p := range touched {
		if why := guard.why(p); why != "" {
			f.dropped = append(f.dropped, p+": "+why)
			restore = append(restore, p)
		}
	}
	slices.Sort(restore)
	if err := workspace.Restore(ctx, a.sb, a.task, slices.Compact(restore)); err != nil {
		return nil, "", fmt.Errorf("restore test files: %w", err)
	}
	if len(bytes.TrimSpace(patch)) == 0 {
		return tests, "", nil
	}
	var unfit *workspace.ApplyError
	_, err = workspace.Apply(ctx, a.sb, a.task, patch)
	if errors.As(err, &unfit) {
		f.log = []byte(unfit.Words)
		return nil, "the task's test_patch does not apply", nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("apply the test patch: %w", err)
	}
	return tests, "", nil
}

// sums is the sha256 of each file, "" for one that is not there. They are read through
// the files API and hashed here, where the code under test has no say.
func (a *attempt) sums(ctx context.Context, paths []string) (map[string]string, error) {
	sums := map[string]string{}
	for _, p := range paths {
		sum, err := a.sum(ctx, path.Join(a.task.Workdir, p))
		if err != nil {
			return nil, fmt.Errorf("read test file %s: %w", p, err)
		}
		sums[p] = sum
	}
	return sums, nil
}

func (a *attempt) sum(ctx context.Context, name string) (string, error) {
	r, err := a.sb.Get(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer r.Close()
	return seal.Reader(r)
}

// changed is the paths whose sums differ, sorted.
func changed(before, after map[string]string) []string {
	var paths []string
	for _, p := range slices.Sorted(maps.Keys(before)) {
		if before[p] != after[p] {
			paths = append(paths, p)
		}
	}
	return paths
}

// first is the first n of a list, for a sentence.
func first(list []string, n int) string {
	if len(list) <= n {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:n], ", "), len(list)-n)
}
