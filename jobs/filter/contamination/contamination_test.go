package contamination

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"orchard/datasets/record"
)

const statement = "When the parser meets an empty header it raises a KeyError instead of returning None as the manual has said since the first release"

const patch = `diff --git a/src/p.py b/src/p.py
index 1111111..2222222 100644
--- a/src/p.py
+++ b/src/p.py
@@ -10,4 +10,5 @@ def parse(h):
     x = 1
-    value = table[h.key].strip().lower().split(",")
+    value = table.get(h.key)
+    if value is None: return None
     y = 2
 z
`

func day(n int) *time.Time {
	t := time.Date(2024, 1, n, 0, 0, 0, 0, time.UTC)
	return &t
}

func evalTask() record.Task {
	return record.Task{TaskID: "Owner__repo-123", Repo: "Owner/Repo", BaseCommit: "0123456789abcdef0123456789abcdef01234567", CreatedAt: day(10), Statement: statement,
		GoldPatch: record.Text{Value: patch}, FailToPass: []string{"t.py::a", "t.py::b"}}
}

// stranger shares nothing with evalTask.
func stranger() record.Task {
	return record.Task{TaskID: "x__y-9", Repo: "x/y", BaseCommit: "ffffffffffffffffffffffffffffffffffffffff", CreatedAt: day(1), Statement: "Something else entirely happens here and nobody knows why it should",
		GoldPatch: record.Text{Value: strings.ReplaceAll(strings.ReplaceAll(patch, "table", "row"), "value", "cell")}, FailToPass: []string{"u.py::c"}}
}

func webTask(id, url, intent string) record.Task {
	return record.Task{TaskID: id, Statement: intent, Goal: &record.Goal{Kind: record.GoalWeb, StartURL: url}}
}

// site is good enough for these tests.
func site(address string) (string, error) {
	host, _, _ := strings.Cut(strings.TrimPrefix(address, "https://"), "/")
	if host == "" {
		return "", fmt.Errorf("no")
	}
	return strings.TrimPrefix(host, "www."), nil
}

func TestChecks(t *testing.T) {
	t.Parallel()
	e := evalTask()
	for _, c := range []struct {
		name   string
		change func(*record.Task)
		want   []Check
	}{
		{"nothing in common", func(t *record.Task) {}, nil},
		{"the same id", func(t *record.Task) { t.TaskID = " OWNER__repo-123 " }, []Check{InstanceID}},
		{"the same commit", func(t *record.Task) { t.Repo, t.BaseCommit = "owner/repo", e.BaseCommit }, []Check{RepoCommit, SameRepo}},
		{"the same commit, shortened", func(t *record.Task) { t.Repo, t.BaseCommit = "owner/repo", "0123456789" }, []Check{RepoCommit, SameRepo}},
		{"the commit of another repository", func(t *record.Task) { t.BaseCommit = e.BaseCommit }, nil},
		{"a commit that begins otherwise", func(t *record.Task) { t.Repo, t.BaseCommit = "owner/repo", "0123456788" }, []Check{SameRepo}},
		{"the parent of the commit", func(t *record.Task) { t.Repo, t.BaseCommit = "owner/repo", e.BaseCommit+"^" }, []Check{SameRepo}},
		{"the same pull request by the row", func(t *record.Task) { t.Repo, t.Raw = "owner/repo", `{"pull_number": 123}` }, []Check{PullRequest, SameRepo}},
		{"the same pull request by the id", func(t *record.Task) { t.Repo, t.TaskID = "owner/repo", "owner_repo_pr123" }, []Check{PullRequest, SameRepo}},
		{"another pull request", func(t *record.Task) { t.Repo, t.TaskID = "owner/repo", "owner_repo_pr1123" }, []Check{SameRepo}},
		{"the number in another repository", func(t *record.Task) { t.Raw = `{"pull_number": 123}` }, nil},
		{"the same patch", func(t *record.Task) { t.GoldPatch = e.GoldPatch }, []Check{PatchHash, PatchSimilarity}},
		{"the same patch elsewhere in the file, with CRLF", func(t *record.Task) {
			t.GoldPatch.Value = strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(patch, "@@ -10,4 +10,5 @@ def parse(h):", "@@ -99,4 +99,5 @@"), "x = 1", "other = 2"), "\n", "\r\n")
		}, []Check{PatchHash, PatchSimilarity}},
		{"the same patch in a moved file", func(t *record.Task) { t.GoldPatch.Value = strings.ReplaceAll(patch, "src/p.py", "lib/q.py") }, []Check{PatchSimilarity}},
		{"the same statement, spelled otherwise", func(t *record.Task) { t.Statement = "  " + strings.ToUpper(statement) + "!\n" }, []Check{Intent, StatementNgram}},
		{"the statement inside another", func(t *record.Task) { t.Statement = "Hello. " + statement + " Thanks!" }, []Check{StatementNgram}},
		{"thirteen words of it", func(t *record.Task) {
			t.Statement = "So: " + strings.Join(strings.Fields(statement)[3:16], " ") + " or not"
		}, []Check{StatementNgram}},
		{"twelve words of it", func(t *record.Task) {
			t.Statement = "So: " + strings.Join(strings.Fields(statement)[3:15], " ") + " or not"
		}, nil},
		{"half of its tests", func(t *record.Task) { t.Repo, t.FailToPass = "fork/repo", []string{"t.py::a", "z"} }, []Check{TestNames}},
		{"its tests elsewhere", func(t *record.Task) { t.FailToPass = e.FailToPass }, nil},
		{"a later task of the repository", func(t *record.Task) { t.Repo, t.CreatedAt = "owner/repo", day(11) }, []Check{LaterBase, SameRepo}},
		{"a task of the same day", func(t *record.Task) { t.Repo, t.CreatedAt = "owner/repo", day(10) }, []Check{SameRepo}},
		{"the eval site", func(t *record.Task) { *t = webTask("w", "https://www.shop.com/x", "buy something") }, []Check{EvalSite}},
		{"the intent in other letters", func(t *record.Task) {
			*t = webTask("w", "https://other.com", "ＦＩＮＤ  a cafe\u0301 in straße 5.")
		}, []Check{Intent}},
		{"another intent", func(t *record.Task) { *t = webTask("w", "https://other.com", "Find a café in Straße 6") }, nil},
	} {
		x := New(DefaultLimits(), site)
		x.Add("verified", &e)
		w := webTask("v", "https://shop.com", "Find a café in Strasse 5")
		x.Add("web", &w)
		task := stranger()
		c.change(&task)
		found, unknown := x.Match(&task, All)
		var got []Check
		for _, m := range found {
			got = append(got, m.Rule)
		}
		if !slices.Equal(got, c.want) || len(unknown) != 0 {
			t.Errorf("%s: %v %v; want %v", c.name, found, unknown, c.want)
		}
		for _, off := range All { // a check that is switched off finds nothing, and changes no other
			rest := slices.DeleteFunc(slices.Clone(All), func(c Check) bool { return c == off })
			less, _ := x.Match(&task, rest)
			if want := slices.DeleteFunc(slices.Clone(found), func(m Match) bool { return m.Rule == off }); !slices.Equal(less, want) {
				t.Errorf("%s without %s: %v, want %v", c.name, off, less, want)
			}
		}
	}
}

// A check that lacks what it needs says so.
func TestUnknown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ eval, task *time.Time }{{nil, day(1)}, {day(1), nil}} {
		e, s := evalTask(), stranger()
		e.CreatedAt, s.CreatedAt, s.Repo = c.eval, c.task, e.Repo
		x := New(DefaultLimits(), site)
		x.Add("verified", &e)
		if found, unknown := x.Match(&s, Default); len(found) != 0 || len(unknown) != 1 || unknown[0].Check != LaterBase || !strings.Contains(unknown[0].Why, "no created_at") {
			t.Errorf("%v %v", found, unknown)
		}
	}
	// What a task does not have at all makes it equal to no other that has none either.
	x := New(DefaultLimits(), site)
	x.Add("e", &record.Task{TaskID: "a"})
	if found, unknown := x.Match(&record.Task{TaskID: "b"}, All); len(found)+len(unknown) != 0 {
		t.Errorf("%v %v", found, unknown)
	}
}

// One finding for each set and check, the nearest, whatever the order of the sets.
func TestNearestOfASet(t *testing.T) {
	t.Parallel()
	a, b := evalTask(), evalTask()
	a.TaskID, b.TaskID = "owner__repo-200", "owner__repo-100"
	b.Statement += " and many more words that the other does not have at all which makes it less covered"
	for _, order := range [][]record.Task{{a, b}, {b, a}} {
		x := New(DefaultLimits(), site)
		for _, e := range order {
			x.Add("s", &e)
		}
		task := stranger()
		task.Repo, task.Statement = "owner/repo", statement
		found, _ := x.Match(&task, []Check{StatementNgram, SameRepo})
		want := []Match{{task.TaskID, "s", a.TaskID, StatementNgram, 1}, {task.TaskID, "s", b.TaskID, SameRepo, 1}}
		if !slices.Equal(found, want) {
			t.Errorf("%v, want %v", found, want)
		}
	}
}

// Similarity and coverage equal a slow reference that counts in lists of strings.
func TestScores(t *testing.T) {
	t.Parallel()
	word := rapid.SampledFrom([]string{"a", "b", "c", "D", "é"})
	runs := func(words []string, n int) []string {
		var out []string
		for i := 0; i+n <= len(words); i++ {
			if g := strings.ToLower(strings.Join(words[i:i+n], " ")); !slices.Contains(out, g) {
				out = append(out, g)
			}
		}
		return out
	}
	both := func(a, b []string) (n int) {
		for _, s := range a {
			if slices.Contains(b, s) {
				n++
			}
		}
		return n
	}
	as := func(words []string) string {
		return fmt.Sprintf("--- a/f\n+++ b/f\n@@ -0,0 +1 @@\n+%s\n", strings.Join(words, " "))
	}
	rapid.Check(t, func(t *rapid.T) {
		one, two := rapid.SliceOfN(word, 1, 40).Draw(t, "one"), rapid.SliceOfN(word, 1, 40).Draw(t, "two")
		if rapid.Bool().Draw(t, "near") {
			two = append(slices.Clone(one), two[:1]...)
		}
		limits := Limits{Ngram: rapid.IntRange(1, 4).Draw(t, "n"), Coverage: rapid.SampledFrom([]float64{0, .3, 1}).Draw(t, "coverage"), Patch: rapid.SampledFrom([]float64{.2, .8, 1}).Draw(t, "patch")}
		x := New(limits, site)
		x.Add("e", &record.Task{TaskID: "e", Statement: strings.Join(two, ", "), GoldPatch: record.Text{Value: as(two)}})
		found, _ := x.Match(&record.Task{TaskID: "t", Statement: strings.Join(one, "\n"), GoldPatch: record.Text{Value: as(one)}}, []Check{PatchSimilarity, StatementNgram})
		got := map[Check]float64{}
		for _, m := range found {
			got[m.Rule] = m.Score
		}
		want := map[Check]float64{}
		a, b := runs(append([]string{"+"}, one...), shingle), runs(append([]string{"+"}, two...), shingle)
		if s := float64(both(a, b)) / float64(len(a)+len(b)-both(a, b)); both(a, b) > 0 && s >= limits.Patch && min(len(a), len(b)) >= leastShared {
			want[PatchSimilarity] = s
		}
		a, b = runs(one, limits.Ngram), runs(two, limits.Ngram)
		if s := float64(both(a, b)) / float64(len(b)); both(a, b) > 0 && s >= limits.Coverage {
			want[StatementNgram] = s
		}
		for _, c := range []Check{PatchSimilarity, StatementNgram} {
			w, ok := want[c]
			g, there := got[c]
			if ok != there || w-g > 1e-6 || g-w > 1e-6 {
				t.Fatalf("%s: %v (%v), want %v (%v)\n%v\n%v", c, g, there, w, ok, one, two)
			}
		}
	})
}

func TestParseChecks(t *testing.T) {
	t.Parallel()
	got, err := ParseChecks([]string{"same_repo", " intent", "intent"})
	if err != nil || Join(got) != "intent,same_repo" {
		t.Errorf("%v %v", got, err)
	}
	if _, err := ParseChecks([]string{"everything"}); err == nil || !strings.Contains(err.Error(), "instance_id,repo_commit") {
		t.Error(err)
	}
}
