package admit

import (
	"fmt"
	"slices"

	"orchard/datasets/record"
	"orchard/internal/grade"
	"orchard/internal/seal"

	"orchard/jobs/admit/rule"
)

// maxListed is how many tests of one kind of evidence a row lists.
const maxListed = 500

// id names the row of a task.
func id(taskID string) string { return seal.ID("admission", taskID) }

// row is the verdict on a task with its evidence.
func (j judge) row(task record.Task, content string, v rule.Verdict, gold, empty []rule.Run) record.Admission {
	a := record.Admission{
		AdmissionID: id(task.TaskID), TaskID: task.TaskID, Source: task.Source, Repo: task.Repo, Language: task.Language,
		Admitted: v.Admitted, Reason: v.Reason, Detail: v.Detail,
		Repeats: int64(j.cfg.Repeats), GoldRuns: evidence(gold), EmptyRuns: evidence(empty),
		ContentSHA256: content, Grader: grade.Version, Image: j.image(task),
	}
	flaky := rule.Flaky(gold, empty)
	a.Flaky, a.FlakyCount = cut(flaky), int64(len(flaky))
	if i := slices.IndexFunc(gold, func(r rule.Run) bool { return r.Outcome != record.Resolved && r.Network != "" }); i >= 0 {
		a.NetworkHint = gold[i].Network
		a.Detail += fmt.Sprintf("; the tests may want a network, which sandboxes do not have (a guess from the line %q of the log)", a.NetworkHint)
	}
	var took []int64
	for _, r := range slices.Concat(gold, empty) {
		a.TotalMS += r.DurationMS
		if r.TestsMS != nil {
			took = append(took, *r.TestsMS)
		}
		if r.PeakBytes != nil && (a.PeakBytes == nil || *r.PeakBytes > *a.PeakBytes) {
			a.PeakBytes = r.PeakBytes
		}
	}
	if len(took) > 0 {
		slices.Sort(took)
		median := (took[(len(took)-1)/2] + took[len(took)/2]) / 2
		a.TestsMedianMS, a.TestsMaxMS = &median, &took[len(took)-1]
	}
	return a
}

// evidence is the runs of one arm as a row has them.
func evidence(runs []rule.Run) []record.AdmissionRun {
	list := []record.AdmissionRun{}
	differs := rule.Differs(runs)
	for i, r := range runs {
		list = append(list, record.AdmissionRun{
			Repeat: int64(i + 1), Outcome: r.Outcome, Reason: r.Reason, NotPassed: cut(r.NotPassed()), Differs: cut(differs[i]),
			Log: r.Log, DurationMS: r.DurationMS, TestsMS: r.TestsMS, PeakBytes: r.PeakBytes,
		})
	}
	return list
}

func cut[T any](list []T) []T { return list[:min(len(list), maxListed)] }
