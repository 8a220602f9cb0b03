package contamination

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"

	"orchard/datasets/record"
)

// Site is the registrable domain of an address.
type Site func(address string) (string, error)

// entry is what is kept of an evaluation task.
type entry struct {
	set, id  string
	commit   string
	created  *time.Time
	tests    map[string]bool
	grams    int // n-grams of its statement
	shingles int // of its patch
}

// Index is the evaluation sets. Add everything before the first Match; Match may then run
// on several goroutines.
type Index struct {
	limits  Limits
	site    Site
	entries []entry

	byID, byRepo, byName, byPull, byPatch, byIntent, bySite map[string][]int
	byGram, byShingle                                       map[uint64][]int
}

// New is an index of nothing.
func New(limits Limits, site Site) *Index {
	x := &Index{limits: limits, site: site, byGram: map[uint64][]int{}, byShingle: map[uint64][]int{}}
	for _, m := range []*map[string][]int{&x.byID, &x.byRepo, &x.byName, &x.byPull, &x.byPatch, &x.byIntent, &x.bySite} {
		*m = map[string][]int{}
	}
	return x
}

// Add puts a task of an evaluation set into the index. Its patch must be whole.
func (x *Index) Add(set string, t *record.Task) {
	f := x.facts(t)
	n := len(x.entries)
	x.entries = append(x.entries, entry{set: set, id: t.TaskID, commit: f.commit, created: t.CreatedAt, tests: f.tests, grams: len(f.grams), shingles: len(f.shingles)})
	for _, put := range []struct {
		in  map[string][]int
		key string
	}{{x.byID, f.id}, {x.byRepo, f.repo}, {x.byName, f.name}, {x.byPull, f.pull}, {x.byPatch, f.patch}, {x.byIntent, f.intent}, {x.bySite, f.site}} {
		if put.key != "" {
			put.in[put.key] = append(put.in[put.key], n)
		}
	}
	for g := range f.grams {
		x.byGram[g] = append(x.byGram[g], n)
	}
	for g := range f.shingles {
		x.byShingle[g] = append(x.byShingle[g], n)
	}
}

// facts is what tasks are compared by; empty is not known, or nothing.
type facts struct {
	id, repo, name, commit, pull, patch, intent, site string
	tests                                             map[string]bool
	grams, shingles                                   map[uint64]bool
}

func (x *Index) facts(t *record.Task) facts {
	e := edits(t.GoldPatch.Value)
	w := words(t.Statement)
	f := facts{
		id: strings.ToLower(strings.TrimSpace(t.TaskID)), repo: strings.ToLower(t.Repo), commit: strings.ToLower(t.BaseCommit),
		patch: sameEdits(e), shingles: shingles(e), intent: strings.Join(w, " "), grams: grams(w, x.limits.Ngram), tests: map[string]bool{},
	}
	f.name = f.repo[strings.LastIndex(f.repo, "/")+1:]
	if n := pull(t); n != "" && f.repo != "" {
		f.pull = f.repo + "#" + n
	}
	for _, test := range t.FailToPass {
		f.tests[test] = true
	}
	if t.Goal != nil && t.Goal.StartURL != "" {
		f.site, _ = x.site(t.Goal.StartURL) // no address: no site to share
	}
	return f
}

// pullOfID is the number at the end of owner__repo-123 and owner_repo_pr123.
var (
	pullOfID  = regexp.MustCompile(`(?:__.*-|_pr-?)([0-9]+)$`)
	pullOfRaw = regexp.MustCompile(`"(?:pull_number|pr_number|pull_request_number)"\s*:\s*"?([0-9]+)`)
)

// pull is the number of a task's pull request, "" when neither row nor id say it.
func pull(t *record.Task) string {
	for _, m := range [][]string{pullOfRaw.FindStringSubmatch(t.Raw), pullOfID.FindStringSubmatch(strings.ToLower(t.TaskID))} {
		if m != nil {
			return strings.TrimLeft(m[1], "0")
		}
	}
	return ""
}

// Merge is findings of a task as one list: of each check, in the order of All, and evaluation
// set the nearest task; of equals the first by id. A task that shares its repository with
// five hundred others is one finding, not five hundred.
func Merge(lists ...[]Match) []Match {
	list := slices.Concat(lists...)
	slices.SortFunc(list, func(a, b Match) int {
		return cmp.Or(slices.Index(All, a.Rule)-slices.Index(All, b.Rule), cmp.Compare(a.EvalSet, b.EvalSet), cmp.Compare(b.Score, a.Score), cmp.Compare(a.EvalID, b.EvalID))
	})
	return slices.CompactFunc(list, func(a, b Match) bool { return a.Rule == b.Rule && a.EvalSet == b.EvalSet })
}
