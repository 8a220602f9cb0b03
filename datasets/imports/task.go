package imports

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/bluekeyes/go-gitdiff/gitdiff"

	"orchard/datasets/record"
	"orchard/internal/seal"
)

// DefaultWorkdir is where a task's repository lies when its row does not say.
const DefaultWorkdir = "/testbed"

// Parsed is a row that was understood. Texts are as in the row and may not be UTF-8.
type Parsed struct {
	Task    record.Task     // without RepoBlob and Digest; zero when Rollout is set
	Rollout *record.Rollout // nil for a task
	Place   string
	File    string
	Repo    *RepoRef       // of a task; nil when the image has the repository
	Row     map[string]any // all columns
}

var hexCommit = regexp.MustCompile(`^[0-9a-f]{7,40}$`)

// Parse says what a row of the format tasks means. source names the task set of rows
// that do not name it. The problem, if any, has place and id.
func Parse(row Row, source string) (Parsed, *Problem) { return Tasks.Parse(row, source) }

// parseTask reads a task that tests in its repository decide.
func parseTask(r *reader) (t record.Task, repo *RepoRef) {
	t = record.Task{
		TaskID:     r.need(colID),
		Repo:       r.need(colRepo),
		BaseCommit: strings.ToLower(r.need(colBase)),
		Statement:  r.need(colStatement),
		Hints:      r.text(colHints),
		Language:   strings.ToLower(r.text(colLanguage)),
		Version:    r.text(colVersion),
		CreatedAt:  r.time(colCreated),
		FailToPass: r.list(colF2P, false),
		PassToPass: r.list(colP2P, false),
		Workdir:    r.text(colWorkdir),
		Image:      r.text(colImage),
		TimeoutMS:  r.timeout(),
		Source:     r.text(colSource),
	}
	if t.Workdir == "" {
		t.Workdir = DefaultWorkdir
	}
	t.Workdir = path.Clean(t.Workdir)
	gold := r.patch(colPatch, r.needExact(colPatch))
	test := r.patch(colTestPatch, r.exact(colTestPatch))
	t.GoldPatch, t.TestPatch = gold.text, test.text
	repo = r.repo()
	r.commands(&t, append(gold.files, test.files...))
	r.check(t)
	return t, repo
}

// check is what must hold of a task as a whole.
func (r *reader) check(t record.Task) {
	r.checkID(t.TaskID)
	switch {
	case !hexCommit.MatchString(t.BaseCommit) && !(r.soft && hexCommit.MatchString(strings.TrimSuffix(t.BaseCommit, "^"))):
		r.fail(colBase[0], "%s must be a commit id of 7 to 40 hex digits", shown(t.BaseCommit))
	case !path.IsAbs(t.Workdir) || t.Workdir == "/" || t.Workdir != printable(t.Workdir):
		r.fail(colWorkdir[0], "%s must be the absolute path of a folder in the sandbox, which is not /", shown(t.Workdir))
	case len(t.FailToPass) == 0 && !(r.soft && len(t.PassToPass) > 0):
		r.fail(colF2P[0], "is missing or empty; without a test that has to pass nothing can be graded")
	case slices.Contains(t.FailToPass, "") || slices.Contains(t.PassToPass, ""):
		r.fail(colF2P[0], "holds an empty test name")
	}
}

func (r *reader) checkID(id string) {
	if len(id) > 200 || id != printable(id) {
		r.fail(colID[0], "%s must be at most 200 printable characters", shown(id))
	}
}

func printable(s string) string {
	return strings.TrimSpace(strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) {
			return c
		}
		return -1
	}, s))
}

// patch is a diff and the files it changes.
type patch struct {
	text  record.Text
	files []string
}

func (r *reader) patch(c column, s string) patch {
	p := patch{text: record.Text{Value: s, Bytes: int64(len(s))}}
	if strings.TrimSpace(s) == "" {
		return p
	}
	files, _, err := gitdiff.Parse(strings.NewReader(s))
	switch {
	case err != nil:
		r.fail(c[0], "does not parse as a diff: %v", err)
	case len(files) == 0:
		r.fail(c[0], "changes no file; it must be a diff as git diff writes it")
	}
	for _, f := range files {
		if f.NewName != "" {
			p.files = append(p.files, f.NewName)
		} else {
			p.files = append(p.files, f.OldName)
		}
	}
	return p
}

func (r *reader) time(c column) *time.Time {
	v, name := c.in(r.values)
	t, err := asTime(v)
	if err != nil {
		r.fail(name, "%v", err)
	}
	return t
}

var timeouts = []struct {
	name string
	unit time.Duration
}{{"timeout", time.Second}, {"timeout_s", time.Second}, {"timeout_sec", time.Second}, {"timeout_seconds", time.Second}, {"timeout_ms", time.Millisecond}}

// timeout is the time of all test commands together, in milliseconds.
func (r *reader) timeout() int64 {
	for _, t := range timeouts {
		if v := r.values[t.name]; v != nil {
			d, err := asDuration(v, t.unit)
			if err != nil {
				r.fail(t.name, "%v", err)
			}
			return d.Milliseconds()
		}
	}
	return 0
}

// Seal sets the task's digest; call it when RepoBlob is known and nothing will change.
func Seal(t *record.Task) error {
	bare := *t
	bare.Raw, bare.Digest = "", ""
	var err error
	t.Digest, err = seal.Sum(bare)
	return err
}
