package rules

import (
	"fmt"
	"strings"
	"testing"

	"orchard/datasets/record"
)

// diff is a patch of n lines to a file.
func diff(name string, n int) record.Text {
	return record.Text{Value: fmt.Sprintf("diff --git a/%[1]s b/%[1]s\n--- a/%[1]s\n+++ b/%[1]s\n@@ -0,0 +1,%[2]d @@\n%[3]s", name, n, strings.Repeat("+x\n", n))}
}

// sound is a task that no ready rule of a SWE set has anything against.
func sound() record.Task {
	return record.Task{
		TaskID: "t", Language: "python", Image: "i", Statement: strings.Repeat("word ", 20), FailToPass: []string{"a"}, PassToPass: []string{},
		GoldPatch: diff("src/contest.py", 3), TestPatch: diff("tests/test_x.py", 3),
		Raw: `{"meta":{"llm_metadata":{"detected_issues":{"B1":false,"B2":false,"B3":false,"B4":false,"B5":false,"B6":false},"difficulty":"medium"}}}`,
	}
}

// What the ready rule files leave out, each by a row that has one fault.
func TestReadyRules(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sets  string // of the ready rule files
		fault func(*record.Task)
		want  string
	}{
		{"swe-rebench swe-rebench-v2 scale-swe", func(*record.Task) {}, ""},
		{"swe-rebench swe-rebench-v2 scale-swe", func(t *record.Task) { t.Language = "go" }, "not_python"},
		{"swe-rebench swe-rebench-v2 scale-swe", func(t *record.Task) { t.Language = "" }, "not_python?"},
		{"swe-rebench swe-rebench-v2 scale-swe", func(t *record.Task) { t.FailToPass = []string{} }, "no_fail_to_pass"},
		{"swe-rebench swe-rebench-v2 scale-swe", func(t *record.Task) { t.GoldPatch = record.Text{} }, "no_gold_patch"},
		{"swe-rebench swe-rebench-v2 scale-swe", func(t *record.Task) { t.GoldPatch.Value = "no patch" }, "no_gold_patch?"},
		{"swe-rebench swe-rebench-v2 scale-swe", func(t *record.Task) { t.GoldPatch = diff("src/x.py", 1001) }, "patch_too_large"},
		{"swe-rebench swe-rebench-v2 scale-swe", func(t *record.Task) { t.GoldPatch = diff("src/x.py", 1000) }, ""},
		{"swe-rebench", func(t *record.Task) { t.GoldPatch = diff("pkg/tests/helper.py", 3) }, "only_tests_changed"},
		{"swe-rebench", func(t *record.Task) { t.GoldPatch = diff("test_x.py", 3) }, "only_tests_changed"},
		{"swe-rebench scale-swe", func(t *record.Task) { t.Statement = strings.Repeat("word ", 19) }, "statement_too_short"},
		{"swe-rebench", func(t *record.Task) { t.PassToPass = make([]string, 5000) }, "too_many_tests"},
		{"swe-rebench-v2", func(t *record.Task) { t.Raw = strings.Replace(t.Raw, `"B3":false`, `"B3":true`, 1) }, "issue_b3"},
		{"swe-rebench-v2", func(t *record.Task) { t.Raw = strings.Replace(t.Raw, "medium", "Very hard", 1) }, "too_difficult"},
		{"swe-rebench-v2", func(t *record.Task) { t.Raw = `{"meta":{}}` }, ""},
		{"scale-swe", func(t *record.Task) { t.TestPatch = record.Text{} }, "no_tests"},
		{"scale-swe", func(t *record.Task) { t.TestPatch, t.Raw = record.Text{}, `{"f2p_script":"def test(): pass"}` }, ""},
		{"scale-swe", func(t *record.Task) { t.Image = "" }, "no_image"},
	} {
		for name := range strings.FieldsSeq(c.sets) {
			b, _ := ReadyFile(name)
			p, err := Load(name, b, nil, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			row, got := sound(), ""
			c.fault(&row)
			for _, s := range p.Steps {
				d, err := s.Decide(p.Row(&row))
				if err != nil {
					t.Fatal(err)
				}
				if d.Drop {
					got = s.Name
					if d.Unknown {
						got += "?"
					}
					break
				}
			}
			if got != c.want {
				t.Errorf("%s: dropped by %q, want %q", name, got, c.want)
			}
		}
	}
}
