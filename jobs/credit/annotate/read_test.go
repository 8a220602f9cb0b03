package annotate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const good = `[{"step": 0, "probability": 0.4, "reasoning": "a"}, {"step": 3, "probability": 0.6, "reasoning": "b"}, {"step": 9, "probability": 0.1, "reasoning": "c"}]`

func points(p ...any) string {
	var b strings.Builder
	for i := 0; i < len(p); i += 2 {
		fmt.Fprintf(&b, `{"step": %v, "probability": %v},`, p[i], p[i+1])
	}
	return "[" + strings.TrimSuffix(b.String(), ",") + "]"
}

func TestReadTakes(t *testing.T) {
	t.Parallel()
	want := []Key{{0, .4, ""}, {3, .6, ""}, {9, .1, ""}}
	for name, answer := range map[string]string{
		"plain":               good,
		"fenced":              "Here it is:\n```json\n" + good + "\n```\nI hope [that] helps [1].",
		"the last of several": points(0, .3, 1, .9, 2, .1) + " no, rather\n" + good,
		"inside an object":    `{"critical_mistake": 4, "steps": ` + good + `}`,
		"after thoughts":      `<think>Maybe [{"step": 0, "probability": 0.5}, …] hm "</think>` + good,
		"an empty one after":  good + "\n[]",
		"trailing commas":     `[{"step": 0, "probability": 0.4,}, {"step": 3, "probability": 0.6}, {"step": 9, "probability": 0.1},]`,
		"strings":             points(`"0"`, `"0.4"`, `" 3 "`, `".6"`, `"9"`, `"0.1"`),
		"percentages":         points(0, 40, 3, 60, 9, 10),
		"percent signs":       points(0, `"40%"`, 3, `"60 %"`, 9, `10%`),
		"signs and fractions": points(0, `"40%"`, 3, .6, 9, .1),
		"unsorted":            points(9, .1, 0, .4, 3, .6),
		"the later counts":    points(0, .9, 3, .6, 9, .7, 0, .4, 9, .1),
		"more than asked for": `[{"step":0,"probability":0.4,"evidence":[{"x":[1,2]}]},{"step":3.0,"probability":6e-1,"note":null},{"step":9,"probability":0.1,"ok":true}]`,
		"a line break inside": "[{\"step\":0,\"probability\":0.4,\"note\":\"a\nb\"},{\"step\":3,\"probability\":0.6},{\"step\":9,\"probability\":0.1}]",
	} {
		got, err := Read(answer, 10)
		for i := range got {
			got[i].Reasoning = ""
		}
		if err != nil || !slices.EqualFunc(want, got, func(a, b Key) bool { return a.Step == b.Step && a.P-b.P < 1e-12 && b.P-a.P < 1e-12 }) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	got, err := Read(good, 10)
	if d := cmp.Diff([]Key{{0, .4, "a"}, {3, .6, "b"}, {9, .1, "c"}}, got); d != "" || err != nil {
		t.Errorf("%v %s", err, d)
	}
	for _, edge := range []string{points(0, .3, 1, .5, 2, .19), points(0, .5, 1, 1, 2, 0), points(0, 30, 1, 100, 2, 1)} {
		if _, err := Read(edge, 3); err != nil {
			t.Errorf("%s: %v", edge, err)
		}
	}
}

func TestReadRejects(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, answer, reason string }{
		{"nothing", "", NoArray},
		{"prose", "It began well, at about 40%, and failed at step 3.", NoArray},
		{"an array of numbers", "[0.4, 0.6, 0.1]", NoArray},
		{"not finished", strings.TrimSuffix(good, "]"), NoArray},
		{"finished in a string only", `[{"step": 0, "probability": "0.4}]`, NoArray},
		{"single quotes", strings.ReplaceAll(good, `"`, `'`), NoArray},
		{"empty", "[]", TooFew},
		{"no step", `[{"probability": 0.4}]`, BadEntry},
		{"half a step", points(0.5, .4, 1, .6, 2, .1), BadEntry},
		{"a step in words", points(`"step 1"`, .4, 1, .6, 2, .1), BadEntry},
		{"no probability", `[{"step": 0, "p": 0.4}]`, BadEntry},
		{"NaN", points(0, .4, 1, "NaN", 2, .1), NotANumber},
		{"NaN in a string", points(0, .4, 1, `"NaN"`, 2, .1), NotANumber},
		{"infinite", points(0, .4, 1, "-Infinity", 2, .1), NotANumber},
		{"too large to be one", points(0, .4, 1, "1e999", 2, .1), NotANumber},
		{"null", points(0, .4, 1, "null", 2, .1), NotANumber},
		{"true", points(0, .4, 1, "true", 2, .1), NotANumber},
		{"words", points(0, `"about 0.4"`, 1, .6, 2, .1), NotANumber},
		{"hexadecimal", points(0, `"0x1p-1"`, 1, .6, 2, .1), NotANumber},
		{"negative", points(0, .4, 1, -.1, 2, .1), OutOfRange},
		{"above 1 among fractions", points(0, .4, 1, 1.5, 2, .1), OutOfRange},
		{"above 100", points(0, 40, 1, 101, 2, 10), OutOfRange},
		{"above 100 %", points(0, .4, 1, `"101%"`, 2, .1), OutOfRange},
		{"both scales", points(0, .4, 1, 60, 2, .1), OutOfRange},
		{"step below 0", points(-1, .4, 1, .6, 2, .1), BadStep},
		{"step beyond the end", points(0, .4, 1, .6, 10, .1), BadStep},
		{"two", points(0, .4, 1, .1), TooFew},
		{"three, two of them the same", points(0, .4, 1, .6, 1, .1), TooFew},
		{"rises only", points(0, .3, 1, .5, 2, .9), Monotone},
		{"stays", points(0, .4, 1, .4, 2, .4), Monotone},
		{"begins low", points(0, .29, 1, .6, 2, .1), BadStart},
		{"begins high", points(0, .51, 1, .6, 2, .1), BadStart},
		{"ends high", points(0, .4, 1, .6, 2, .2), BadEnd},
	} {
		_, err := Read(c.answer, 10)
		var r *Reject
		if !errors.As(err, &r) || r.Reason != c.reason {
			t.Errorf("%s: %v, want %s", c.name, err, c.reason)
		} else if r.Detail == "" || !slices.Contains(Reasons, r.Reason) {
			t.Errorf("%s: says %q", c.name, r.Detail)
		}
	}
}

// What is taken keeps every rule, whatever stands around it; what is written by the rules
// is taken.
func TestReadFindsWhatIsThere(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(3, 50).Draw(t, "n")
		steps := rapid.SliceOfNDistinct(rapid.IntRange(0, n-1), 3, n, rapid.ID[int]).Draw(t, "steps")
		order := slices.Sorted(slices.Values(steps))
		var b strings.Builder
		want := map[int]float64{}
		for _, s := range steps {
			p := rapid.Float64Range(0, 1).Draw(t, "p")
			switch s {
			case order[0]:
				p = rapid.Float64Range(.3, .5).Draw(t, "first")
			case order[len(order)-1]:
				p = rapid.Float64Range(0, .19).Draw(t, "last")
			}
			want[s] = p
			fmt.Fprintf(&b, `{"step":%d,"probability":%v,"reasoning":%q},`, s, p, rapid.StringMatching(`[a-z\[\]{}", ]{0,9}`).Draw(t, "reasoning"))
		}
		around := rapid.StringMatching(`[a-z"'\[{}: 0-9]{0,12}`)
		keys, err := Read(around.Draw(t, "before")+"\n["+b.String()+"]"+around.Draw(t, "after"), n)
		if err != nil || len(keys) != len(want) {
			t.Fatalf("%v, %v", keys, err)
		}
		for i, k := range keys {
			if want[k.Step] != k.P || k.Step != order[i] {
				t.Fatalf("key %d is %+v, want %v at %d", i, k, want[k.Step], order[i])
			}
		}
	})
}

func FuzzRead(f *testing.F) {
	for _, s := range []string{good, "```json\n" + good + "\n```", "[]", "[[[{", `[{"step":"1","probability":"45%"},]`, `[{"a":[{"a":[{"a":`, "[{\"step\":NaN}]", `[{"\ud800":1}]`} {
		f.Add(s, 10)
	}
	f.Fuzz(func(t *testing.T, answer string, n int) {
		keys, err := Read(answer, n)
		var r *Reject
		if err != nil && !errors.As(err, &r) {
			t.Fatalf("an error that is no reject: %v", err)
		}
		if err != nil {
			return
		}
		if len(keys) < FewestKeys || !(keys[0].P >= .3-1e-6 && keys[0].P <= .5+1e-6) || !(keys[len(keys)-1].P < EndBelow) {
			t.Fatalf("%q gives %v", answer, keys)
		}
		for i, k := range keys {
			if !(k.P >= 0 && k.P <= 1) || k.Step < 0 || k.Step >= n || i > 0 && k.Step <= keys[i-1].Step {
				t.Fatalf("%q gives %v", answer, keys)
			}
		}
	})
}
