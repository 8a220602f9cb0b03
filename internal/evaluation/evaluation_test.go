package evaluation

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"orchard/datasets/record"
	"orchard/internal/stats"
)

var update = flag.Bool("update", false, "write the golden files")

var options = Options{MaxUnknown: .02, Resamples: 200, Seed: 1}

func row(task string, index int64, o record.Outcome) record.Rollout {
	return record.Rollout{RolloutID: fmt.Sprintf("%s-%d", task, index), TaskID: task, Repo: "repo/" + task[:1], Policy: "p", Harness: "h", Index: index,
		Trajectory: record.Trajectory{ExitStatus: record.ExitSubmitted}, Verdict: record.Verdict{Outcome: o, Reward: o.Reward(), Grader: "g1"}}
}

func by(r record.Rollout, policy, harness string) record.Rollout {
	r.Policy, r.Harness = policy, harness
	r.RolloutID += policy + harness
	return r
}

func of(rows ...record.Rollout) *Set {
	s := NewSet()
	for _, r := range rows {
		s.Add(r)
	}
	return s
}

func markdown(t *testing.T, a *Analysis) string {
	t.Helper()
	var b bytes.Buffer
	if err := a.WriteMarkdown(&b, "Evaluation"); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Faults of the sandboxes in 5, 20 and 60 % of the rollouts, of any and of the long ones,
// as rows without a reward and as rollouts without a row: the bounds hold the truth that a
// run without faults would have found, also of pass@k and pass^k, and nothing else is said.
func TestPlantedFaults(t *testing.T) {
	t.Parallel()
	const tasks, n = 150, 4
	for _, share := range []float64{.05, .2, .6} {
		for _, kind := range []string{"independent", "long"} {
			for _, form := range []string{"infra_error row", "expected, no row", "lost, no row"} {
				t.Run(fmt.Sprintf("%g %s %s", share, kind, form), func(t *testing.T) {
					t.Parallel()
					draw := rand.New(rand.NewPCG(uint64(share*100), uint64(len(kind)+len(form))))
					truth, seen := NewSet(), NewSet()
					var lost, resolved int64
					for i := range tasks {
						id, difficulty := fmt.Sprintf("t%03d", i), draw.Float64()
						for j := range int64(n) {
							o := record.Unresolved
							if draw.Float64() > difficulty {
								o = record.Resolved
								resolved++
							}
							truth.Add(row(id, j, o))
							fails := draw.Float64() < share
							if kind == "long" { // hard tasks take long: what fails is what would not have been resolved
								fails = difficulty > 1-share*.9 || draw.Float64() < share*.1
							}
							switch {
							case !fails:
								seen.Add(row(id, j, o))
							case form == "infra_error row":
								seen.Add(row(id, j, record.InfraError))
							default:
								lost++
							}
							if form == "expected, no row" {
								seen.Expect(id, "repo/t", System{"p", "h"}, 1)
							}
						}
					}
					if form == "lost, no row" {
						seen.Lose(lost)
					}
					want, got := Analyze(truth, options).Systems[0], Analyze(seen, options).Systems[0]
					rate := float64(resolved) / (tasks * n)
					if want.Headline == nil || want.Headline.Rate != rate || want.Bounds != (stats.Interval{Lo: rate, Hi: rate}) {
						t.Fatalf("without faults: %+v", want)
					}
					if got.Headline != nil || got.Withheld == "" {
						t.Errorf("a headline although %s are unknown: %s", Percent(got.Share), got.Sentence())
					}
					if got.Share < share/2 || got.Share > 2*share+.02 {
						t.Errorf("%g are unknown, planted %g", got.Share, share)
					}
					if rate < got.Bounds.Lo || rate > got.Bounds.Hi {
						t.Errorf("the truth %g is not in %v", rate, got.Bounds)
					}
					for i, p := range got.Pass {
						w := want.Pass[i]
						if p.At != nil || p.All != nil || p.AtIn != nil || p.AllIn != nil {
							t.Errorf("pass@%d beside a withheld headline: %+v", p.K, p)
						}
						if p.AtBounds != nil && (*w.At < p.AtBounds.Lo-1e-12 || *w.At > p.AtBounds.Hi+1e-12 || *w.All < p.AllBounds.Lo-1e-12 || *w.All > p.AllBounds.Hi+1e-12) {
							t.Errorf("k %d: the truth %g and %g is not in %v and %v", p.K, *w.At, *w.All, *p.AtBounds, *p.AllBounds)
						}
						if p.AtBounds == nil && form != "lost, no row" {
							t.Errorf("k %d has no bounds", p.K)
						}
					}
					text := markdown(t, Analyze(seen, options))
					if !strings.Contains(text, "no headline") || !strings.Contains(text, Points(got.Bounds.Lo)) || strings.Contains(text, "rollouts resolved:") {
						t.Errorf("the page says\n%s", text)
					}
				})
			}
		}
	}
}

// Up to the limit there is a headline, and the bounds stand beside it.
func TestFewFaultsLeaveTheHeadline(t *testing.T) {
	t.Parallel()
	s := NewSet()
	for i := range 100 {
		o := []record.Outcome{record.Resolved, record.Unresolved}[i%2]
		if i < 2 {
			o = record.InfraError
		}
		s.Add(row(fmt.Sprintf("t%d", i), 0, o))
	}
	got := Analyze(s, options).Systems[0]
	if want := "49 of 98 rollouts resolved: 50.0 % (95 % interval 40.3 to 59.7, Wilson); with 2 of 100 rollouts unknown 49.0 % at worst and 51.0 % at best"; got.Sentence() != want {
		t.Errorf("got  %s\nwant %s", got.Sentence(), want)
	}
	s.Add(row("t100", 0, record.TaskInvalid))
	if got := Analyze(s, options).Systems[0]; got.Headline != nil {
		t.Errorf("3 of 101 unknown: %s", got.Sentence())
	}
	for _, lenient := range []float64{3. / 101, 1} {
		if got := Analyze(s, Options{MaxUnknown: lenient}).Systems[0]; got.Headline == nil {
			t.Errorf("limit %g: %s", lenient, got.Sentence())
		}
	}
}

func TestSmallSets(t *testing.T) {
	t.Parallel()
	empty := Analyze(NewSet(), options)
	if text := markdown(t, empty); !strings.Contains(text, "There are no rollouts.") || len(empty.Systems) != 0 {
		t.Errorf("%s", text)
	}
	expected := NewSet()
	expected.ExpectSystem(System{"p", "h"})
	if s := Analyze(expected, options).Systems[0]; s.Headline != nil || s.Sentence() != "no headline: there are no rollouts" {
		t.Errorf("%+v", s)
	}
	one := Analyze(of(row("t", 0, record.Resolved)), options).Systems[0]
	if h := one.Headline; h == nil || h.Rate != 1 || h.Tasks != nil || h.Repos != nil || h.Wilson.Lo > .21 {
		t.Errorf("one row: %+v", one)
	}
	// Every rollout of a task unknown: the task is in no mean, and is named as unknown.
	set := of(row("a", 0, record.Resolved), row("a", 1, record.Unresolved), row("b", 0, record.InfraError), row("b", 1, record.NoTestsRan))
	s := Analyze(set, Options{MaxUnknown: .5, Ks: []int64{1, 2, 3}}).Systems[0]
	if p := s.Pass[0]; *p.At != .5 || p.Tasks != 1 || p.Unknown != 1 || *p.AtBounds != (stats.Interval{Lo: .25, Hi: .75}) {
		t.Errorf("%+v", p)
	}
	// k > n is not defined, and is no 0.
	if p := s.Pass[2]; p.At != nil || p.All != nil || p.AtBounds != nil || p.Undefined != 2 || p.Tasks != 0 {
		t.Errorf("%+v", p)
	}
	b, err := json.Marshal(Analyze(set, options))
	if err != nil || bytes.Contains(b, []byte("NaN")) {
		t.Errorf("%s %v", b, err)
	}
	nothing := Analyze(of(row("a", 0, record.NotGraded)), Options{MaxUnknown: 1}).Systems[0]
	if nothing.Headline != nil || nothing.Withheld != "no rollout has a reward" || nothing.Bounds != (stats.Interval{Lo: 0, Hi: 1}) {
		t.Errorf("%+v", nothing)
	}
}

func TestVerdictsOfDifferentGradersAreNotPooled(t *testing.T) {
	t.Parallel()
	other := row("b", 0, record.Resolved)
	other.Verdict.Grader = "g2"
	a := Analyze(of(row("a", 0, record.Resolved), other), options)
	if a.Systems[0].Headline != nil || len(a.Warnings) != 1 {
		t.Errorf("%+v %q", a.Systems[0], a.Warnings)
	}
	before := Analyze(of(row("a", 0, record.Unresolved)), options)
	now, earlier := of(other), of(row("b", 0, record.Unresolved))
	after := Analyze(now, options)
	if err := after.Compare(now, earlier, "x", options); err != nil || after.Baseline.Changes[0].P != nil || len(after.Baseline.Changes[0].NewlyResolved) != 1 {
		t.Errorf("%+v %v %v", after.Baseline, before.Warnings, err)
	}
}

// Rollouts that are gone without a word of whose they were widen every system's bounds.
func TestLostRolloutsOfNobody(t *testing.T) {
	t.Parallel()
	s := of(by(row("a", 0, record.Resolved), "p", "h"), by(row("a", 0, record.Resolved), "q", "h"))
	s.Lose(2)
	a := Analyze(s, options)
	for _, sys := range a.Systems {
		if sys.Unknown != 2 || sys.Rollouts != 3 || sys.Headline != nil || sys.Bounds.Lo > .34 {
			t.Errorf("%+v", sys)
		}
	}
	if a.Rollouts != 4 || len(a.Warnings) != 1 {
		t.Errorf("%d rollouts, %q", a.Rollouts, a.Warnings)
	}
}

// The numbers against a plain count over the rows.
func TestAnalysisCountsAsAPlainLoop(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		outcome := rapid.SampledFrom(record.Outcomes)
		var rows []record.Rollout
		for task := range rapid.IntRange(1, 6).Draw(t, "tasks") {
			for _, policy := range []string{"p", "q"} {
				for i := range rapid.IntRange(0, 3).Draw(t, "n") {
					if rapid.IntRange(0, 3).Draw(t, "lost") == 0 {
						continue
					}
					rows = append(rows, by(row(fmt.Sprintf("%c", 'a'+task), int64(i), outcome.Draw(t, "o")), policy, "h"))
				}
			}
		}
		set := of(rapid.Permutation(rows).Draw(t, "order")...)
		a := Analyze(set, Options{MaxUnknown: 1, Seed: 3})
		if d := cmp.Diff(a, Analyze(of(rows...), Options{MaxUnknown: 1, Seed: 3})); d != "" {
			t.Fatalf("the order of the rows matters: %s", d)
		}
		resolved, known := map[string]float64{}, map[string]float64{} // by policy, and by policy and task
		firsts := map[string]record.Outcome{}
		for _, r := range rows {
			if r.Verdict.Reward != nil {
				known[r.Policy]++
				known[r.Policy+r.TaskID]++
			}
			if r.Verdict.Outcome == record.Resolved {
				resolved[r.Policy]++
				resolved[r.Policy+r.TaskID]++
			}
			if r.Index == 0 {
				firsts[r.Policy+r.TaskID] = r.Verdict.Outcome
			}
		}
		for _, s := range a.Systems {
			if float64(s.Known) != known[s.Policy] || float64(s.Resolved) != resolved[s.Policy] {
				t.Fatalf("%s: %d of %d, want %v of %v", s.Policy, s.Resolved, s.Known, resolved, known)
			}
		}
		if len(a.Systems) < 2 {
			return
		}
		var common, sum, better, worse, both float64
		for task := range 6 {
			id := fmt.Sprintf("%c", 'a'+task)
			if known["p"+id] > 0 && known["q"+id] > 0 {
				common++
				sum += resolved["q"+id] / known["q"+id]
			}
			x, y := firsts["p"+id], firsts["q"+id]
			if x.Reward() == nil || y.Reward() == nil {
				continue
			}
			both++
			if x != record.Resolved && y == record.Resolved {
				better++
			}
			if x == record.Resolved && y != record.Resolved {
				worse++
			}
		}
		if cell := a.Matrix.Cell("q", "h"); float64(a.Matrix.Common) != common || cell.Rate != nil && (*cell.Rate-sum/common > 1e-9 || sum/common-*cell.Rate > 1e-9) {
			t.Fatalf("%d common tasks, cell %+v; want %g and %g", a.Matrix.Common, cell, common, sum/common)
		}
		if c := a.Pairs[0]; float64(c.Common) != both || float64(len(c.NewlyResolved)) != better || float64(len(c.NewlyFailed)) != worse {
			t.Fatalf("%+v, want %g common, %g better, %g worse", c, both, better, worse)
		}
	})
}

func TestCompareNeedsSomethingInCommon(t *testing.T) {
	t.Parallel()
	now := of(by(row("a", 0, record.Resolved), "new", "h"), by(row("a", 0, record.Resolved), "p", "h"))
	a := Analyze(now, options)
	if err := a.Compare(now, of(by(row("a", 0, record.Resolved), "x", "h")), "data/old", options); err == nil || !strings.Contains(err.Error(), "data/old has none of") {
		t.Errorf("%v", err)
	}
	if err := a.Compare(now, of(row("b", 0, record.Resolved), by(row("a", 0, record.Resolved), "gone", "h")), "data/old", options); err != nil {
		t.Fatal(err)
	}
	b := a.Baseline
	if len(b.Changes) != 1 || b.New[0].Policy != "new" || b.Gone[0].Policy != "gone" {
		t.Errorf("%+v", b)
	}
	if c := b.Changes[0]; c.Common != 0 || c.P != nil || c.Withheld == "" || c.OnlyBefore != 1 || c.OnlyAfter != 1 {
		t.Errorf("%+v", c)
	}
}

// The page, as people read it.
func TestMarkdown(t *testing.T) {
	t.Parallel()
	wild := "p|</td>\n# `x`\u202e"
	var rows, old []record.Rollout
	for i := range 10 {
		for j := range int64(2) {
			id := fmt.Sprintf("%c-task", 'a'+i)
			rows = append(rows, by(row(id, j, record.Outcomes[(i+int(j))%3]), wild, "h"), by(row(id, j, record.Outcomes[(i*int(j+1))%6]), "q", "h"), by(row(id, j, record.Outcomes[i%8]), "q", "k"))
			old = append(old, by(row(id, j, record.Outcomes[(i+1)%5]), "q", "h"), by(row(id, j, record.Resolved), "gone", "h"))
		}
	}
	set := of(rows...)
	a := Analyze(set, Options{MaxUnknown: .02, Resamples: 1000, Seed: 1})
	if err := a.Compare(set, of(old...), "data/old@1", options); err != nil {
		t.Fatal(err)
	}
	got := markdown(t, a)
	const golden = "testdata/evaluation.md"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if strings.ContainsAny(got, "\u202e\x1b`") || strings.Contains(got, "</td>") {
		t.Error("what a row says is markup")
	}
}
