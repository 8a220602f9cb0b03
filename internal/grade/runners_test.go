package grade

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orchard/datasets/record"
)

var goProject = project{
	files: map[string]string{
		"go.mod":      "module example.org/add\n\ngo 1.22\n",
		"add.go":      "package add\n\nfunc Add(a, b int) int { return a - b }\n",
		"add_test.go": "package add\n\nimport \"testing\"\n\nfunc TestZero(t *testing.T) {\n\tif Add(0, 0) != 0 {\n\t\tt.Fail()\n\t}\n}\n",
	},
	gold:   map[string]string{"add.go": "package add\n\nfunc Add(a, b int) int { return a + b }\n"},
	tests:  map[string]string{"sum_test.go": "package add\n\nimport \"testing\"\n\nfunc TestSum(t *testing.T) {\n\tt.Run(\"two\", func(t *testing.T) {\n\t\tif Add(1, 1) != 2 {\n\t\t\tt.Fail()\n\t\t}\n\t})\n}\n"},
	cmds:   []string{"go test -json -count=1 ./..."},
	parser: "go-test-json",
	f2p:    []string{"TestSum", "TestSum/two"}, p2p: []string{"TestZero"},
}

var pyProject = project{
	files: map[string]string{
		"add.py":            "def add(a, b):\n    return a - b\n",
		"tests/conftest.py": "import os, sys\nsys.path.insert(0, os.path.dirname(os.path.dirname(__file__)))\n",
		"tests/test_old.py": "from add import add\n\ndef test_zero():\n    assert add(0, 0) == 0\n",
	},
	gold:   map[string]string{"add.py": "def add(a, b):\n    return a + b\n"},
	tests:  map[string]string{"tests/test_new.py": "import pytest\nfrom add import add\n\n@pytest.mark.parametrize('a', [1, 2])\ndef test_add(a):\n    assert add(a, 1) == a + 1\n"},
	cmds:   []string{"/usr/bin/python3 -m pytest"},
	parser: "pytest-junit",
	f2p:    []string{"tests/test_new.py::test_add[1]", "tests/test_new.py::test_add[2]"}, p2p: []string{"tests/test_old.py::test_zero"},
}

var batsProject = project{
	files: map[string]string{"add.sh": "echo $(($1 - $2))\n", "tests/old.bats": "@test \"zero\" {\n  [ \"$(sh add.sh 0 0)\" = 0 ]\n}\n"},
	gold:  map[string]string{"add.sh": "echo $(($1 + $2))\n"},
	tests: map[string]string{"tests/new.bats": "@test \"one and one\" {\n  run sh add.sh 1 1\n  [ \"$output\" = 2 ]\n}\n"},
	cmds:  []string{"bats --tap tests"}, parser: "tap",
	f2p: []string{"one and one"}, p2p: []string{"zero"},
}

var makeProject = project{
	files: map[string]string{"add.sh": "echo $(($1 - $2))\n"},
	gold:  map[string]string{"add.sh": "echo $(($1 + $2))\n"},
	tests: map[string]string{"check.sh": "[ \"$(sh add.sh 1 1)\" = 2 ]\n"},
	cmds:  []string{"test -f add.sh", "sh check.sh"}, parser: "exit-code",
	f2p: []string{"sh check.sh"}, p2p: []string{"command 1"},
}

func withParser(p project, parser string) project {
	p.parser = parser
	return p
}

// runners are the projects with what is needed to run their tests.
var runners = []struct {
	name    string
	project project
	need    []string
}{
	{"go", goProject, []string{"go", "version"}},
	{"pytest-junit", pyProject, []string{"/usr/bin/python3", "-m", "pytest", "--version"}},
	{"pytest-rA", withParser(pyProject, "pytest-rA"), []string{"/usr/bin/python3", "-m", "pytest", "--version"}},
	{"bats", batsProject, []string{"bats", "--version"}},
	{"exit code", makeProject, []string{"sh", "-c", "true"}},
	{"shell", shellProject, []string{"sh", "-c", "true"}},
}

func TestGoldResolvesThreeTimes(t *testing.T) {
	t.Parallel()
	for _, r := range runners {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			need(t, r.need[0], r.need[1:]...)
			b := build(t, r.project)
			var before []record.TestResult
			for i := range 3 {
				v, err := b.grader(t).Canary(t.Context(), b.task)
				if err != nil || v.Outcome != record.Resolved {
					t.Fatalf("time %d: %s: %s, %v\n%s", i+1, v.Outcome, v.Reason, err, v.Log.Value)
				}
				if i > 0 {
					if d := cmp.Diff(before, v.Tests); d != "" {
						t.Errorf("time %d differs:\n%s", i+1, d)
					}
				}
				before = v.Tests
			}
		})
	}
}

func TestCheatsDoNotResolve(t *testing.T) {
	t.Parallel()
	const goHead = "package add\n\nimport (\n\t\"fmt\"\n\t\"os\"\n\t\"syscall\"\n)\n\nvar _, _, _ = fmt.Print, os.Exit, syscall.Exit\n\n"
	forgedGo := "\\n\\x16=== RUN   TestSum\\n\\x16--- PASS: TestSum (0.00s)\\n{\\\"Action\\\":\\\"pass\\\",\\\"Package\\\":\\\"example.org/add\\\",\\\"Test\\\":\\\"TestSum\\\"}\\nPASS\\nok  example.org/add 0.1s\\n"
	fakeReport := `import glob, os
def forge():
    for d in glob.glob('/var/tmp/.*'):
        with open(d + '/1', 'w') as f:
            f.write('')
def add(a, b):
    print("PASSED tests/test_new.py::test_add[1]")
    print("==== short test summary info ====\nPASSED tests/test_new.py::test_add[1]\n==== 3 passed in 0.01s ====")
    return a - b
`
	tests := []struct {
		name    string
		runner  int
		files   map[string]string
		outcome record.Outcome
		status  string // of every fail_to_pass test, "" for any
	}{
		{"go: comment only", 0, map[string]string{"add.go": "package add\n\n// Add adds.\nfunc Add(a, b int) int { return a - b }\n"}, record.Unresolved, "failed"},
		{"go: does not compile", 0, map[string]string{"add.go": "package add\n\nfunc Add(a, b int) int { return x }\n"}, record.Unresolved, "error"},
		{"go: forged lines and events", 0, map[string]string{"add.go": goHead + "func Add(a, b int) int {\n\tfmt.Print(\"" + forgedGo + "\")\n\treturn a - b\n}\n"}, record.Unresolved, ""},
		{"go: events on the go command's own stdout", 0, map[string]string{"add.go": goHead + "func Add(a, b int) int {\n\tif f, err := os.OpenFile(fmt.Sprintf(\"/proc/%d/fd/1\", os.Getppid()), os.O_WRONLY, 0); err == nil {\n\t\tfmt.Fprintln(f, `{\"Action\":\"run\",\"Package\":\"example.org/add\",\"Test\":\"TestSum\"}`)\n\t\tfmt.Fprintln(f, `{\"Action\":\"pass\",\"Package\":\"example.org/add\",\"Test\":\"TestSum\"}`)\n\t}\n\treturn a - b\n}\n"}, record.Unresolved, ""},
		{"go: os.Exit(0)", 0, map[string]string{"add.go": goHead + "func Add(a, b int) int {\n\tos.Exit(0)\n\treturn 0\n}\n"}, record.Unresolved, ""},
		{"go: syscall.Exit(0)", 0, map[string]string{"add.go": goHead + "func Add(a, b int) int {\n\tsyscall.Exit(0)\n\treturn 0\n}\n"}, record.Unresolved, ""},
		{"go: exit in init", 0, map[string]string{"add.go": goHead + "func init() { fmt.Print(\"PASS\\n\"); os.Exit(0) }\n\nfunc Add(a, b int) int { return 0 }\n"}, record.Unresolved, "missing"},
		{"go: TestMain of its own", 0, map[string]string{"main_test.go": "package add\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestMain(m *testing.M) { os.Exit(0) }\n"}, record.Unresolved, "failed"},
		{"pytest: comment only", 1, map[string]string{"add.py": "# adds\ndef add(a, b):\n    return a - b\n"}, record.Unresolved, "failed"},
		{"pytest: syntax error", 1, map[string]string{"add.py": "def add(a, b:\n"}, record.Unresolved, "error"},
		{"pytest: forged summary", 1, map[string]string{"add.py": fakeReport}, record.Unresolved, "failed"},
		{"pytest: os._exit(0) on import", 1, map[string]string{"add.py": "import os\nos._exit(0)\n"}, record.Unresolved, ""},
		{"pytest: os._exit(0) in a test", 1, map[string]string{"add.py": "import os\ndef add(a, b):\n    os._exit(0)\n"}, record.Unresolved, "error"},
		{"pytest: report overwritten at exit", 1, map[string]string{"add.py": "import atexit\n" + fakeReport + "atexit.register(forge)\n"}, record.Unresolved, "error"},
		{"pytest: conftest that leaves", 1, map[string]string{"tests/conftest.py": "import os\nos._exit(0)\n"}, record.Unresolved, "failed"},
		{"pytest: report at a guessed path", 1, map[string]string{"report.xml": "<testsuites><testsuite><testcase file='tests/test_new.py' classname='tests.test_new' name='test_add[1]'/></testsuite></testsuites>"}, record.Unresolved, "failed"},
		{"pytest: tests skipped", 1, map[string]string{"add.py": "import pytest\npytest.skip('no', allow_module_level=True)\n"}, record.Unresolved, ""},
		{"pytest -rA: forged summary", 2, map[string]string{"add.py": fakeReport}, record.Unresolved, "failed"},
		{"pytest -rA: forged summary at exit", 2, map[string]string{"add.py": "import atexit\ndef add(a, b):\n    return a - b\natexit.register(lambda: print('==== short test summary info ====\\nPASSED tests/test_new.py::test_add[1]\\nPASSED tests/test_new.py::test_add[2]\\n==== 3 passed in 0.01s ===='))\n"}, record.Unresolved, "failed"},
		{"pytest -rA: os._exit(0) on import", 2, map[string]string{"add.py": "import os\nos._exit(0)\n"}, record.Unresolved, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := runners[tt.runner]
			need(t, r.need[0], r.need[1:]...)
			b := build(t, r.project)
			v := b.grade(t, b.diff(t, tt.files))
			if v.Outcome != tt.outcome {
				t.Errorf("got %s: %s\n%s", v.Outcome, v.Reason, v.Log.Value)
			}
			for _, test := range v.Tests {
				if tt.status != "" && test.Kind == FailToPass && test.Status != tt.status {
					t.Errorf("%s is %s, want %s\n%s", test.Name, test.Status, tt.status, v.Log.Value)
				}
			}
			if strings.Contains(tt.name, "TestMain") && len(v.Dropped) != 1 {
				t.Errorf("dropped: %v", v.Dropped)
			}
		})
	}
}
