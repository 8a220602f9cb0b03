package admit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/grade"
	"orchard/internal/rollout"
	"orchard/internal/runner"
	"orchard/internal/sandbox"
	"orchard/internal/seal"

	"orchard/jobs/admit/rule"
)

// runsDataset is the name, beside that of --out, under which single gradings are kept.
const runsDataset = "admission-runs"

// trier is what a grader of grade can do beside grading a policy's diff.
type trier interface {
	Try(ctx context.Context, task record.Task, diff []byte) (grade.Trial, error)
	Gold(ctx context.Context, task record.Task) ([]byte, error)
}

// judge does the units of the stage. Safe for concurrent use.
type judge struct {
	cfg    Config
	grader func(rollout.Store) rollout.Grader
}

func (j judge) rule() rule.Rule {
	return rule.Rule{Repeats: j.cfg.Repeats, Strict: j.cfg.Strict, HangFails: j.cfg.HangFails, AllRuns: j.cfg.AllRuns}
}

// do grades one task until its verdict is known.
func (j judge) do(ctx context.Context, u runner.Unit, t runner.Tools) (record.Admission, error) {
	task := *u.Work.(*record.Task)
	content, err := j.content(task)
	if err != nil {
		return record.Admission{}, exit.With(exit.Bug, err)
	}
	if len(task.FailToPass) == 0 {
		v := rule.Verdict{Reason: rule.NoFailToPass, Detail: "fail_to_pass is empty: no test can fail without the patch"}
		return j.row(task, content, v, nil, nil), nil
	}
	runs := map[rule.Arm][]rule.Run{}
	for {
		arm, more := j.rule().Next(runs[rule.Gold], runs[rule.Empty])
		if !more {
			break
		}
		run, err := j.piece(ctx, t, task, content, arm, len(runs[arm])+1)
		if err != nil {
			err = fmt.Errorf("grading %d of arm %s: %w", len(runs[arm])+1, arm, err)
			if exit.Code(err) == exit.Input { // a blob that is missing or damaged: it may be put back
				err = exit.With(exit.Retry, err)
			}
			return record.Admission{}, err
		}
		runs[arm] = append(runs[arm], run)
	}
	gold, empty := runs[rule.Gold], runs[rule.Empty]
	return j.row(task, content, j.rule().Judge(gold, empty), gold, empty), nil
}

// piece is one grading, done now or taken from where it was done before.
func (j judge) piece(ctx context.Context, t runner.Tools, task record.Task, content string, arm rule.Arm, repeat int) (rule.Run, error) {
	u := runner.Unit{ID: seal.ID("admission-run", content, string(arm), strconv.Itoa(repeat)), Task: task.TaskID}
	l := j.cfg.limits()
	scope := runner.Scope{Dataset: runsDataset, ID: seal.ID("admit", strconv.Itoa(Version), l.Grader, l.CPU, l.Memory)}
	run, _, err := runner.Part(ctx, t, scope, u, func(ctx context.Context) (rule.Run, error) {
		run, err := j.grade(ctx, t, task, arm)
		if err == nil && run.Outcome == record.NoTestsRan && run.Fault == "" { // by bad luck, or always
			run, err = j.grade(ctx, t, task, arm)
		}
		run.ID = u.ID
		return run, err
	})
	return run, err
}

// grade is one grading in a fresh sandbox. Its error is trouble of ours; an image that only
// the flags name and that is refused is a mistake in them.
func (j judge) grade(ctx context.Context, t runner.Tools, task record.Task, arm rule.Arm) (rule.Run, error) {
	network := ""
	store := rollout.Store{Blob: t.Blob, Keep: func(ctx context.Context, log []byte) (record.Text, error) {
		network = wantsNetwork(log)
		return t.Keep(ctx, log)
	}}
	g, ok := j.grader(store).(trier)
	if !ok {
		return rule.Run{}, exit.With(exit.Bug, errors.New("the grader cannot try a task"))
	}
	var diff []byte
	if arm == rule.Gold {
		var err error
		if diff, err = g.Gold(ctx, task); err != nil {
			return rule.Run{}, err
		}
	}
	trial, err := g.Try(ctx, task, diff)
	var refused *sandbox.Refused
	switch {
	case errors.As(err, &refused):
		return rule.Run{}, exit.With(exit.Config, err)
	case err != nil:
		return rule.Run{}, err
	}
	run := rule.Run{
		Outcome: trial.Outcome, Reason: trial.Reason, Required: trial.Tests, All: trial.All, Log: trial.Log, Network: network,
		DurationMS: trial.DurationMS, PeakBytes: trial.PeakMemory,
	}
	switch {
	case trial.Refused:
		run.Fault = rule.ImageRefused
	case trial.OutOfMemory:
		run.Fault = rule.OutOfMemory
	}
	if trial.TestsTook != nil {
		ms := trial.TestsTook.Milliseconds()
		run.TestsMS = &ms
	}
	return run, nil
}

// content is the hash of all that decides a grading of the task beside grader and limits.
// What a task says to people and policies is not part of it.
func (j judge) content(task record.Task) (string, error) {
	text := func(t record.Text) string {
		if t.Blob != "" {
			return t.Blob
		}
		return seal.Bytes([]byte(t.Value))
	}
	timeout := task.TimeoutMS
	if timeout <= 0 {
		timeout = j.cfg.limits().TestMS
	}
	return seal.Sum(struct {
		Base, Repo, Image, Workdir string
		Pre, Cmds                  []string
		Gold, Tests, Parser        string
		FailToPass, PassToPass     []string
		TimeoutMS                  int64
	}{
		task.BaseCommit, task.RepoBlob, j.image(task), task.Workdir, task.PreCommands, task.TestCmds,
		text(task.GoldPatch), text(task.TestPatch), task.LogParser, task.FailToPass, task.PassToPass, timeout,
	})
}

func (j judge) image(task record.Task) string {
	if task.Image != "" {
		return task.Image
	}
	return j.cfg.DefaultImage
}

// networkWords are what programs print who look for a machine that they cannot reach. A
// connection that is refused is not among them: that is most often a server of the test's own.
var networkWords = [][]byte{
	[]byte("temporary failure in name resolution"), []byte("name or service not known"), []byte("could not resolve host"),
	[]byte("unable to resolve host"), []byte("no such host"), []byte("server misbehaving"), []byte("network is unreachable"),
	[]byte("getaddrinfo enotfound"), []byte("eai_again"), []byte("nodename nor servname"),
}

const maxHint = 200 // bytes of a line

// wantsNetwork is the first line of a log that speaks of a network which is not there, ""
// when none does. It is a guess: a test may print such a line and pass.
func wantsNetwork(log []byte) string {
	for line := range bytes.Lines(log) {
		lower := bytes.ToLower(line)
		for _, words := range networkWords {
			if bytes.Contains(lower, words) {
				s := strings.TrimSpace(strings.ToValidUTF8(string(line[:min(len(line), maxHint)]), "\uFFFD"))
				return s
			}
		}
	}
	return ""
}
