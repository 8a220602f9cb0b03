package bar

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// The edge cases, by the letters of the reference.

func TestEdgeA(t *testing.T) { // 14 positive and 2 negative: 4/4 cannot be, 6/2 is the nearest
	d := play(t, preset(t, PresetPaper), tape(mixed(14, 2)))
	if split(d.Group) != "6/2" || d.Group.Kind != Relaxed || d.Used != 16 {
		t.Errorf("%+v %+v", d, d.Group)
	}
}

func TestEdgeB(t *testing.T) { // 1 and 15
	d := play(t, preset(t, PresetPaper), tape(mixed(1, 15)))
	if split(d.Group) != "1/7" || d.Group.Kind != Relaxed {
		t.Errorf("%+v", d)
	}
}

func TestEdgeC(t *testing.T) { // all alike is dropped, and says which way
	for letters, want := range map[string]Reason{strings.Repeat("-", 16): NoPositive, strings.Repeat("+", 16): NoVariance} {
		if d := play(t, preset(t, PresetPaper), tape(letters)); d.Reason != want || d.Used != 16 {
			t.Errorf("%s: %+v", letters, d)
		}
	}
	// Not all that is positive is alike: the best ranked pass the filter.
	all := tape(strings.Repeat("+", 16))
	all[3].Reward = reward(.5)
	if d := play(t, preset(t, PresetPaper), all); d.Group == nil || d.Group.Kind != Degenerate || !slices.Equal(d.Group.Members, []int{0, 1, 2, 3, 4, 5, 6, 7}) {
		t.Errorf("%+v", d)
	}
}

func TestEdgeD(t *testing.T) { // 3 and 5 with stride 8 stop at 8
	b := preset(t, PresetPaper, func(o *Options) { o.Stride = 8 })
	d := play(t, b, tape(mixed(3, 5)+"++++++++"))
	if split(d.Group) != "3/5" || d.Group.Kind != Strict || d.Used != 8 {
		t.Errorf("%+v", d)
	}
	if d := play(t, b, tape(mixed(2, 6)+"++++++++")); split(d.Group) != "4/4" || d.Used != 16 {
		t.Errorf("2/6 goes on: %+v", d)
	}
}

func TestEdgeE(t *testing.T) { // all aborted: we know nothing of the prompt
	for _, s := range []Strategy{preset(t, PresetPaper), preset(t, PresetOrchard), preset(t, PresetLauncher), FixedN{N: 8}, DAPO{N: 8}} {
		for _, letter := range []string{"a", "A", "x", "t", "?"} {
			if d := play(t, s, tape(strings.Repeat(letter, 16))); d.Reason != NoneUsable || d.Tally.Unusable != s.Most() {
				t.Errorf("%v, all %s: %+v", s, letter, d)
			}
		}
	}
}

func TestEdgeF(t *testing.T) { // 10 usable of 16
	for letters, want := range map[string]string{
		"+++++-----aaaaaa": "4/4", // strict
		"aaaaaa+-++++++++": "7/1", // relaxed; nobody aborted fills up
		"a-a-a-a-a-a-----": "none",
		"++++++++++aaaaaa": "none",
	} {
		d := play(t, preset(t, PresetPaper), tape(letters))
		if split(d.Group) != want || d.Tally.Unusable != 6 {
			t.Errorf("%s: %+v, want %s", letters, d, want)
		}
	}
	if d := play(t, preset(t, PresetPaper), tape("+++----aaaaaaaaa")); d.Reason != FewUsable {
		t.Errorf("7 usable: %+v", d)
	}
	if d := play(t, FixedN{N: 8}, tape("++++---a")); d.Reason != FewUsable {
		t.Errorf("fixed: %+v", d)
	}
}

func TestEdgeG(t *testing.T) { // N odd: rho* N is x.5
	for _, c := range []struct {
		n                    int
		lo, hi               float64
		halfUp, more         bool
		positives, negatives int
		want                 string
	}{
		{5, .2, .8, false, false, 9, 9, "2/3"}, // 2.5 to the even 2
		{5, .2, .8, true, false, 9, 9, "3/2"},
		{7, .2, .8, false, false, 9, 9, "4/3"}, // 3.5 to the even 4
		{7, .2, .8, true, false, 9, 9, "4/3"},
		{10, .3, .4, false, false, 9, 9, "4/6"},  // 0.35*10 is 3.5 with or without float's help
		{10, .3, .3, false, false, 3, 15, "3/7"}, // 0.3*10 is 3 for ceil and floor alike
		{10, .7, .7, false, false, 15, 3, "7/3"},
		{8, .25, .75, false, false, 9, 3, "5/3"}, // 4/4 cannot be
		{8, .375, .375, false, false, 8, 8, "3/5"},
	} {
		b, err := New(Options{N: c.n, NMax: 18, Stride: 18, Lo: c.lo, Hi: c.hi, HalfUp: c.halfUp, MorePositives: c.more})
		if err != nil {
			t.Fatal(err)
		}
		if d := play(t, b, tape(mixed(c.positives, c.negatives)+strings.Repeat("a", 18-c.positives-c.negatives))); split(d.Group) != c.want || d.Group.Kind != Strict {
			t.Errorf("%+v: %+v", c, d)
		}
	}
	// Products of shares and counts that float gets wrong in the last digit.
	for _, c := range []struct {
		n      int
		lo, hi float64
		want   []int
	}{{25, .28, .28, []int{7}}, {50, .56, .56, []int{28}}, {50, .58, .58, []int{29}}} {
		same(t, "counts", Options{N: c.n, Lo: c.lo, Hi: c.hi}.strict(), c.want)
	}
	for _, c := range []struct {
		lo, hi   float64
		even, up int
	}{{.34, .56, 4, 5}, {.41, .69, 6, 6}, {.47, .83, 6, 7}} { // 4.5, 5.5 and 6.5 of 10
		o := Options{N: 10, Lo: c.lo, Hi: c.hi}
		same(t, "to the even number", o.aim(), c.even)
		o.HalfUp = true
		same(t, "up", o.aim(), c.up)
	}
	// Two numbers as near to the target: the smaller first, or the larger.
	for more, want := range map[bool][]int{false: {4, 3, 5}, true: {4, 5, 3}} {
		b := preset(t, PresetPaper, func(o *Options) { o.MorePositives = more })
		same(t, "order of counts", b.strict(), want)
	}
	target := .375
	same(t, "a target of one's own", preset(t, PresetPaper, func(o *Options) { o.Target = &target }).strict(), []int{3, 4, 5})
}

func TestEdgeH(t *testing.T) { // ties are broken by index; shorter comes first unless told otherwise
	all := tape("++++++++--------")
	d := play(t, preset(t, PresetPaper), all)
	same(t, "by index", d.Group.Members, []int{0, 1, 2, 3, 8, 9, 10, 11})
	for i := range all {
		all[i].Length = int64(100 - i)
	}
	d = play(t, preset(t, PresetPaper), all)
	same(t, "shortest", d.Group.Members, []int{4, 5, 6, 7, 12, 13, 14, 15})
	d = play(t, preset(t, PresetPaper, func(o *Options) { o.IgnoreLength = true }), all)
	same(t, "length ignored", d.Group.Members, []int{0, 1, 2, 3, 8, 9, 10, 11})
	// With truncated ones usable, a completed one goes before a shorter truncated one.
	all = tape("TTTT++FF--------")
	all[0].Length, all[4].Length, all[5].Length = 1, 50, 60
	for i := 1; i < 4; i++ {
		all[i].Length = 2
	}
	usable := func(o *Options) { o.TruncatedUsable = true }
	d = play(t, preset(t, PresetPaper, usable), all)
	same(t, "completed first", d.Group.Members, []int{0, 1, 4, 5, 8, 9, 10, 11})
	// And without, it is in no group.
	d = play(t, preset(t, PresetPaper), all)
	if split(d.Group) != "2/6" || slices.Contains(d.Group.Members, 0) {
		t.Errorf("truncated: %+v", d)
	}
}

func TestEdgeI(t *testing.T) { // rewards of 0 and below are negative
	for _, r := range []float64{0, -1, -.25} {
		all := tape("+++++---")
		for i := 5; i < 8; i++ {
			all[i].Reward = &r
		}
		d := play(t, FixedN{N: 8}, all)
		if split(d.Group) != "5/3" || d.Tally != (Tally{5, 3, 0}) {
			t.Errorf("reward %v: %+v", r, d)
		}
	}
}

func TestEdgeJ(t *testing.T) { // a null reward is no reward, whatever the status
	for _, letters := range []string{"++++????????????", "????????++++????"} {
		d := play(t, preset(t, PresetPaper), tape(letters))
		if d.Group != nil || d.Reason != FewUsable || d.Tally != (Tally{4, 0, 12}) {
			t.Errorf("%s: %+v", letters, d)
		}
	}
	if d := play(t, preset(t, PresetPaper), tape("++++----????????")); split(d.Group) != "4/4" {
		t.Errorf("%+v", d)
	}
}

func TestEdgeK(t *testing.T) { // what is in flight is for nobody when a group is there, and only then
	b := preset(t, PresetOrchard)
	all := tape("++--++--+-+-+-+-")
	if d := next(t, b, all[:4]); d.Over() {
		t.Errorf("in mid-way: %+v", d)
	}
	if d := next(t, b, all[:8]); !d.Over() {
		t.Errorf("with a group: %+v", d)
	}
	if d := next(t, b, tape(strings.Repeat("a", 16))); !d.Over() {
		t.Errorf("after a drop: %+v", d)
	}
	// What was generated ahead changes nothing, be it shorter or sooner.
	for i := range all {
		all[i].Length = int64(100 - i)
	}
	same(t, "ahead", next(t, b, all), next(t, b, all[:8]))
}

func TestEdgeL(t *testing.T) { // resume in mid-stride asks only for what is missing
	b := preset(t, PresetOrchard)
	all := tape("+++-+++--+-+-+-+")
	d := next(t, b, []Sample{all[6], all[0], all[2], all[1], all[3], all[4]})
	same(t, "need", d.Need, []int{5, 7})
	// Gaps in an earlier stride come first, whatever there is of later ones.
	d = next(t, b, []Sample{all[0], all[3], all[9], all[5]})
	same(t, "need", d.Need, []int{1, 2})
	// Wherever it was killed, whatever had ended: the same in the end.
	want := play(t, b, all)
	r := rand.New(rand.NewPCG(7, 7))
	for range 500 {
		ended := shuffled(r, all)[:r.IntN(17)]
		for d := next(t, b, ended); !d.Over(); d = next(t, b, ended) {
			i := d.Need[r.IntN(len(d.Need))]
			if slices.ContainsFunc(ended, func(s Sample) bool { return s.Index == i }) {
				t.Fatalf("sample %d is asked for again", i)
			}
			ended = append(ended, all[i])
		}
		same(t, "resumed", next(t, b, ended), want)
	}
}

func TestEdgeM(t *testing.T) { // the order of a group says nothing of its rewards
	d := play(t, preset(t, PresetPaper), tape("-+--++-+-+-+-+-+"))
	if !slices.IsSorted(d.Group.Members) || !slices.IsSorted(d.Group.Positives) {
		t.Errorf("%+v", d.Group)
	}
	for i, m := range d.Group.Members {
		if (d.Group.Rewards[i] > 0) != slices.Contains(d.Group.Positives, m) {
			t.Errorf("rewards are not the members': %+v", d.Group)
		}
	}
}
