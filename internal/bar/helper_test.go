package bar

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func reward(x float64) *float64 { return &x }

// tape reads one letter a sample: + positive, - negative (0), ? completed without reward,
// t truncated without reward, T truncated and positive, F truncated and negative,
// x time exceeded, a aborted, A aborted with a reward of 1.
func tape(letters string) []Sample {
	var list []Sample
	for i, c := range letters {
		s := Sample{Index: i, Status: Completed}
		switch c {
		case '+':
			s.Reward = reward(1)
		case '-':
			s.Reward = reward(0)
		case '?':
		case 't':
			s.Status = Truncated
		case 'T':
			s.Status, s.Reward = Truncated, reward(1)
		case 'F':
			s.Status, s.Reward = Truncated, reward(0)
		case 'x':
			s.Status = TimeExceeded
		case 'a':
			s.Status = Aborted
		case 'A':
			s.Status, s.Reward = Aborted, reward(1)
		default:
			panic(fmt.Sprintf("letter %c", c))
		}
		list = append(list, s)
	}
	return list
}

// mixed is a tape with so many of each letter, spread out.
func mixed(positive, negative int) string {
	letters := []byte(strings.Repeat("+", positive) + strings.Repeat("-", negative))
	rand.New(rand.NewPCG(1, uint64(positive))).Shuffle(len(letters), func(i, j int) { letters[i], letters[j] = letters[j], letters[i] })
	return string(letters)
}

func preset(t testing.TB, name string, change ...func(*Options)) BAR {
	t.Helper()
	o, err := Preset(name)
	for _, f := range change {
		f(&o)
	}
	b, err2 := New(o)
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	return b
}

func next(t testing.TB, s Strategy, samples []Sample) Decision {
	t.Helper()
	d, err := s.Next(samples)
	if err != nil {
		t.Fatalf("%v: %v", s, err)
	}
	set := 0
	for _, is := range []bool{len(d.Need) > 0, d.Group != nil, d.Reason != ""} {
		if is {
			set++
		}
	}
	if set != 1 || d.Tally.Positive+d.Tally.Negative+d.Tally.Unusable != d.Used {
		t.Fatalf("%v: not one decision: %+v", s, d)
	}
	return d
}

// play drives a strategy as a plain driver would: it starts what is needed, waits for all of
// it, and asks again.
func play(t testing.TB, s Strategy, all []Sample) Decision {
	t.Helper()
	var ended []Sample
	for {
		d := next(t, s, ended)
		if d.Over() {
			return d
		}
		for _, i := range d.Need {
			ended = append(ended, all[i])
		}
	}
}

// split is how many members of a group are positive and how many not.
func split(g *Group) string {
	if g == nil {
		return "none"
	}
	return fmt.Sprintf("%d/%d", len(g.Positives), len(g.Members)-len(g.Positives))
}

func same(t testing.TB, what string, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func shuffled(r *rand.Rand, list []Sample) []Sample {
	list = slices.Clone(list)
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}
