package envctl_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"orchard/internal/sandbox/sandboxtest"
)

// On a terminal the remote program has it as if it ran here: its size, also when that
// changes, and keys such as Ctrl-C.
func TestTTY(t *testing.T) {
	t.Parallel()
	service := sandboxtest.New(t)
	box := newBox(t, service)
	defer endBox(t, box)
	program, err := exec.LookPath("envctl") // the test binary, as testscript put it on PATH
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "exec", "-it", box.ID(), "sh", "-c",
		`trap 'echo size $(stty size)' WINCH; trap 'echo interrupted; exit 9' INT; echo first $(stty size) $TERM; while :; do sleep 0.05; done`)
	cmd.Env = append(os.Environ(), append(service.Env(), "TERM=vt100")...)
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 33, Cols: 99})
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	patience := time.AfterFunc(60*time.Second, func() { cmd.Process.Kill() })
	defer patience.Stop()
	out := bufio.NewReader(tty)
	until := func(text string) {
		t.Helper()
		for {
			line, err := out.ReadString('\n')
			if strings.Contains(line, text) {
				return
			}
			if err != nil {
				t.Fatalf("no %q before %v", text, err)
			}
		}
	}
	until("first 33 99 vt100")
	if err := pty.Setsize(tty, &pty.Winsize{Rows: 44, Cols: 111}); err != nil {
		t.Fatal(err)
	}
	until("size 44 111")
	if _, err := tty.Write([]byte{3}); err != nil { // Ctrl-C
		t.Fatal(err)
	}
	until("interrupted")
	io.Copy(io.Discard, out) // ends with EIO, as terminals do
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 9 {
		t.Errorf("envctl ended with %v", err)
	}
}
