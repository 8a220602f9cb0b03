package predictions

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestForms(t *testing.T) {
	t.Parallel()
	const a, b = `"model_name_or_path": "m", "model_patch": "diff\n+x\n"`, `"model_name_or_path": "m", "patch": null, "cost": 3`
	for name, content := range map[string]string{
		"list":              `[{"instance_id": "a", ` + a + `}, {"instance_id": "b", ` + b + `}]`,
		"map":               `{"a": {` + a + `}, "b": {"instance_id": "b", ` + b + `}}`,
		"lines":             `{"instance_id": "a", ` + a + `}` + "\n\n" + `{"instance_id": "b", ` + b + `}` + "\r\n",
		"byte order mark":   "\ufeff" + ` [{"instance_id": "a", ` + a + `}, {"instance_id": "b", ` + b + `}] `,
		"lines, last open":  `{"instance_id": "a", ` + a + `}` + "\n" + `{"instance_id": "b", ` + b + `}`,
		"a map like a line": "{\n\"a\": {" + a + "},\n\"b\": {" + b + "}\n}\n",
	} {
		var s Set
		if err := s.Add("f", []byte(content)); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		p, q := s.Of("m", "a"), s.Of("m", "b")
		if s.Len() != 2 || p == nil || p.Patch != "diff\n+x\n" || p.Null || q == nil || q.Patch != "" || !q.Null || s.Of("m", "c") != nil {
			t.Errorf("%s: %+v", name, s.All())
		}
	}
	var one Set
	if err := one.Add("f", []byte(`{"instance_id": "a", `+a+`}`)); err != nil || one.Len() != 1 {
		t.Errorf("a single line: %v, %+v", err, one.All())
	}
}

func TestWhatIsWrongIsNamed(t *testing.T) {
	t.Parallel()
	const good = `{"instance_id": "a", "model_name_or_path": "m", "model_patch": ""}`
	for _, c := range []struct{ content, says string }{
		{"", "f: is empty"},
		{" \n", "f: is empty"},
		{"[]", "f: holds no predictions"},
		{"{}", "f: holds no predictions"},
		{"instance_id,model_patch\n", `f: is neither a JSON list, nor a JSON object, nor JSON lines; it begins with 'i'`},
		{"[" + good, "f: is no whole JSON, at byte "},
		{"[" + good + "] {}", "something follows"},
		{`{"a": {"model_name_or_path": "m", "model_patch"`, "f: is no whole JSON"},
		{good + "\n{\"instance_id\": \"b\"", "f:2: is no JSON"},
		{good + "\n[]", "f:2: is no object"},
		{"[3]", "f: prediction 1: is no object"},
		{"[null]", "f: prediction 1: is no object"},
		{`[{"model_name_or_path": "m", "model_patch": ""}]`, "f: prediction 1: instance_id: is missing"},
		{`[{"instance_id": 7, "model_name_or_path": "m", "model_patch": ""}]`, "f: prediction 1: instance_id: must be text, is 7"},
		{`{"a": {"instance_id": "b", "model_name_or_path": "m", "model_patch": ""}}`, `f: prediction "a": instance_id: is "b"`},
		{`[{"instance_id": "a", "model_patch": ""}]`, "f: prediction 1: model_name_or_path: is missing"},
		{`[{"instance_id": "a", "model_name_or_path": "m"}]`, "f: prediction 1: model_patch: is missing"},
		{`[{"instance_id": "a", "model_name_or_path": "m", "model_patch": ["x"]}]`, "model_patch: must be text"},
		{good + "\n" + good, `f:2: model "m" has a prediction for a already, at f:1; keep one`},
		{`{"a": {"model_name_or_path": "m", "model_patch": "1"}, "a": {"model_name_or_path": "m", "model_patch": "2"}}`, "has a prediction for a already"},
		{"[{\"instance_id\": \"a\xff\"}]", "f: is not UTF-8"},
	} {
		var s Set
		if err := s.Add("f", []byte(c.content)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%.60q: %v, want %q", c.content, err, c.says)
		}
	}
	var s Set
	if err := s.Add("f", []byte(good)); err != nil {
		t.Fatal(err)
	}
	if err := s.Add("g", []byte(good)); err == nil || !strings.Contains(err.Error(), "g: ") && !strings.Contains(err.Error(), "g:1") {
		t.Errorf("the same in two files: %v", err)
	}
}

// Whatever the patches are, the three forms say the same.
func TestFormsAgree(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		patches := rapid.SliceOfN(rapid.Ptr(rapid.String(), true), 1, 5).Draw(t, "patches")
		var list []map[string]any
		byID := map[string]any{}
		var lines []string
		for i, p := range patches {
			row := map[string]any{"instance_id": fmt.Sprint(i), "model_name_or_path": "m", "model_patch": p}
			list, byID[fmt.Sprint(i)] = append(list, row), row
			lines = append(lines, string(encode(t, row)))
		}
		var want []*string
		for _, content := range [][]byte{encode(t, list), encode(t, byID), []byte(strings.Join(lines, "\n"))} {
			var s Set
			if err := s.Add("f", content); err != nil {
				t.Fatal(err)
			}
			var got []*string
			for i := range patches {
				p := s.Of("m", fmt.Sprint(i))
				if p.Null {
					got = append(got, nil)
				} else {
					got = append(got, &p.Patch)
				}
			}
			if want = patches; cmp.Diff(want, got) != "" {
				t.Fatal(cmp.Diff(want, got))
			}
		}
	})
}

func encode(t *rapid.T, v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
