package contamination

import (
	"fmt"
	"slices"
	"strings"
)

// Check is a way of being contaminated.
type Check string

// The checks, in the order in which a task is said to fail them.
const (
	InstanceID      Check = "instance_id"      // the same id
	RepoCommit      Check = "repo_commit"      // the same repository and base commit
	PullRequest     Check = "pull_request"     // the same pull request of the same repository
	PatchHash       Check = "patch_hash"       // the same gold patch, but for its surroundings
	PatchSimilarity Check = "patch_similarity" // a gold patch that is nearly the same
	Intent          Check = "intent"           // the same request, but for spelling
	StatementNgram  Check = "statement_ngram"  // runs of words in common
	StatementCosine Check = "statement_cosine" // a statement that is close by its embedding
	TestNames       Check = "test_names"       // the same tests to pass, in a repository of the same name
	LaterBase       Check = "later_base"       // made after the fix of an evaluation task of its repository
	SameRepo        Check = "same_repo"        // the same repository at all
	EvalSite        Check = "eval_site"        // a web task on the site of an evaluation task
)

// All is every check in order.
var All = []Check{InstanceID, RepoCommit, PullRequest, PatchHash, PatchSimilarity, Intent, StatementNgram, StatementCosine, TestNames, LaterBase, SameRepo, EvalSite}

// Default is the checks that are made when nothing else is said: all but the two that cut
// off everything near an evaluation set, and StatementCosine, which says little more than
// StatementNgram without a model and must be paid for with one.
var Default = []Check{InstanceID, RepoCommit, PullRequest, PatchHash, PatchSimilarity, Intent, StatementNgram, TestNames, LaterBase}

// ParseChecks reads names of checks; twice the same is once.
func ParseChecks(names []string) ([]Check, error) {
	var out []Check
	for _, n := range names {
		c := Check(strings.TrimSpace(n))
		if !slices.Contains(All, c) {
			return nil, fmt.Errorf("%q is none of %s", n, Join(All))
		}
		if !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b Check) int { return slices.Index(All, a) - slices.Index(All, b) })
	return out, nil
}

// Join is the names of checks with commas.
func Join(list []Check) string {
	names := make([]string, len(list))
	for i, c := range list {
		names[i] = string(c)
	}
	return strings.Join(names, ",")
}

// Limits is where near becomes too near.
type Limits struct {
	// Ngram is how many words in a row are compared.
	Ngram int `json:"ngram"`
	// Coverage is the least share of an evaluation statement's n-grams in the task's; 0 is
	// any one of them.
	Coverage float64 `json:"coverage"`
	// Patch is the least Jaccard similarity of patches.
	Patch float64 `json:"patch"`
	// Tests is the least share of an evaluation task's FAIL_TO_PASS among the task's.
	Tests float64 `json:"tests"`
	// Cosine is the least cosine of statements' embeddings. It is left out of settings in
	// which StatementCosine is not made.
	Cosine float64 `json:"cosine,omitempty"`
}

// DefaultLimits is what is used when nothing else is said.
func DefaultLimits() Limits {
	return Limits{Ngram: 13, Coverage: 0, Patch: 0.8, Tests: 0.5, Cosine: 0.9}
}

// Match is a task found in an evaluation set.
type Match struct {
	TaskID  string  `json:"task_id"`
	EvalSet string  `json:"eval_set"`
	EvalID  string  `json:"eval_id"`
	Rule    Check   `json:"rule"`
	Score   float64 `json:"score"` // 1 for the same, else how near
}

// Unknown is a check that could not be made of a task.
type Unknown struct {
	Check Check
	Why   string
}
