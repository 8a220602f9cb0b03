package report

import (
	"bytes"
	"encoding/json"
	"html"
	"regexp"
	"strings"
	"testing"

	"orchard/datasets/record"
)

func pageOf(t *testing.T, rollouts ...record.Rollout) string {
	t.Helper()
	s, kept := NewSummary(), &samples{}
	for _, r := range rollouts {
		s.Add(r)
		kept.add(view(r))
	}
	var b bytes.Buffer
	if err := writePage(&b, "Rollouts", s, kept.list()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// What a policy, a sandbox or a task set says is data in the page and in the script
// files, never markup or code.
func TestNothingSaidIsMarkup(t *testing.T) {
	t.Parallel()
	calm, wild := pageOf(t, rollout("t", 0, record.Resolved)), pageOf(t, evil(0, record.Resolved))
	tags := regexp.MustCompile(`<[/!a-zA-Z][a-zA-Z0-9]*`)
	seen := map[string]bool{}
	for _, tag := range tags.FindAllString(calm, -1) {
		seen[tag] = true
	}
	for _, tag := range tags.FindAllString(wild, -1) {
		if !seen[tag] {
			t.Errorf("what was said became the tag %q", tag)
		}
	}
	if c, w := strings.Count(calm, "<script"), strings.Count(wild, "<script"); c != w || strings.Count(wild, "</script") != w {
		t.Errorf("%d script elements, want %d", w, c)
	}
	if head := wild[strings.Index(wild, "<header>"):strings.Index(wild, "<table")]; strings.ContainsAny(head, "\u202e\x1b\x00") {
		t.Error("what was said turns round or steers the text beside it")
	}
	js, err := script("add", []trajectory{view(evil(0, record.Resolved))})
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"<", "\u2028", "\u2029", "\x1b", "\x00"} {
		if bytes.Contains(js, []byte(bad)) {
			t.Errorf("the script file holds %q", bad)
		}
	}
}

// The page's policy allows its own script and sheet by their hashes, so that a browser
// refuses all others; a hash that does not fit would leave an empty page.
func TestPolicyAllowsThePageAlone(t *testing.T) {
	t.Parallel()
	text := pageOf(t, evil(0, record.Unresolved))
	policy := html.UnescapeString(regexp.MustCompile(`Content-Security-Policy" content="([^"]*)"`).FindStringSubmatch(text)[1])
	if strings.Contains(policy, "unsafe") || !strings.HasPrefix(policy, "default-src 'none';") {
		t.Errorf("policy %s", policy)
	}
	for directive, element := range map[string]string{"style-src": "style", "script-src": "script"} {
		inline := regexp.MustCompile(`(?s)<`+element+`>(.*?)</`+element+`>`).FindAllStringSubmatch(text, -1)
		if len(inline) != 1 || !strings.Contains(policy, directive+" '"+hash(inline[0][1])+"'") {
			t.Errorf("%s: %d elements, policy %s", directive, len(inline), policy)
		}
	}
	text = pageOf(t, rollout("t", 0, record.Resolved))
	body := text[strings.Index(text, "</head>"):]
	body = body[:strings.Index(body, "<script>")]
	if found := regexp.MustCompile(`(?i)<[^>]*\s(on\w+|style)=`).FindString(body); found != "" {
		t.Errorf("the policy refuses %q", found)
	}
	if found := regexp.MustCompile(`(?i)(src|href)="(\w+:)?//`).FindString(text); found != "" {
		t.Errorf("the page asks another place: %q", found)
	}
}

// The page holds one sample an outcome, and not the longest.
func TestSamples(t *testing.T) {
	t.Parallel()
	large, larger, small, other := rollout("a", 0, record.Resolved), rollout("b", 0, record.Resolved), rollout("c", 0, record.Resolved), rollout("d", 0, "new")
	large.Trajectory.Messages[0].Content = strings.Repeat("x", mostText)
	large.Trajectory.Messages[1].Content = strings.Repeat("x", mostText)
	larger.Trajectory.Messages = append(larger.Trajectory.Messages, large.Trajectory.Messages...)
	s := &samples{}
	for _, c := range []struct {
		add  record.Rollout
		want string
	}{{larger, "b-0"}, {large, "a-0"}, {larger, "a-0"}, {small, "c-0"}, {rollout("e", 0, record.Resolved), "c-0"}, {other, "c-0"}} {
		s.add(view(c.add))
		if got := s.list()[0].ID; got != c.want {
			t.Errorf("after %s the sample is %s, want %s", c.add.RolloutID, got, c.want)
		}
	}
	if list := s.list(); len(list) != 2 || list[1].ID != "d-0" {
		t.Errorf("samples %v", list)
	}
}

func TestViewShowsWhatThePolicyDidNotSee(t *testing.T) {
	t.Parallel()
	v := view(rollout("t", 0, record.Unresolved))
	if got := v.Steps[1].Actions[0].Output; got != "" {
		t.Errorf("an answered call repeats its output %q", got)
	}
	if got := v.Steps[2].Actions[0].Output; got != "handed in" {
		t.Errorf("the last output is %q", got)
	}
	b, err := json.Marshal(view(record.Rollout{}))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.ReplaceAll(strings.ReplaceAll(string(b), `"reward":null`, ""), `"tokens":null`, ""); strings.Contains(got, "null") {
		t.Errorf("a list is null: %s", got)
	}
}

func TestClip(t *testing.T) {
	t.Parallel()
	if got := clip("äöü", 6); got != "äöü" {
		t.Errorf("short text became %q", got)
	}
	if got, want := clip("äöüäöü", 6), "ä\n[8 bytes left out here; the dataset has them]\nü"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	long := rollout("t", 0, record.Resolved)
	long.Trajectory.Messages = nil
	for range 1000 {
		long.Trajectory.Messages = append(long.Trajectory.Messages, record.Message{Content: strings.Repeat("x", 1<<20)})
	}
	if n := view(long).size(); n > 2*mostTrajectory {
		t.Errorf("a trajectory takes %d bytes", n)
	}
	cut := view(record.Rollout{Trajectory: record.Trajectory{Diff: record.Text{Value: "+x", Blob: "abc", Bytes: 9}}})
	if !strings.Contains(cut.Diff, "all 9 bytes are blob abc") {
		t.Errorf("diff %q hides that it is a part", cut.Diff)
	}
}

func TestFilesAreSplitByBytes(t *testing.T) {
	t.Parallel()
	files := map[string][]byte{}
	s := &scripts{put: func(name string, b []byte) error { files[name] = b; return nil }}
	for _, task := range []string{"d", "c", "b", "a", "a"} {
		r := view(rollout(task, int64(len(s.index)), record.Resolved))
		r.Diff = strings.Repeat("x", batchBytes*2/3)
		if err := s.add(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	if len(files) != 4 || files["trajectories-00002.js"] == nil {
		t.Errorf("%d files", len(files))
	}
	var index [][]any
	text := string(files["index.js"])
	if err := json.Unmarshal([]byte(strings.TrimSuffix(strings.TrimPrefix(text, "orchard.index("), ");\n")), &index); err != nil {
		t.Fatalf("index %s: %v", text, err)
	}
	var order []string
	for _, e := range index {
		order = append(order, e[0].(string))
		if file := scriptName(int(e[9].(float64))); !bytes.Contains(files[file], []byte(`"id":"`+e[0].(string)+`"`)) {
			t.Errorf("%s is not in %s", e[0], file)
		}
	}
	if got := strings.Join(order, " "); got != "a-3 a-4 b-2 c-1 d-0" {
		t.Errorf("order %s", got)
	}
}
