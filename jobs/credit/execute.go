package credit

import (
	"context"
	"fmt"
	"math"
	"sync"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/grade"
	"orchard/internal/rollout"
	"orchard/internal/runner"
	"orchard/internal/seal"
	"orchard/jobs/credit/curve"
)

// gradeSet is the name beside which the grades of diffs lie, for whoever needs one again.
const gradeSet = "diff-grades"

// loadTasks reads the tasks of rollouts that are to be measured.
func (s *stage) loadTasks(ctx context.Context, in []*datasets.Version, wanted map[string]bool) error {
	s.tasks = map[string]*record.Task{}
	for _, v := range in {
		if v.Manifest().Schema.Name != "task" {
			continue
		}
		for task, err := range datasets.Rows[record.Task](ctx, v) {
			if err != nil {
				return err
			}
			if wanted[task.TaskID] {
				task.Raw = ""
				s.tasks[task.TaskID] = &task
			}
		}
	}
	return nil
}

// execute values every state by the share of the task's fail_to_pass tests that pass with
// the state's diff. Without any change none does: that is what fail_to_pass says.
func (s *stage) execute(ctx context.Context, row record.Credit, r record.Rollout, t runner.Tools) (record.Credit, error) {
	task := s.tasks[r.TaskID]
	if task == nil {
		return row, runner.Drop("no_task", fmt.Errorf("task %s is not in --tasks", r.TaskID))
	}
	if len(task.FailToPass) == 0 {
		return row, runner.Drop("no_fail_to_pass", fmt.Errorf("task %s names no fail_to_pass test", r.TaskID))
	}
	nothing := seal.Bytes(nil)
	known := map[string]float64{nothing: 0}
	values := []float64{0}
	found := false
	for _, step := range r.Trajectory.Steps {
		v, ok := known[step.DiffSHA256]
		if !ok {
			g, err := s.grade(ctx, *task, r, step.DiffSHA256, t)
			if err != nil {
				return row, err
			}
			row.Grades = append(row.Grades, g)
			if v = math.NaN(); g.Value != nil {
				v = *g.Value
			}
			known[step.DiffSHA256] = v
		}
		values = append(values, v)
		found = found || curve.Known(v)
	}
	row.Status = record.CreditMeasured
	if !found {
		row.Status = record.CreditUnknown
		return row, nil
	}
	draw(&row, curve.Measured(values, s.Curve))
	return row, nil
}

// grade is what the tests say of one diff of a rollout.
func (s *stage) grade(ctx context.Context, task record.Task, r record.Rollout, sha string, t runner.Tools) (record.DiffGrade, error) {
	if sha == "" {
		return record.DiffGrade{Reason: "the diff of the step could not be taken"}, nil
	}
	if sha == r.Trajectory.DiffSHA256 && r.Verdict.Grader == grade.Version {
		return share(task, sha, r.Verdict), nil // it is graded already
	}
	diff, ok, err := kept(ctx, r.Trajectory, sha, t)
	if err != nil {
		return record.DiffGrade{}, fmt.Errorf("diff %s: %w", sha, trouble(err))
	}
	if !ok {
		return record.DiffGrade{DiffSHA256: sha, Reason: "the diff was not kept; roll out with --keep-diffs"}, nil
	}
	id := seal.ID(task.Digest, sha)
	defer s.grading.lock(id)()
	scope, err := seal.Sum(s.settings().Execution)
	if err != nil {
		return record.DiffGrade{}, err
	}
	g, _, err := runner.Part(ctx, t, runner.Scope{Dataset: gradeSet, ID: scope}, runner.Unit{ID: id, Task: task.TaskID},
		func(ctx context.Context) (graded, error) {
			v, err := s.grader(rollout.Store{Keep: t.Keep, Blob: t.Blob}).Grade(ctx, task, diff)
			if err == nil && v.Outcome == record.InfraError {
				err = fmt.Errorf("grade diff %s of task %s: %s", sha, task.TaskID, v.Reason)
			}
			return graded{ID: id, Grade: share(task, sha, v)}, err
		})
	return g.Grade, err
}

// kept is the exact bytes of a diff of the trajectory, if they are anywhere.
func kept(ctx context.Context, t record.Trajectory, sha string, tools runner.Tools) (diff []byte, ok bool, err error) {
	if sha == t.DiffSHA256 {
		if t.Diff.Blob == "" {
			return []byte(t.Diff.Value), true, nil
		}
		diff, err = tools.Blob(ctx, t.Diff.Blob)
		return diff, err == nil, err
	}
	if t.StepDiffs == nil {
		return nil, false, nil
	}
	for _, d := range t.StepDiffs.Kept {
		if d.SHA256 == sha {
			diff, err = tools.Blob(ctx, sha)
			return diff, err == nil, err
		}
	}
	return nil, false, nil
}

// share is how many of the tests that were to be fixed pass. A verdict without a reward
// says nothing about that.
func share(task record.Task, sha string, v record.Verdict) record.DiffGrade {
	g := record.DiffGrade{DiffSHA256: sha, Outcome: v.Outcome, Tests: int64(len(task.FailToPass)), Reason: v.Reason}
	if v.Outcome.Reward() == nil {
		return g
	}
	for _, t := range v.Tests {
		if t.Kind == grade.FailToPass && grade.Passes(t) {
			g.Passed++
		}
	}
	value := float64(g.Passed) / float64(g.Tests)
	g.Value = &value
	return g
}

// graded is a DiffGrade as a piece of work that is done once for all rollouts.
type graded struct {
	ID    string           `json:"id"`
	Grade record.DiffGrade `json:"grade"`
}

// Key is the piece's id.
func (g graded) Key() string { return g.ID }

// Schema names what no dataset holds.
func (graded) Schema() (string, int) { return "diff_grade", 1 }

// grading keeps two workers from grading the same diff at once.
type grading struct{ locks sync.Map }

func (g *grading) lock(id string) (unlock func()) {
	l, _ := g.locks.LoadOrStore(id, &sync.Mutex{})
	m := l.(*sync.Mutex)
	m.Lock()
	return m.Unlock
}
