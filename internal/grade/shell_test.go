package grade

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orchard/datasets/record"
)

// shellProject has a bug in add.sh, and tests in TAP that need nothing but a shell.
var shellProject = project{
	files: map[string]string{
		"add.sh":      "echo $(($1 - $2))\n",
		"tests/old":   "old\n",
		"tests/t.sh":  "echo 1..1\n[ -f tests/old ] && echo 'ok 1 - keeps' || echo 'not ok 1 - keeps'\n",
		"conftest.py": "# shared\n",
	},
	gold: map[string]string{"add.sh": "echo $(($1 + $2))\n"},
	tests: map[string]string{"tests/t.sh": `echo 1..3
r() { if eval "$2"; then echo "ok $1 - $3"; else echo "not ok $1 - $3"; bad=1; fi; }
r 1 '[ -f tests/old ]' keeps
r 2 '[ "$(sh add.sh 2 3)" = 5 ]' adds
r 3 '[ "$(sh add.sh 0 -1)" = -1 ]' negative
exit ${bad:-0}
`},
	cmds: []string{"sh tests/t.sh"}, parser: "tap",
	f2p: []string{"adds", "negative"}, p2p: []string{"keeps"},
}

func TestGrade(t *testing.T) {
	t.Parallel()
	good := "echo $(($1 + $2))\n"
	tests := []struct {
		name    string
		files   map[string]string // what the policy makes of the base
		diff    string            // or its diff as text
		change  func(*record.Task)
		outcome record.Outcome
		reason  string
		dropped []string
		tests   map[string]string
		log     string
	}{
		{name: "gold", files: map[string]string{"add.sh": good}, outcome: record.Resolved, reason: "all 3 required tests passed",
			tests: map[string]string{"adds": "passed", "keeps": "passed", "negative": "passed"}, log: "ok 2 - adds"},
		{name: "empty", outcome: record.EmptyPatch},
		{name: "prose", diff: "I could not find it.\n", outcome: record.EmptyPatch},
		{name: "comment only", files: map[string]string{"add.sh": "# adds\necho $(($1 - $2))\n"}, outcome: record.Unresolved, reason: "adds failed",
			tests: map[string]string{"adds": "failed", "keeps": "passed", "negative": "failed"}},
		{name: "plausible and wrong", files: map[string]string{"add.sh": "echo $(($1 + $2 * ($2 > 0)))\n"}, outcome: record.Partial, reason: "negative failed"},
		{name: "breaks what worked", files: map[string]string{"add.sh": good, "tests/old": ""}, outcome: record.Unresolved, reason: "keeps failed"},
		{name: "does not apply", diff: "--- a/add.sh\n+++ b/add.sh\n@@ -1 +1 @@\n-other\n+x\n", outcome: record.PatchFailed, reason: "does not apply", log: "git-apply"},
		{name: "forged lines and markers", files: map[string]string{
			"add.sh": "echo '1..3\nok 1 - keeps\nok 2 - adds\nok 3 - negative\n<<<x:end 1 exit=0>>>\n>>>>> End Test Output\nPASSED' >/proc/$PPID/fd/1 2>/dev/null; echo $(($1 - $2))\n"},
			outcome: record.Unresolved, reason: "adds failed"},
		{name: "test file of its own in place of the task's", files: map[string]string{"tests/t.sh": "echo 1..3; echo ok 1 - keeps; echo ok 2 - adds; echo ok 3 - negative\n"},
			outcome: record.Unresolved, reason: "adds failed", dropped: []string{"tests/t.sh: the task's own tests replace it"}},
		{name: "runner configuration", files: map[string]string{"add.sh": good, "conftest.py": "evil\n", "new_test.go": "package evil\n"},
			outcome: record.Resolved, dropped: []string{"conftest.py: tests and their runner's configuration are the task's", "new_test.go: tests and their runner's configuration are the task's"}},
		{name: "changes the test file while it runs", files: map[string]string{"add.sh": "echo '#' >>tests/t.sh; echo $(($1 + $2))\n"},
			outcome: record.Unresolved, reason: "test files changed while the tests ran: tests/t.sh"},
		{name: "kills the runner after forging", files: map[string]string{"add.sh": "kill -9 $(cat /proc/$PPID/stat | cut -d' ' -f4); kill -9 $PPID\n"},
			outcome: record.Unresolved},
		{name: "a file where the tests were", files: map[string]string{"add.sh": good, "tests/t.sh": "", "tests/old": "", "tests": "a file\n"}, outcome: record.Unresolved, reason: "keeps failed",
			dropped: []string{"tests/t.sh: the task's own tests replace it"}},
		{name: "too slow", files: map[string]string{"add.sh": "sleep 600\n"}, outcome: record.TestTimeout, change: func(t *record.Task) { t.TimeoutMS = 3000 }},
		{name: "runner is not there", files: map[string]string{"add.sh": good}, outcome: record.NoTestsRan, change: func(t *record.Task) { t.TestCmds = []string{"no-such-runner"} }, reason: "no-such-runner"},
		{name: "the diff keeps the runner from starting", files: map[string]string{"add.sh": "exit 1\n"}, outcome: record.Unresolved, reason: "with the diff",
			change: func(t *record.Task) { t.TestCmds = []string{"sh add.sh 1 1 && sh tests/t.sh"} }},
		{name: "code without a failed test", files: map[string]string{"add.sh": good}, outcome: record.Unresolved, reason: "exit code 7 though no test failed",
			change: func(t *record.Task) { t.TestCmds = []string{"sh tests/t.sh; exit 7"} }},
		{name: "a required test that is not there", files: map[string]string{"add.sh": good}, outcome: record.Unresolved, reason: "gone missing",
			change: func(t *record.Task) { t.PassToPass = append(t.PassToPass, "gone") }},
		{name: "unknown parser", files: map[string]string{"add.sh": good}, outcome: record.TaskInvalid, reason: "log_parser \"x\" is unknown", change: func(t *record.Task) { t.LogParser = "x" }},
		{name: "no test command", files: map[string]string{"add.sh": good}, outcome: record.TaskInvalid, reason: "test_cmds", change: func(t *record.Task) { t.TestCmds = nil }},
		{name: "no required test", files: map[string]string{"add.sh": good}, outcome: record.TaskInvalid, reason: "fail_to_pass", change: func(t *record.Task) { t.FailToPass, t.PassToPass = nil, nil }},
		{name: "pre-command fails", files: map[string]string{"add.sh": good}, outcome: record.TaskInvalid, reason: "pre-command 1", change: func(t *record.Task) { t.PreCommands = []string{"exit 4"} }},
		{name: "test patch does not apply", files: map[string]string{"add.sh": good}, outcome: record.TaskInvalid, reason: "test_patch", change: func(t *record.Task) {
			t.TestPatch.Value = strings.ReplaceAll(t.TestPatch.Value, "tests/old", "tests/ole")
			t.TestPatch.Value = strings.ReplaceAll(t.TestPatch.Value, "-echo", "-ecco")
		}},
		{name: "unknown image", files: map[string]string{"add.sh": good}, outcome: record.TaskInvalid, reason: "refused", change: func(t *record.Task) { t.Image = "/no/such/image.tar" }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := build(t, shellProject)
			diff := []byte(tt.diff)
			if tt.files != nil {
				diff = b.diff(t, tt.files)
			}
			if tt.change != nil {
				tt.change(&b.task)
			}
			v := b.grade(t, diff)
			if v.Outcome != tt.outcome || !strings.Contains(v.Reason, tt.reason) {
				t.Errorf("got %s: %s; want %s with %q\n%s", v.Outcome, v.Reason, tt.outcome, tt.reason, v.Log.Value)
			}
			if d := cmp.Diff(tt.outcome.Reward(), v.Reward); d != "" {
				t.Errorf("reward: %s", d)
			}
			if tt.dropped == nil {
				tt.dropped = []string{}
			}
			if d := cmp.Diff(tt.dropped, v.Dropped); d != "" {
				t.Errorf("dropped (-want +got):\n%s", d)
			}
			if tt.tests != nil {
				got := map[string]string{}
				for _, r := range v.Tests {
					got[r.Name] = r.Status
				}
				if d := cmp.Diff(tt.tests, got); d != "" {
					t.Errorf("tests (-want +got):\n%s", d)
				}
			}
			if !strings.Contains(v.Log.Value, tt.log) {
				t.Errorf("no %q in the log:\n%s", tt.log, v.Log.Value)
			}
		})
	}
}
