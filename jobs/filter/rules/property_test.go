package rules

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"orchard/datasets/record"
)

// Any expression of &&, || and ! over what is true, false and absent has the answer of
// three-valued logic, worked out here as the least and the greatest of numbers.
func TestThreeValuedLogic(t *testing.T) {
	t.Parallel()
	row := record.Task{TaskID: "t", Repo: "o/r"}
	rapid.Check(t, func(t *rapid.T) {
		var expression func(depth int) (text string, value float64)
		expression = func(depth int) (string, float64) {
			op := 0
			if depth > 0 {
				op = rapid.IntRange(0, 5).Draw(t, "op")
			}
			switch op {
			case 0, 1, 2:
				atom := rapid.SampledFrom([]struct {
					text  string
					value float64
				}{{`repo == "o/r"`, 1}, {`repo == "x"`, 0}, {`language == "go"`, .5}, {`raw.a > 1`, .5}, {`has(language)`, 0}, {`task_id in ["t"]`, 1}}).Draw(t, "atom")
				return atom.text, atom.value
			case 3:
				text, value := expression(depth - 1)
				return rapid.SampledFrom([]string{"!", "not "}).Draw(t, "not") + "(" + text + ")", 1 - value
			}
			a, x := expression(depth - 1)
			b, y := expression(depth - 1)
			if op == 4 {
				return fmt.Sprintf("(%s) %s (%s)", a, rapid.SampledFrom([]string{"&&", "and"}).Draw(t, "and"), b), min(x, y)
			}
			return fmt.Sprintf("(%s) %s (%s)", a, rapid.SampledFrom([]string{"||", "or"}).Draw(t, "or"), b), max(x, y)
		}
		text, value := expression(4)
		p, err := loaded(rule(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		want := map[float64]answer{0: no, .5: dontKnow, 1: yes}[value]
		if got, _, err := p.Steps[0].cond.ask(p.Row(&row)); err != nil || got != want {
			t.Fatalf("%s: %d, %v; want %d", text, got, err, want)
		}
	})
}

// count_by counts the rows it was shown, whatever their order, and those without a key
// are unknown.
func TestCountBy(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		urls := rapid.SliceOf(rapid.SampledFrom([]string{"", "https://a.com", "http://www.A.com:80/x", "b.com", "x.b.com.", "c.org"})).Draw(t, "urls")
		sites := map[string]string{"https://a.com": "a", "http://www.A.com:80/x": "a", "b.com": "b", "x.b.com.": "b", "c.org": "c"}
		least := rapid.IntRange(1, 4).Draw(t, "least")
		p, err := loaded(rule(fmt.Sprintf("count_by(site(start_url)) >= %d", least), "absent: drop"))
		if err != nil {
			t.Fatal(err)
		}
		rows := make([]*Row, len(urls))
		for i, u := range urls {
			rows[i] = p.Row(&record.Task{TaskID: fmt.Sprint(i), Goal: &record.Goal{Kind: record.GoalWeb, StartURL: u}})
			if err := p.Steps[0].Tally(rows[i]); err != nil {
				t.Fatal(err)
			}
		}
		for i, u := range urls {
			n := 0
			for _, v := range urls {
				if sites[u] != "" && sites[u] == sites[v] {
					n++
				}
			}
			d, err := p.Steps[0].Decide(rows[i])
			if err != nil || d.Drop != (n < least) || d.Unknown != (u == "") {
				t.Fatalf("%q of %v: %+v, %v; there are %d", u, urls, d, err, n)
			}
		}
	})
}
