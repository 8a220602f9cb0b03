package grade

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"orchard/internal/grade/parsers"
	"orchard/internal/sandbox"
	"orchard/internal/seal"
)

const (
	maxReport  = 64 << 20
	hostGrace  = 2 * time.Minute
	ourTimeout = time.Minute // for commands of ours
)

// ran is one test command and what came of it.
type ran struct {
	command  string
	exit     int
	timedOut bool
	took     time.Duration
	result   parsers.Result
}

// run runs the test commands one after the other and parses what each said. Their
// output comes over a pipe that the sandbox's agent reads: what was printed cannot be
// taken back. The commands share the task's time; one that uses it up ends the run.
func (a *attempt) run(ctx context.Context) (runs []ran, log []byte, err error) {
	parser, err := parsers.ByName(a.task.LogParser)
	if err != nil {
		return nil, nil, err
	}
	nonce := a.g.nonce()
	dir := "/var/tmp/." + nonce // for reports
	res, err := a.sb.Exec(ctx, sandbox.Command{Shell: "mkdir -p /var/tmp && mkdir -m 700 " + dir, Timeout: ourTimeout})
	if err == nil && res.ExitCode != 0 {
		err = fmt.Errorf("exit code %d: %s", res.ExitCode, res.Stderr)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("make a folder for test reports: %w", err)
	}
	var whole bytes.Buffer
	left := a.g.timeout(a.task)
	for i, command := range a.task.TestCmds {
		if left <= 0 {
			runs[i-1].timedOut = true
			break
		}
		n, report := i+1, fmt.Sprintf("%s/%d", dir, i+1)
		res, err := a.command(ctx, command, parser.Env(report), left)
		if err != nil {
			return nil, nil, fmt.Errorf("test command %d: %w", n, err)
		}
		left -= res.Duration
		fmt.Fprintf(&whole, "<<<%s:start %d>>> %s\n%s\n<<<%s:end %d exit=%d>>>\n", nonce, n, command, res.Stdout, nonce, n, res.ExitCode)
		runs = append(runs, ran{command: command, exit: res.ExitCode, timedOut: res.TimedOut, took: res.Duration})
		if res.TimedOut {
			break
		}
		said := parsers.Run{
			Number: n, Command: command, Output: res.Stdout, ExitCode: res.ExitCode,
			Required: slices.Concat(a.task.FailToPass, a.task.PassToPass),
		}
		if said.Report, err = a.report(ctx, report); err != nil {
			return nil, nil, fmt.Errorf("report of test command %d: %w", n, err)
		}
		r := parser.Parse(said)
		if res.Truncated {
			r.Doubts = append(r.Doubts, fmt.Sprintf("test command %d printed %d bytes, of which the middle is not known", n, res.StdoutBytes))
		}
		runs[i].result = r
	}
	return runs, whole.Bytes(), nil
}

// command runs one test command. The sandbox ends it in time; should the sandbox
// itself not answer by then, that is trouble and no timeout of the tests.
func (a *attempt) command(ctx context.Context, command string, env map[string]string, left time.Duration) (sandbox.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, left+hostGrace)
	defer cancel()
	return a.sb.Exec(ctx, sandbox.Command{Shell: command, Cwd: a.task.Workdir, Env: env, Timeout: left, Merge: true})
}

// report is what a runner wrote, nil when it wrote none. One beyond all measure is cut
// off, and no parser takes it for whole.
func (a *attempt) report(ctx context.Context, name string) ([]byte, error) {
	r, err := a.sb.Get(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(io.LimitReader(r, maxReport))
}

// nonce names a run: nobody who wrote the code under test can know it.
func (g *Grader) nonce() string {
	if g.Nonce != nil {
		return strings.ToLower(g.Nonce())
	}
	return seal.Random(16)
}
