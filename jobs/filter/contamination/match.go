package contamination

import (
	"math"
	"slices"
	"strings"

	"orchard/datasets/record"
)

// Match is where a task is found, at most once for each check and evaluation set, in the
// order of All; and which checks could not be made of it. Its patch must be whole.
// StatementCosine is for Meanings to make.
func (x *Index) Match(t *record.Task, checks []Check) (found []Match, unknown []Unknown) {
	f := x.facts(t)
	add := func(c Check, n int, score float64) {
		e := x.entries[n]
		found = append(found, Match{TaskID: t.TaskID, EvalSet: e.set, EvalID: e.id, Rule: c, Score: rounded(score)})
	}
	same := func(c Check, list []int) {
		for _, n := range list {
			add(c, n, 1)
		}
	}
	for _, c := range checks {
		switch c {
		case InstanceID:
			same(c, x.byID[f.id])
		case RepoCommit:
			for _, n := range x.byRepo[f.repo] {
				if sameCommit(f.commit, x.entries[n].commit) {
					add(c, n, 1)
				}
			}
		case PullRequest:
			same(c, x.byPull[f.pull])
		case PatchHash:
			same(c, x.byPatch[f.patch])
		case PatchSimilarity:
			for n, shared := range shared(f.shingles, x.byShingle) {
				all := len(f.shingles) + x.entries[n].shingles - shared
				if s := float64(shared) / float64(all); s >= x.limits.Patch && min(len(f.shingles), x.entries[n].shingles) >= leastShared {
					add(c, n, s)
				}
			}
		case Intent:
			same(c, x.byIntent[f.intent])
		case StatementNgram:
			for n, shared := range shared(f.grams, x.byGram) {
				if s := float64(shared) / float64(x.entries[n].grams); s >= x.limits.Coverage {
					add(c, n, s)
				}
			}
		case TestNames:
			for _, n := range x.byName[f.name] {
				if s := covered(x.entries[n].tests, f.tests); s > 0 && s >= x.limits.Tests {
					add(c, n, s)
				}
			}
		case LaterBase:
			unknown = append(unknown, x.later(t, f, add)...)
		case SameRepo:
			same(c, x.byRepo[f.repo])
		case EvalSite:
			same(c, x.bySite[f.site])
		}
	}
	return Merge(found), unknown
}

// rounded is a score as it is told, and by which the nearest is chosen.
func rounded(score float64) float64 { return math.Round(score*1e6) / 1e6 }

// later finds evaluation tasks of the same repository that were fixed before the task was
// made: its tree has their fixes. The date of both is when their pull request was opened,
// the nearest that the rows say.
func (x *Index) later(t *record.Task, f facts, add func(Check, int, float64)) []Unknown {
	why := ""
	for _, n := range x.byRepo[f.repo] {
		switch e := x.entries[n]; {
		case t.CreatedAt == nil:
			why = "the task has no created_at"
		case e.created == nil:
			why = "evaluation task " + e.id + " has no created_at"
		case t.CreatedAt.After(*e.created):
			add(LaterBase, n, 1)
		}
	}
	if why == "" {
		return nil
	}
	return []Unknown{{LaterBase, why}}
}

// shared is how many of a task's hashes each evaluation task has.
func shared(of map[uint64]bool, in map[uint64][]int) map[int]int {
	out := map[int]int{}
	for g := range of {
		for _, n := range in[g] {
			out[n]++
		}
	}
	return out
}

// sameCommit compares commits, either of which may be shortened. The parent of a commit
// ("c^") is a commit whose name is not known.
func sameCommit(a, b string) bool {
	if len(a) < 7 || len(b) < 7 {
		return false
	}
	if strings.HasSuffix(a, "^") || strings.HasSuffix(b, "^") {
		return a == b
	}
	return strings.HasPrefix(a, b) || strings.HasPrefix(b, a)
}

// covered is the share of want that is in have; 0 of nothing.
func covered(want, have map[string]bool) float64 {
	if len(want) == 0 {
		return 0
	}
	n := 0
	for t := range want {
		if have[t] {
			n++
		}
	}
	return float64(n) / float64(len(want))
}

// Of is the matches that a rule is about: its checks, and its evaluation sets (none: all).
func Of(list []Match, checks []Check, sets []string) []Match {
	var out []Match
	for _, m := range list {
		if slices.Contains(checks, m.Rule) && (len(sets) == 0 || slices.Contains(sets, m.EvalSet)) {
			out = append(out, m)
		}
	}
	return out
}
