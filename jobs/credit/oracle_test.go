package credit

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"orchard/datasets"
	"orchard/datasets/export"
	"orchard/datasets/record"
	"orchard/jobs/credit/curve"
	"orchard/jobs/credit/oracle"
	"orchard/jobs/sftexport" // what the segments come to is its business: only this test knows both
)

// choices are all options there are, in every combination; epsilon is drawn by itself.
func choices() (list []curve.Options) {
	for _, when := range []curve.When{curve.Before, curve.After} {
		for _, rise := range []curve.Rise{curve.ByStep, curve.ByInterval, curve.ByIntervalMean} {
			for _, last := range []bool{false, true} {
				for _, gap := range []int{0, 1, 2, 5, 70} {
					for _, pad := range []int{0, 1, 3, 70} {
						list = append(list, curve.Options{When: when, Rise: rise, Last: last, Gap: gap, Pad: pad})
					}
				}
			}
		}
	}
	return list
}

// same is o as the oracle names it.
func same(o curve.Options) oracle.Options {
	by := map[curve.Rise]oracle.By{curve.ByStep: oracle.ByStep, curve.ByInterval: oracle.ByIntervalTotal, curve.ByIntervalMean: oracle.ByIntervalMean}
	return oracle.Options{Epsilon: o.Epsilon, By: by[o.Rise], After: o.When == curve.After, Last: o.Last, Gap: o.Gap, Pad: o.Pad}
}

func epsilon(r *rand.Rand) float64 {
	return []float64{.05, .05, .05, .02, .1, .3, 1, 1e-6, max(1e-6, r.Float64())}[r.IntN(9)]
}

// probability lies on borders of usual epsilons two times of three.
func probability(r *rand.Rand) float64 {
	return []float64{r.Float64(), float64(r.IntN(21)) / 20, float64(r.IntN(101)) / 100}[r.IntN(3)]
}

// keys are some steps of n, at least so many, in order: few or most of them, anywhere.
func keys(r *rand.Rand, n, least int) []oracle.Key {
	steps := r.Perm(n)[:min(n, least+r.IntN(1+[]int{3, 8, n}[r.IntN(3)]))]
	slices.Sort(steps)
	list := make([]oracle.Key, len(steps))
	for i, s := range steps {
		list[i] = oracle.Key{Step: s, P: probability(r)}
	}
	return list
}

// wild is a rollout of n steps with all that is no action: answers that could not be
// followed, were cut off or were not kept, several results or none, words of the user.
func wild(r *rand.Rand, name string, n int) (record.Rollout, []oracle.Message) {
	ro := played(name, []record.Outcome{record.Resolved, record.Unresolved, record.Unresolved, record.Partial, record.TestTimeout}[r.IntN(5)], n)
	var messages []record.Message
	var seen []oracle.Message
	for _, m := range ro.Trajectory.Messages {
		action := m.Role == "assistant"
		if action && r.IntN(8) == 0 {
			s := &ro.Trajectory.Steps[m.Step]
			action = false
			switch r.IntN(4) {
			case 0:
				s.FinishReason = "length"
			case 1:
				s.FinishReason = "content_filter"
			default:
				s.FormatError, m.Kept = "bad", r.IntN(2) == 0
			}
		}
		for range map[bool]int{true: r.IntN(3), false: 1}[m.Role == "tool"] {
			messages = append(messages, m)
			if m.Kept {
				seen = append(seen, oracle.Message{Action: action, Step: int(m.Step)})
			}
			if m.Role == "tool" && r.IntN(9) == 0 {
				m.Role, m.ToolCallID = "user", ""
			}
		}
	}
	ro.Trajectory.Messages = messages
	return ro, seen
}

// bits finds what is wrong with the mask of an example, of which none is nil, bit by bit
// and with all that was said before. An example ends with its last trained message.
func bits(row *record.SFTRow, ro record.Rollout, want []bool) error {
	if !slices.Contains(want, true) {
		if row != nil {
			return errors.New("there is an example, and nothing to train")
		}
		return nil
	}
	if row == nil {
		return fmt.Errorf("there is no example, want %v", want)
	}
	at := 0
	for _, m := range ro.Trajectory.Messages {
		if !m.Kept {
			continue
		}
		if at == len(row.Messages) {
			break
		}
		got := row.Messages[at]
		if got.Role != m.Role || got.Content != m.Content {
			return fmt.Errorf("message %d is %s %q, want %s %q", at, got.Role, got.Content, m.Role, m.Content)
		}
		bit := map[bool]int64{true: 1}[want[at]]
		if int64(got.LossMask) != bit || int64(got.StepLossMask) != bit || got.Loss != want[at] || got.Train != want[at] || got.LossScale != float64(bit) {
			return fmt.Errorf("message %d of step %d: %+v, want %t", at, m.Step, got, want[at])
		}
		at++
	}
	if at != len(row.Messages) || slices.Contains(want[at:], true) {
		return fmt.Errorf("the example has %d messages, %d are the rollout's, and then %v are to be trained", len(row.Messages), at, want[at:])
	}
	return nil
}

// agrees finds where a curve of n steps is not the oracle's. The oracle has a value for
// each key step, the curve for each state: with After, a key speaks of the state after it.
func agrees(c curve.Curve, points []oracle.Key, n int, o curve.Options) error {
	shift := map[curve.When]int{curve.After: 1}[o.When]
	values := oracle.Values(points, n)
	for t, v := range values {
		if math.Abs(c.Values[t+shift]-v) > 1e-12 {
			return fmt.Errorf("values %v, want %v from %d on", c.Values, values, shift)
		}
	}
	for t, v := range oracle.Credits(values) {
		if math.Abs(c.Credits[t+shift]-v) > 1e-12 {
			return fmt.Errorf("credit of step %d is %v, want %v", t+shift, c.Credits[t+shift], v)
		}
	}
	if len(c.Values) != n+1 || len(c.Credits) != n || c.Values[0] != values[0] || c.Values[n] != values[n-1] {
		return fmt.Errorf("%d values and %d credits of %d steps, or not constant outside: %v", len(c.Values), len(c.Credits), n, c.Values)
	}
	var rises []curve.Range
	for _, s := range oracle.Segments(points, n, same(o)) {
		rises = append(rises, curve.Range{Begin: s[0] + shift, End: s[1] + shift})
	}
	if !slices.Equal(rises, c.Rises) {
		return fmt.Errorf("rises %v, want %v", c.Rises, rises)
	}
	return nil
}

// steps are those that are in segments, as booleans.
func steps(segments []record.Segment, n int) []bool {
	in := make([]bool, n)
	for _, s := range segments {
		for t := s.Begin; t < s.End; t++ {
			in[t] = true
		}
	}
	return in
}

func TestTenThousandTrajectoriesAgreeWithTheOracle(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 5))
	options := choices()
	rising, partly, whole := 0, 0, 0
	for i := range 10_000 {
		n := 1 + r.IntN(60)
		points, o := keys(r, n, 1), options[i%len(options)]
		o.Epsilon = epsilon(r)
		if err := o.Validate(); err != nil {
			t.Fatal(err)
		}
		fatal := func(err error) {
			t.Helper()
			t.Fatalf("trajectory %d: %v of %d steps, %+v: %v", i, points, n, o, err)
		}
		given := make([]curve.Point, len(points))
		for k, p := range points {
			given[k] = curve.Point{Step: p.Step, P: p.P}
		}
		c, err := curve.Of(given, n, o)
		if err == nil {
			err = agrees(c, points, n, o)
		}
		if err != nil {
			fatal(err)
		}
		var row record.Credit
		draw(&row, c)
		trained := oracle.Trained(points, n, same(o))
		if got := steps(row.Segments, n); !slices.Equal(got, trained) {
			fatal(fmt.Errorf("trained %v, want %v", got, trained))
		}
		ro, messages := wild(r, "a", n)
		resolved := ro.Verdict.Outcome == record.Resolved
		want := oracle.Mask(messages, resolved, trained)
		var example record.SFTRow
		if resolved {
			example, err = export.SFT(ro)
		} else {
			example, err = export.Credited(ro, row.Segments)
		}
		made := &example
		if errors.Is(err, export.ErrNothingTrained) {
			made, err = nil, nil
		}
		if err == nil {
			err = bits(made, ro, want)
		}
		if err != nil {
			fatal(err)
		}
		rising += min(1, len(c.Rises))
		switch {
		case resolved:
			whole++
		case slices.Contains(trained, true) && slices.Contains(trained, false):
			partly++
		}
	}
	if rising < 5000 || partly < 2000 || whole < 1000 {
		t.Errorf("%d rise, %d are trained in part and %d whole: too few to say anything", rising, partly, whole)
	}
}

// Values by execution are known for every state: the oracle is given each as a key, and
// the state after the last step as a step that nobody takes.
func TestMeasuredCurvesAgreeWithTheOracle(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	for i, options := 0, choices(); i < 4*len(options); i++ {
		o := options[i%len(options)]
		o.Epsilon, o.When = epsilon(r), curve.Before
		n := r.IntN(60)
		var points []oracle.Key
		var values []float64
		for s := range n + 1 {
			points = append(points, oracle.Key{Step: s, P: probability(r)})
			values = append(values, points[s].P)
		}
		var row record.Credit
		draw(&row, curve.Measured(values, o))
		if got, want := steps(row.Segments, n), oracle.Trained(points, n+1, same(o))[:n]; !slices.Equal(got, want) {
			t.Fatalf("%v, %+v: trained %v, want %v", values, o, got, want)
		}
	}
}

// answer is points as a teacher may say them: in any order, and once in a while with
// another number before the one that counts.
func answer(t *testing.T, r *rand.Rand, points []oracle.Key) string {
	t.Helper()
	type entry struct {
		Step        int     `json:"step"`
		Probability float64 `json:"probability"`
		Reasoning   string  `json:"reasoning"`
	}
	var list []entry
	for _, k := range r.Perm(len(points)) {
		if r.IntN(6) == 0 {
			list = append(list, entry{points[k].Step, probability(r), "or not"})
		}
		list = append(list, entry{points[k].Step, points[k].P, "so it was"})
	}
	b, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return "Looking back:\n" + string(b)
}

// From a teacher's words to the file that a trainer reads, both stages as users run them.
func TestBothStagesAgreeWithTheOracle(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 7))
	options := choices()
	examples, dropped := 0, 0
	for range 10 {
		o := options[r.IntN(len(options))]
		o.Epsilon, o.Gap, o.Pad = []float64{.05, .1}[r.IntN(2)], o.Gap%4, o.Pad%4
		rollouts, answers, want := []record.Rollout{}, map[string][]string{}, map[string][]bool{}
		for i := range 25 {
			n := 3 + r.IntN(58)
			name := fmt.Sprint("r", i)
			ro, messages := wild(r, name, n)
			points := keys(r, n, 3)
			points[0].P, points[len(points)-1].P = float64(30+r.IntN(21))/100, float64(r.IntN(20))/100
			rollouts, answers[name] = append(rollouts, ro), []string{answer(t, r, points)}
			want[ro.RolloutID] = oracle.Mask(messages, ro.Verdict.Outcome == record.Resolved, oracle.Trained(points, n, same(o)))
		}
		c := given(t, annotator(t, answers).URL, rollouts...)
		c.Curve = o
		credit, err := Run(t.Context(), c, deps())
		if err != nil || credit.RowsOut != int64(len(rollouts)) || credit.Outcomes[record.CreditFailed] > 0 {
			t.Fatalf("credit: %+v, %v", credit, err)
		}
		s := sftexport.Defaults()
		s.In, s.Out, s.Keep, s.Credit = c.In, filepath.Join(filepath.Dir(c.Out), "sft"), sftexport.KeepGraded, credit.URI
		sft, err := sftexport.Run(t.Context(), s, deps())
		if err != nil {
			t.Fatalf("sft-export: %v", err)
		}
		v, err := datasets.Open(t.Context(), datasets.Stores, sft.URI)
		if err != nil {
			t.Fatal(err)
		}
		made := map[string]*record.SFTRow{}
		for row, err := range datasets.Rows[record.SFTRow](t.Context(), v) {
			if err != nil {
				t.Fatal(err)
			}
			made[row.ID] = &row
		}
		slices.SortFunc(rollouts, func(a, b record.Rollout) int { return cmp.Compare(a.RolloutID, b.RolloutID) })
		for _, ro := range rollouts {
			if err := bits(made[ro.RolloutID], ro, want[ro.RolloutID]); err != nil {
				t.Fatalf("%s, %+v: %s: %v", ro.TaskID, o, answers[ro.TaskID], err)
			}
		}
		examples += len(made)
		dropped += len(rollouts) - len(made)
	}
	if examples < 100 || dropped < 10 {
		t.Errorf("%d examples and %d rollouts without one: too few to say anything", examples, dropped)
	}
}
