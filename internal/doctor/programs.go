package doctor

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"strings"
	"time"

	"orchard/internal/sandbox/local"
)

// patience is how long a program may take to say its version.
const patience = 30 * time.Second

// program is something that Orchard or some tasks run.
type program struct {
	name    string
	command []string
	inside  bool // looked for where a sandbox looks, not on this process's PATH
	missing Status
	means   string
	fix     string
}

const someTasks = "Only tasks in this language need it; without it they end as \"no tests ran\"."

var wanted = []program{
	{"go", []string{"go", "version"}, false, Warn, "Tasks in Go cannot be tested in \"host\" sandboxes.", "Install Go and put it on PATH."},
	{"git", []string{"git", "version"}, false, Fail, "Repositories of tasks cannot be imported.", "Install git (Debian: apt-get install git)."},
	{"python3", []string{"python3", "--version"}, true, Warn, someTasks, "Debian: apt-get install python3"},
	{"pytest", []string{"python3", "-m", "pytest", "--version"}, true, Warn, someTasks, "Debian: apt-get install python3-pytest"},
	{"bats", []string{"bats", "--version"}, true, Warn, someTasks, "Debian: apt-get install bats"},
	{"gcc", []string{"gcc", "--version"}, true, Warn, someTasks, "Debian: apt-get install gcc"},
}

// programs asks what is on PATH for its version.
func programs(ctx context.Context) []Finding {
	var findings []Finding
	for _, p := range wanted {
		command := p.command
		if p.inside {
			command = append([]string{"/usr/bin/env", "-i", "PATH=" + local.SystemPath}, command...)
		}
		version, err := firstLine(ctx, command...)
		if err != nil {
			findings = append(findings, Finding{p.name, p.missing, err.Error(), p.means, p.fix})
			continue
		}
		findings = append(findings, Finding{Name: p.name, Status: OK, Found: version})
	}
	return findings
}

// firstLine is what a program prints first. The error is a short text for people.
func firstLine(ctx context.Context, command ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput()
	line, _, _ := strings.Cut(string(bytes.TrimSpace(out)), "\n")
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", errors.New("not on PATH")
	case err != nil && line != "":
		return "", errors.New(line)
	case err != nil:
		return "", err
	}
	return line, nil
}

// agent looks for the agent and asks for its version; its path is "" when it has none.
func agent(ctx context.Context, path string) (Finding, string) {
	f := Finding{Name: "agent", Status: Fail, Means: "No sandbox can start: every one runs this program.", Fix: "Build it: CGO_ENABLED=0 go build -o orchard-agent ./cmd/orchard-agent, and set ORCHARD_AGENT or put it beside this program."}
	if path == "" {
		found, err := local.FindAgent()
		if err != nil {
			f.Found = err.Error()
			return f, ""
		}
		path = found
	}
	version, err := firstLine(ctx, path, "--version")
	if err != nil {
		f.Found = path + ": " + err.Error()
		return f, ""
	}
	return Finding{Name: "agent", Status: OK, Found: path + ": " + version}, path
}
