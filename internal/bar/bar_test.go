package bar

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestOptions(t *testing.T) {
	for _, name := range Presets() {
		o, err := Preset(name)
		if err != nil || o.Validate() != nil {
			t.Errorf("%s: %v %v", name, err, o.Validate())
		}
	}
	same(t, "launcher", preset(t, PresetLauncher).strict(), []int{2, 1, 3})
	if _, err := Preset("papers"); err == nil || !strings.Contains(err.Error(), "orchard, paper, launcher") {
		t.Errorf("%v", err)
	}
	good, _ := Preset(PresetPaper)
	nan, out := math.NaN(), .7
	for want, change := range map[string]func(*Options){
		"n 1: ":                      func(o *Options) { o.N = 1 },
		"n_max 7: must be at least":  func(o *Options) { o.NMax = 7 },
		"stride 0: ":                 func(o *Options) { o.Stride = 0 },
		"rho 0.7 to 0.625: ":         func(o *Options) { o.Lo = .7 },
		"rho NaN to 0.625: ":         func(o *Options) { o.Lo = nan },
		"rho 0.375 to 1.1: ":         func(o *Options) { o.Hi = 1.1 },
		"target 0.7: ":               func(o *Options) { o.Target = &out },
		"target NaN: ":               func(o *Options) { o.Target = &nan },
		"rho 0.4 to 0.45: no group":  func(o *Options) { o.Lo, o.Hi = .4, .45 },
		"rho 0 to 0: no group":       func(o *Options) { o.Lo, o.Hi = 0, 0 },
		"n 0: a group needs at leas": func(o *Options) { *o = Options{} },
	} {
		o := good
		change(&o)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if d, err := (BAR{}).Next(nil); err != nil || d.Reason == "" {
		t.Errorf("one that New did not make: %+v %v", d, err)
	}
}

func TestBadSamples(t *testing.T) {
	ok := Sample{Index: 2, Status: Completed, Reward: reward(1)}
	for want, bad := range map[string]Sample{
		"sample 2: is there twice":  ok,
		"sample -1: the indexes":    {Index: -1, Status: Completed},
		"sample 16: the indexes of": {Index: 16, Status: Completed},
		`sample 3: status "done"`:   {Index: 3, Status: "done"},
		`sample 3: status ""`:       {Index: 3},
		"sample 3: length -1":       {Index: 3, Status: Completed, Length: -1},
		"sample 3: reward NaN":      {Index: 3, Status: Completed, Reward: reward(math.NaN())},
		"sample 3: reward -Inf":     {Index: 3, Status: Aborted, Reward: reward(math.Inf(-1))},
	} {
		if _, err := preset(t, PresetOrchard).Next([]Sample{ok, bad}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for _, s := range []Strategy{FixedN{N: 8}, DAPO{N: 8}} {
		if _, err := s.Next([]Sample{ok, ok}); err == nil {
			t.Errorf("%v takes a sample twice", s)
		}
	}
}

// The launcher's values, read as the released code does.
func TestLauncher(t *testing.T) {
	all := tape("TT-F-+++")
	for i := range all {
		all[i].Length = int64(100 - i)
	}
	// Two positives and two negatives, completed before truncated, then by index.
	d := play(t, preset(t, PresetLauncher), all)
	same(t, "members", d.Group.Members, []int{2, 4, 5, 6})
	same(t, "positives", d.Group.Positives, []int{5, 6})
}

func TestBaselines(t *testing.T) {
	for letters, want := range map[string][2]string{ // of FixedN and of DAPO
		"++++----": {"4/4", "4/4"},
		"+-------": {"1/7", "1/7"},
		"--------": {string(NoPositive), string(NoPositive)},
		"++++++++": {string(NoVariance), string(NoVariance)},
		"+++-?---": {string(FewUsable), string(FewUsable)},
	} {
		for i, s := range []Strategy{FixedN{N: 8}, DAPO{N: 8}} {
			d := play(t, s, tape(letters))
			if got := split(d.Group); got != want[i] && string(d.Reason) != want[i] {
				t.Errorf("%v, %s: %+v", s, letters, d)
			}
		}
	}
	// Rewards that differ though all are positive: a variance, but a pass rate of 1.
	all := tape("++++++++")
	all[2].Reward = reward(.25)
	if f, d := play(t, FixedN{N: 8}, all), play(t, DAPO{N: 8}, all); split(f.Group) != "8/0" || d.Reason != NoNegative || d.Group != nil {
		t.Errorf("%+v %+v", f, d)
	}
	d := next(t, FixedN{N: 8}, tape("++++----")[2:5])
	same(t, "need", d.Need, []int{0, 1, 5, 6, 7})
	if s := (FixedN{N: 8}).String() + (DAPO{N: 4}).String() + preset(t, PresetOrchard).String(); s != "fixed-8dapo-4bar-s4" {
		t.Error(s)
	}
}

func TestRefill(t *testing.T) {
	r := Refill{Want: 8, Start: 12, Rounds: 3, Whole: true}
	for _, c := range []struct {
		rounds, groups, left, start int
		end                         End
	}{
		{0, 0, 100, 12, ""}, {1, 7, 100, 12, ""}, {1, 7, 5, 5, ""}, {1, 8, 100, 0, Full}, {3, 9, 0, 0, Full}, {3, 7, 100, 0, Capped}, {2, 7, 0, 0, Dry},
	} {
		if start, end := r.Next(c.rounds, c.groups, c.left); start != c.start || end != c.end {
			t.Errorf("%+v: %d %q", c, start, end)
		}
	}
	r.Rounds = 0
	if start, end := r.Next(1000, 0, 12); start != 12 || end != "" {
		t.Errorf("without a limit: %d %q", start, end)
	}
	r.Whole = false
	for groups, want := range map[int]int{0: 12, 1: 11, 4: 6, 7: 2} {
		if start, _ := r.Next(1, groups, 100); start != want {
			t.Errorf("%d groups: starts %d, want %d", groups, start, want)
		}
	}
	if r.Validate() != nil {
		t.Error(r.Validate())
	}
	if err := (Refill{Rounds: -1}).Validate(); err == nil || strings.Count(err.Error(), "must be") != 3 {
		t.Errorf("%v", err)
	}
}

func TestAdvantage(t *testing.T) {
	balanced := []float64{1, 0, 1, 0, 1, 0, 0, 1}
	for _, c := range []struct {
		a    Advantage
		want float64
	}{{Advantage{DDof: 0}, 1}, {Advantage{DDof: 1}, .93541}, {DefaultAdvantage(), .93541}, {Advantage{NoStd: true}, .5}, {Advantage{Eps: .5}, .5}} {
		got, err := c.a.Of(balanced)
		for i, r := range balanced {
			if want := c.want * (2*r - 1); err != nil || math.Abs(got[i]-want) > 1e-5 {
				t.Errorf("%+v: %v %v, want ±%v", c.a, got, err, c.want)
				break
			}
		}
	}
	for _, flat := range [][]float64{{}, {3}, {1, 1, 1}, {0, 0}, {.1, .1, .1, .1 + 1e-9}} {
		got, err := Advantage{DDof: 1}.Of(flat)
		if err != nil || len(got) != len(flat) || slices.ContainsFunc(got, func(x float64) bool { return x != 0 }) {
			t.Errorf("%v: %v %v", flat, got, err)
		}
	}
	for want, bad := range map[string]func() ([]float64, error){
		"reward 1 of the group is NaN": func() ([]float64, error) { return DefaultAdvantage().Of([]float64{1, math.NaN()}) },
		"ddof 2":                       func() ([]float64, error) { return Advantage{DDof: 2}.Of(balanced) },
		"eps NaN":                      func() ([]float64, error) { return Advantage{Eps: math.NaN()}.Of(balanced) },
	} {
		if _, err := bad(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	// Advantages sum to 0, and have the order of the rewards.
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.Float64Range(-10, 10), 2, 16).Draw(t, "rewards")
		a := Advantage{DDof: rapid.IntRange(0, 1).Draw(t, "ddof"), Eps: 1e-6, NoStd: rapid.Bool().Draw(t, "dr")}
		got, err := a.Of(list)
		sum := 0.0
		for i, x := range got {
			sum += x
			for j := range got {
				if list[i] > list[j] && got[i] < got[j] {
					t.Fatalf("%v: %v", list, got)
				}
			}
		}
		if err != nil || math.Abs(sum) > 1e-6 {
			t.Fatalf("%v: %v %v", list, got, err)
		}
	})
}
