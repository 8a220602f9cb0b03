package imports

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"

	"orchard/datasets/record"
)

// Parsers is the names that log_parser may have: those of internal/grade/parsers.
var Parsers = []string{"go-test-json", "pytest-junit", "pytest-rA", "tap", "exit-code"}

// foreignParsers are names of other task sets for output that one of ours reads. Which
// of the two for pytest depends on the command: -rA prints what one of them reads, the
// other makes pytest write a report by itself.
var foreignParsers = map[string]string{
	"pytest": "pytest-rA", "parse_log_pytest": "pytest-rA", "parse_log_pytest_v2": "pytest-rA",
	"parse_log_pytest_options": "pytest-rA", "parse_log_tap": "tap",
}

// preset is how the tests of a language are usually run.
type preset struct{ cmd, parser string }

var presets = map[string]preset{
	"go":     {"go test -json ./...", "go-test-json"},
	"python": {"python3 -m pytest", "pytest-junit"},
}

// languages by file ending, for rows that do not say; the ones that most files of the
// patches have wins.
var languages = map[string]string{
	".go": "go", ".py": "python", ".sh": "shell", ".bash": "shell", ".bats": "shell", ".c": "c", ".h": "c",
	".rs": "rust", ".js": "javascript", ".ts": "typescript", ".java": "java", ".rb": "ruby", ".php": "php", ".cc": "cpp", ".cpp": "cpp",
}

var languageAliases = map[string]string{"golang": "go", "py": "python", "python3": "python", "bash": "shell", "sh": "shell", "js": "javascript", "ts": "typescript", "c++": "cpp"}

// commands fills language, test commands, log parser and pre-commands: what the row
// says first, then its install_config, then what is usual for the language.
func (r *reader) commands(t *record.Task, changed []string) {
	v, name := colInstall.in(r.values)
	install, err := asObject(v)
	if err != nil {
		r.fail(name, "%v", err)
	}
	inner := &reader{values: install}
	if t.Language == "" {
		t.Language = guessLanguage(changed)
	} else if known, ok := languageAliases[t.Language]; ok {
		t.Language = known
	}

	t.TestCmds = r.list(colTestCmds, true)
	if len(t.TestCmds) == 0 {
		t.TestCmds = inner.list(colTestCmds, true)
	}
	usual, known := presets[t.Language]
	if len(t.TestCmds) == 0 && known {
		t.TestCmds = []string{usual.cmd}
	}
	if len(t.TestCmds) == 0 {
		r.fail(colTestCmds[0], "the column is missing, and there is no usual test command for language %s", shown(t.Language))
	}

	t.LogParser = r.text(colParser)
	if t.LogParser == "" {
		t.LogParser = inner.text(colParser)
	}
	ours, foreign := foreignParsers[t.LogParser]
	if foreign || t.LogParser == "" {
		t.LogParser = cmp.Or(guessParser(t.TestCmds), ours)
	}
	switch {
	case t.LogParser == "":
		r.fail(colParser[0], "the column is missing, and the test command does not tell it; set it to one of %s", strings.Join(Parsers, ", "))
	case !slices.Contains(Parsers, t.LogParser):
		r.fail(colParser[0], "%s is none of %s", shown(t.LogParser), strings.Join(Parsers, ", "))
	}

	t.PreCommands = r.list(colPre, true)
	// An image was built with pre_install already; without one it has to run.
	if len(t.PreCommands) == 0 && t.Image == "" {
		t.PreCommands = inner.list(colPreInstall, true)
	}
	if inner.problem != nil {
		r.fail(colInstall[0], "%s: %s", inner.problem.Field, inner.problem.What)
	}
}

var (
	goJSON = regexp.MustCompile(`\bgo test\b.*-json\b`)
	pytest = regexp.MustCompile(`\b(pytest|py\.test)\b`)
	tap    = regexp.MustCompile(`\b(bats|tap|prove)\b`)
)

// guessParser tells the log parser from the commands; "" when they do not tell it.
func guessParser(cmds []string) string {
	all := strings.Join(cmds, "\n")
	switch {
	case goJSON.MatchString(all):
		return "go-test-json"
	case pytest.MatchString(all) && strings.Contains(all, "-rA"):
		return "pytest-rA"
	case pytest.MatchString(all):
		return "pytest-junit"
	case tap.MatchString(all):
		return "tap"
	}
	return ""
}

// guessLanguage is the language of most changed files; of equals the first by name.
func guessLanguage(files []string) string {
	count := map[string]int{}
	for _, f := range files {
		if l, ok := languages[path.Ext(f)]; ok {
			count[l]++
		}
	}
	best := ""
	for l, n := range count {
		if n > count[best] || n == count[best] && (best == "" || l < best) {
			best = l
		}
	}
	return best
}
