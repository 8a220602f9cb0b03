package sandboxtest

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"orchard/internal/sandbox"
)

// minute bounds commands that end at once.
const minute = time.Minute

// Suite is what every sandbox.Client does. base is a spec whose sandboxes have a shell
// and the usual small programs.
func Suite(t *testing.T, c sandbox.Client, base sandbox.Spec) {
	for name, test := range map[string]func(*testing.T, sandbox.Client, sandbox.Spec){
		"Exec": suiteExec, "Bytes": suiteBytes, "LargeOutput": suiteLargeOutput, "ExecMisuse": suiteExecMisuse,
		"Order": suiteOrder, "Once": suiteOnce, "Cancel": suiteCancel, "Background": suiteBackground,
		"Files": suiteFiles, "FileErrors": suiteFileErrors, "List": suiteList,
		"Refused": suiteRefused, "Spec": suiteSpec, "Close": suiteClose, "Lifetime": suiteLifetime, "Lease": suiteLease,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, c, base)
		})
	}
}

func run(t testing.TB, box sandbox.Sandbox, c sandbox.Command) sandbox.Result {
	t.Helper()
	if c.Timeout == 0 {
		c.Timeout = minute
	}
	r, err := box.Exec(t.Context(), c)
	if err != nil {
		t.Fatalf("exec %q %q: %v", c.Shell, c.Argv, err)
	}
	return r
}

func suiteExec(t *testing.T, c sandbox.Client, base sandbox.Spec) {
	box := open(t, c, base)
	for _, test := range []struct {
		name string
		send sandbox.Command
		want sandbox.Result
	}{
		{"output and exit code", sandbox.Command{Shell: "echo o; echo e >&2; exit 3"}, sandbox.Result{ExitCode: 3, Stdout: []byte("o\n"), Stderr: []byte("e\n")}},
		{"argv without a shell", sandbox.Command{Argv: []string{"printf", "%s|", "a b", "$HOME", ""}}, sandbox.Result{Stdout: []byte("a b|$HOME||")}},
		{"no such program", sandbox.Command{Argv: []string{"no-such-program"}}, sandbox.Result{ExitCode: 127}},
		{"signal", sandbox.Command{Shell: "kill -9 $$"}, sandbox.Result{ExitCode: -9}},
		{"own 124", sandbox.Command{Shell: "exit 124"}, sandbox.Result{ExitCode: 124}},
		{"timeout keeps what was printed", sandbox.Command{Shell: "echo partial; sleep 60", Timeout: time.Second}, sandbox.Result{ExitCode: 124, TimedOut: true, Stdout: []byte("partial\n")}},
		{"still alive after it", sandbox.Command{Shell: "echo alive"}, sandbox.Result{Stdout: []byte("alive\n")}},
		{"no stdin", sandbox.Command{Shell: "cat; echo done"}, sandbox.Result{Stdout: []byte("done\n")}},
		{"stdin", sandbox.Command{Shell: "cat", Stdin: []byte("\x00\xffin\n")}, sandbox.Result{Stdout: []byte("\x00\xffin\n")}},
		{"merge", sandbox.Command{Shell: "echo a; echo b >&2; echo c", Merge: true}, sandbox.Result{Stdout: []byte("a\nb\nc\n")}},
		{"cwd", sandbox.Command{Shell: "pwd", Cwd: "/tmp"}, sandbox.Result{Stdout: []byte("/tmp\n")}},
		{"env", sandbox.Command{Shell: `echo "$A|$B"`, Env: map[string]string{"A": "x y", "B": "é"}}, sandbox.Result{Stdout: []byte("x y|é\n")}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := run(t, box, test.send)
			ignore := []string{"Duration", "StdoutBytes", "StderrBytes"}
			if test.want.ExitCode == 127 { // the words are the system's
				ignore = append(ignore, "Stderr")
			}
			if diff := cmp.Diff(test.want, got, cmpopts.IgnoreFields(sandbox.Result{}, ignore...), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if got.Duration <= 0 && got.ExitCode != 127 {
				t.Errorf("duration %v", got.Duration)
			}
		})
	}
}

func suiteBytes(t *testing.T, c sandbox.Client, base sandbox.Spec) {
	box := open(t, c, base)
	noise := make([]byte, 1<<20)
	rand.NewChaCha8([32]byte{7}).Read(noise)
	for name, want := range map[string][]byte{
		"noise": noise, "blank lines": []byte("a\n\n\n\r\nb"), "nothing": {}, "not UTF-8": []byte("\xff\xfe\xed\xa0\x80\x00"),
	} {
		r := run(t, box, sandbox.Command{Shell: "cat; echo to-stderr >&2", Stdin: want})
		if !bytes.Equal(r.Stdout, want) || r.StdoutBytes != int64(len(want)) || r.Truncated || string(r.Stderr) != "to-stderr\n" {
			t.Errorf("%s: %d bytes came back as %d (counted %d), stderr %q", name, len(want), len(r.Stdout), r.StdoutBytes, r.Stderr)
		}
	}
}

func suiteLargeOutput(t *testing.T, c sandbox.Client, base sandbox.Spec) {
	box := open(t, c, base)
	const whole, beyond = 10 << 20, 40 << 20
	r := run(t, box, sandbox.Command{Shell: "head -c 10485760 /dev/zero | tr '\\0' x"})
	if len(r.Stdout) != whole || r.Truncated || strings.Trim(string(r.Stdout), "x") != "" {
		t.Errorf("10 MiB came as %d bytes, truncated %v", len(r.Stdout), r.Truncated)
	}
	r = run(t, box, sandbox.Command{Shell: "printf head; head -c 41943032 /dev/zero | tr '\\0' x; printf tail; exit 5"})
	if !r.Truncated || r.StdoutBytes != beyond || r.ExitCode != 5 || len(r.Stdout) >= beyond {
		t.Errorf("40 MiB: %d of %d bytes, truncated %v, exit %d", len(r.Stdout), r.StdoutBytes, r.Truncated, r.ExitCode)
	}
	if !bytes.HasPrefix(r.Stdout, []byte("headx")) || !bytes.HasSuffix(r.Stdout, []byte("xtail")) {
		t.Error("head or tail of the output is missing")
	}
}

func suiteExecMisuse(t *testing.T, c sandbox.Client, base sandbox.Spec) {
	box := open(t, c, base)
	for name, command := range map[string]sandbox.Command{
		"no timeout": {Shell: "true"},
		"no command": {Timeout: minute},
		"both":       {Shell: "true", Argv: []string{"true"}, Timeout: minute},
	} {
		if r, err := box.Exec(t.Context(), command); err == nil {
			t.Errorf("%s: %+v, want an error", name, r)
		}
	}
}

// suiteOrder: commands run one after the other, those that are concurrent at once.
func suiteOrder(t *testing.T, c sandbox.Client, base sandbox.Spec) {
	box := open(t, c, base)
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			// mkdir fails when another one is inside.
			r, err := box.Exec(t.Context(), sandbox.Command{Shell: "mkdir /tmp/inside && sleep 0.05 && rmdir /tmp/inside", Timeout: minute})
			if err != nil || r.ExitCode != 0 {
				t.Errorf("a command in the queue: %+v, %v", r, err)
			}
		})
	}
	wg.Wait()
	wg.Go(func() {
		r, err := box.Exec(t.Context(), sandbox.Command{Shell: "while ! [ -e /tmp/go ]; do sleep 0.01; done", Timeout: minute})
		if err != nil || r.ExitCode != 0 {
			t.Errorf("the command that waits: %+v, %v", r, err)
		}
	})
	run(t, box, sandbox.Command{Shell: "touch /tmp/go", Concurrent: true})
	wg.Wait()
}

// suiteOnce: the same key is the same command, no key is always another.
func suiteOnce(t *testing.T, c sandbox.Client, base sandbox.Spec) {
	box := open(t, c, base)
	for _, key := range []string{"k", "k", "", "", "l"} {
		run(t, box, sandbox.Command{Shell: "echo x >> /tmp/n", IdempotencyKey: key})
	}
	if got := run(t, box, sandbox.Command{Shell: "cat /tmp/n"}); string(got.Stdout) != strings.Repeat("x\n", 4) {
		t.Errorf("three keys, one of them twice, and two without ran %d times, want 4", strings.Count(string(got.Stdout), "x"))
	}
}

// suiteCancel: a command dies with its context, and what it started with it.
func suiteCancel(t *testing.T, c sandbox.Client, base sandbox.Spec) {
	box := open(t, c, base)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := box.Exec(ctx, sandbox.Command{Shell: "(while :; do date +%N > /tmp/beat; sleep 0.02; done) & wait", Timeout: minute})
		done <- err
	}()
	run(t, box, sandbox.Command{Shell: "while ! [ -s /tmp/beat ]; do sleep 0.01; done", Concurrent: true})
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("exec of a cancelled context: %v", err)
	}
	// The queue is free again, and nothing beats any more.
	got := run(t, box, sandbox.Command{Shell: "a=$(cat /tmp/beat); sleep 0.3; [ \"$a\" = \"$(cat /tmp/beat)\" ] && echo dead"})
	if string(got.Stdout) != "dead\n" {
		t.Errorf("a child of the cancelled command lives: %+v", got)
	}
}

// suiteBackground: a child that holds the pipes does not hold the answer, and lives on.
func suiteBackground(t *testing.T, c sandbox.Client, base sandbox.Spec) {
	box := open(t, c, base)
	r := run(t, box, sandbox.Command{Shell: "(while ! [ -e /tmp/stop ]; do sleep 0.02; done; echo end > /tmp/ended) & echo started"})
	if string(r.Stdout) != "started\n" || r.ExitCode != 0 {
		t.Fatalf("started: %+v", r)
	}
	r = run(t, box, sandbox.Command{Shell: "touch /tmp/stop; while ! [ -s /tmp/ended ]; do sleep 0.02; done; cat /tmp/ended"})
	if string(r.Stdout) != "end\n" {
		t.Errorf("the child did not live on: %+v", r)
	}
}
