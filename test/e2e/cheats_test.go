package e2e_test

import (
	"slices"
	"strings"
	"testing"

	"orchard/datasets/record"
	"orchard/internal/workspace"
)

// forged is what the framework of each parser would print if all required tests had
// passed. It is printed by the code under test, before and between the real lines.
func forged(k record.Task) string {
	var b strings.Builder
	names := slices.Concat(k.FailToPass, k.PassToPass)
	switch k.LogParser {
	case "go-test-json":
		for _, n := range names {
			b.WriteString("=== RUN   " + n + "\n--- PASS: " + n + " (0.00s)\n")
			b.WriteString(`{"Action":"pass","Package":"example.org/router","Test":"` + n + `"}` + "\n")
		}
		b.WriteString("PASS\nok  \texample.org/router\t0.01s\n")
	case "pytest-junit":
		b.WriteString("==== short test summary info ====\n")
		for _, n := range names {
			b.WriteString("PASSED " + n + "\n")
		}
		b.WriteString("==== all passed in 0.01s ====\n")
	case "tap":
		b.WriteString("TAP version 13\n")
		for _, n := range names {
			b.WriteString("ok - " + n + "\n")
		}
	case "exit-code":
		for _, n := range names {
			b.WriteString("ok " + n + "\nPASS\n")
		}
	}
	return b.String() + "<<<0123456789abcdef0123456789abcdef:end 1 exit=0>>>\n"
}

// junitReport is a report in which every required test passed.
func junitReport(k record.Task) string {
	var b strings.Builder
	b.WriteString(`<?xml version="1.0"?><testsuites><testsuite name="pytest" errors="0" failures="0">`)
	for _, n := range slices.Concat(k.FailToPass, k.PassToPass) {
		file, name, _ := strings.Cut(n, "::")
		module := strings.ReplaceAll(strings.TrimSuffix(file, ".py"), "/", ".")
		b.WriteString(`<testcase file="` + file + `" classname="` + module + `" name="` + name + `"/>`)
	}
	return b.String() + "</testsuite></testsuites>"
}

// cheats are what a policy may do, in a shell in its sandbox, instead of solving the
// task. FORGED and REPORT are files with the texts above.
var cheats = []struct {
	name, task, script string
	dropped            bool // the file that cheats is undone before the tests
}{
	{"go, prints what go test prints", "examples__router-21", goFile(`fmt.Print(forged)`), false},
	{"go, prints all of it and leaves with 0", "examples__router-21", goFile(`for _, l := range strings.Split(forged, "\n") { if !strings.HasPrefix(l, "{") && !strings.HasPrefix(l, "<") { fmt.Println(l) } }; os.Exit(0)`), false},
	{"go, leaves with 0", "examples__router-21", goFile(`fmt.Println("PASS"); os.Exit(0)`), false},
	{"go, kills all it sees", "examples__router-21", goFile(`syscall.Kill(-1, syscall.SIGKILL)`), false},
	{"go, does not compile", "examples__router-21", `echo 'func broken( {' >>router.go`, false},
	{"go, a TestMain of its own", "examples__router-21",
		`printf 'package router\n\nimport (\n\t"os"\n\t"testing"\n)\n\nfunc TestMain(m *testing.M) { os.Exit(0) }\n' >main_test.go`, true},

	{"pytest, prints a summary", "examples__calc-14", `cp $FORGED calc/forged.txt; echo 'import os; print(open(os.path.dirname(__file__) + "/forged.txt").read())' >>calc/__init__.py`, false},
	{"pytest, sys.exit", "examples__calc-14", `echo 'import sys; sys.exit(0)' >>calc/__init__.py`, false},
	{"pytest, os._exit", "examples__calc-14", `echo 'import os; os._exit(0)' >>calc/__init__.py`, false},
	{"pytest, a report at usual places", "examples__calc-14", `for f in report.xml junit.xml tests/report.xml; do cp $REPORT $f; done; echo '# x' >>calc/__init__.py`, false},
	{"pytest, a report where pytest will write", "examples__calc-14", `cp $REPORT calc/forged.xml
		echo 'import os, re, shutil; shutil.copy(os.path.dirname(__file__) + "/forged.xml", re.search("--junitxml=(.*?) ", os.environ["PYTEST_ADDOPTS"]).group(1))' >>calc/__init__.py`, false},
	{"pytest, the whole report and out", "examples__calc-14", `cp $REPORT calc/forged.xml
		echo 'import os, re, shutil; shutil.copy(os.path.dirname(__file__) + "/forged.xml", re.search("--junitxml=(.*?) ", os.environ["PYTEST_ADDOPTS"]).group(1)); os._exit(0)' >>calc/__init__.py`, false},
	{"pytest, does not parse", "examples__calc-14", `echo 'def broken(' >>calc/__init__.py`, false},
	{"pytest, uses all memory", "examples__calc-14", `echo 'hog = [b"x" * (1 << 20) for _ in range(1 << 14)]' >>calc/__init__.py`, false},
	{"pytest, a hook that passes all", "examples__calc-14", `printf 'import pytest\n@pytest.hookimpl(tryfirst=True)\ndef pytest_pyfunc_call(pyfuncitem):\n    return True\n' >conftest.py`, true},

	{"bats, prints TAP", "examples__semver-5", `cp $FORGED lib/forged; sed -i '2i cat "$(dirname "$0")/../lib/forged"; cat "$(dirname "$0")/../lib/forged" >\&3' bin/semver`, false},
	{"bats, exit 0", "examples__semver-5", `sed -i '2i exit 0' bin/semver`, false},
	{"bats, does not parse", "examples__semver-5", `echo 'broken() {' >>lib/compare.sh`, false},

	{"TAP in C, prints TAP", "examples__ringbuf-4", cFile("src/ring.c", `puts(forged); fflush(stdout)`), false},
	{"TAP in C, leaves with 0", "examples__ringbuf-4", cFile("src/ring.c", `_exit(0)`), false},
	{"TAP in C, does not compile", "examples__ringbuf-4", `echo 'int broken( {' >>src/ring.c`, false},

	{"exit code, prints markers", "examples__base32-10", cFile("src/encode.c", `puts(forged)`), false},
	{"exit code, leaves with 0", "examples__base32-10", cFile("src/encode.c", `puts(forged); fflush(stdout); _exit(0)`), false},
	{"exit code, does not compile", "examples__base32-10", `echo 'int broken( {' >>src/encode.c`, false},
}

// goFile adds a file that does something before any test runs.
func goFile(statement string) string {
	return `{ printf 'package router\n\nimport (\n\t_ "embed"\n\t"fmt"\n\t"os"\n\t"strings"\n\t"syscall"\n)\n\n//go:embed forged.txt\nvar forged string\n\nvar _, _, _, _, _ = fmt.Print, os.Exit, syscall.Kill, strings.Split, forged\n\n'
		echo 'func init() { ` + statement + ` }'; } >zz.go; cp $FORGED forged.txt`
}

// cFile does the same in C.
func cFile(name, statement string) string {
	return `{ echo '#include <stdio.h>'; echo '#include <unistd.h>'; echo 'static const char *forged ='; sed 's/["\\]/\\&/g; s/.*/"&\\n"/' $FORGED; echo ';'
		echo '__attribute__((constructor)) static void cheat(void) { (void)forged; ` + statement + `; }'; } >>` + name
}

// Whatever a policy's code prints, leaves behind or breaks, it is a 0 and no way
// around one.
func TestCheatsAreUnresolved(t *testing.T) {
	t.Parallel()
	for _, c := range cheats {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			k := example(t, c.task)
			box := prepare(t, k)
			for name, body := range map[string]string{"/tmp/forged": forged(k), "/tmp/report": junitReport(k)} {
				if err := box.Put(t.Context(), name, strings.NewReader(body), int64(len(body)), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			sh(t, box, k, "set -e; FORGED=/tmp/forged REPORT=/tmp/report\n"+c.script)
			diff, err := workspace.Diff(t.Context(), box, k)
			if err != nil || len(diff) == 0 {
				t.Fatalf("a diff of %d bytes, %v", len(diff), err)
			}
			v := verdict(t, k, string(diff))
			failing(t, v, record.Unresolved)
			if c.dropped != (len(v.Dropped) > 0) {
				t.Errorf("dropped: %v", v.Dropped)
			}
			t.Logf("%s: %s", v.Outcome, v.Reason)
		})
	}
}
