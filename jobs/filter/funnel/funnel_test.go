package funnel

import (
	"encoding/xml"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The paper's chain, and what each fault in it is called.
func TestArithmetic(t *testing.T) {
	t.Parallel()
	made := func() *Funnel {
		f := New("tasks")
		left := int64(292092)
		f.In = left
		for _, s := range []struct {
			name    string
			removed int64
		}{{"eval_overlap", 13840}, {"child_task", 23437}, {"webvoyager_intent", 411}, {"unpopular_site", 114349}} {
			step := f.Add(s.name, "because <it> | is")
			step.In, step.Removed[s.name] = left, s.removed
			left -= s.removed
			step.Out = left
		}
		f.Out = left
		return f
	}
	f := made()
	if err := f.Check(); err != nil || f.Out != 140055 {
		t.Fatalf("%v; %d out", err, f.Out)
	}
	for name, breaks := range map[string]func(*Funnel){
		"a row lost between steps": func(f *Funnel) { f.Steps[2].In-- },
		"a row removed twice":      func(f *Funnel) { f.Steps[1].Removed["child_task"]++ },
		"a row made up":            func(f *Funnel) { f.Out++ },
		"a row lost at the start":  func(f *Funnel) { f.In++ },
	} {
		f := made()
		breaks(f)
		if err := f.Check(); err == nil {
			t.Errorf("%s: nobody noticed", name)
		}
	}
	md := f.Markdown()
	for _, want := range []string{"| `eval_overlap` | 292,092 | 13,840 | 4.7% | 0 | 278,252 |", "| `unpopular_site` | 254,404 | 114,349 | 44.9% | 0 | 140,055 |", `because &lt;it> \| is`} {
		if !strings.Contains(md, want) {
			t.Errorf("no %s in\n%s", want, md)
		}
	}
}

// Any counting adds up, and the picture is XML without a request to anywhere.
func TestPicture(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := New(rapid.String().Filter(func(s string) bool {
			return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > 0xd7ff })
		}).Draw(t, "title"))
		for range rapid.IntRange(0, 5).Draw(t, "steps") {
			f.Add(rapid.StringMatching(`[a-z_]{1,40}`).Draw(t, "name"), "<&>")
		}
	rows:
		for range rapid.IntRange(0, 40).Draw(t, "rows") {
			f.In++
			for _, s := range f.Steps {
				if rapid.Bool().Draw(t, "drop") {
					s.Remove("r")
					continue rows
				}
				s.Pass()
			}
			f.Out++
		}
		if err := f.Check(); err != nil {
			t.Fatal(err)
		}
		svg := f.SVG()
		for d := xml.NewDecoder(strings.NewReader(svg)); ; {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%v in\n%s", err, svg)
			}
		}
		if strings.Contains(svg, "href") || strings.Contains(svg, "url(") || strings.Contains(svg, "NaN") {
			t.Fatal(svg)
		}
	})
}

func TestNumber(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1000: "-1,000", 292092: "292,092", 1234567: "1,234,567"} {
		if got := Number(n); got != want {
			t.Errorf("%d is %s", n, got)
		}
	}
}
