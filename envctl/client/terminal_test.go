package client_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"orchard/envctl/client"
	"orchard/internal/sandbox/sandboxtest"
	"orchard/internal/sandbox/sandboxtest/breaking"
)

// until reads lines until one holds text.
func until(t *testing.T, r *bufio.Reader, text string) {
	t.Helper()
	for {
		line, err := r.ReadString('\n')
		if strings.Contains(line, text) {
			return
		}
		if err != nil {
			t.Fatalf("no %q before %v", text, err)
		}
	}
}

// A terminal is one: it has a size, which changes, and takes keys and signals.
func TestTerminal(t *testing.T) {
	t.Parallel()
	box := newBox(t, "")
	term, err := box.Terminal(t.Context(), client.TerminalSpec{
		Argv: []string{"sh", "-c", `stty -echo; trap 'new=1' WINCH; echo size $(stty size) $A; until [ "$new" ]; do sleep 0.01; done
echo resized; stty size; trap - WINCH; while read -r line; do echo "got <$line>"; [ "$line" = end ] && exit 7; done`},
		Env: map[string]string{"A": "b"}, Cwd: "/tmp", Rows: 30, Cols: 100,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer term.Close()
	out := bufio.NewReader(term)
	until(t, out, "size 30 100 b")
	if err := term.Resize(40, 120); err != nil {
		t.Error(err)
	}
	until(t, out, "resized")
	until(t, out, "40 120")
	io.WriteString(term, "one\n")
	until(t, out, "got <one>")
	io.WriteString(term, "end\n")
	until(t, out, "got <end>")
	if _, err := io.ReadAll(out); err != nil {
		t.Errorf("after the end: %v", err)
	}
	if code, err := term.Wait(); err != nil || code != 7 {
		t.Errorf("exit %d, %v", code, err)
	}
	if _, err := term.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("write after the end: %v", err)
	}
	killed, err := box.Terminal(t.Context(), client.TerminalSpec{Argv: []string{"sleep", "300"}})
	if err != nil {
		t.Fatal(err)
	}
	defer killed.Close()
	if err := killed.Signal("KILL"); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadAll(killed); err != nil {
		t.Error(err)
	}
	if code, err := killed.Wait(); err != nil || code != -9 {
		t.Errorf("killed: exit %d, %v", code, err)
	}
	var notFound *client.NotFound
	if _, err := connect(t, sandboxtest.New(t).URL, sandboxtest.New(t).Key).Sandbox("nobody").Terminal(t.Context(), client.TerminalSpec{Argv: []string{"sh"}}); !errors.As(err, &notFound) {
		t.Errorf("no such sandbox: %v", err)
	}
}

// A terminal that is kept outlives its connections, and no output is lost or comes twice.
func TestTerminalReconnects(t *testing.T) {
	t.Parallel()
	cutter := breaking.NewCutter(t, sandboxtest.New(t).URL)
	term, err := newBox(t, cutter.URL).Terminal(t.Context(), client.TerminalSpec{
		Argv: []string{"sh", "-c", `for i in $(seq 300); do echo line $i; sleep 0.005; done; read last; echo "last $last"; exit 3`}, Keep: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer term.Close()
	out := bufio.NewReader(term)
	for i := 1; i <= 300; i++ {
		line, err := out.ReadString('\n')
		if want := fmt.Sprintf("line %d\r\n", i); err != nil || line != want {
			t.Fatalf("%q, %v; want %q", line, err, want)
		}
		if i%70 == 0 { // the last lines come over a new connection
			cutter.Cut()
		}
	}
	if _, err := io.WriteString(term, "word\n"); err != nil {
		t.Error(err)
	}
	until(t, out, "last word")
	if _, err := io.ReadAll(out); err != nil {
		t.Error(err)
	}
	if code, err := term.Wait(); err != nil || code != 3 {
		t.Errorf("exit %d, %v", code, err)
	}
	if cutter.Connections() < 4 {
		t.Errorf("only %d connections: nothing was cut", cutter.Connections())
	}
}

// Without Keep a connection that breaks is the end, and nobody says how the program ended.
func TestTerminalCut(t *testing.T) {
	t.Parallel()
	cutter := breaking.NewCutter(t, sandboxtest.New(t).URL)
	term, err := newBox(t, cutter.URL).Terminal(t.Context(), client.TerminalSpec{Argv: []string{"sh", "-c", "echo up; sleep 300"}})
	if err != nil {
		t.Fatal(err)
	}
	defer term.Close()
	out := bufio.NewReader(term)
	until(t, out, "up")
	cutter.Cut()
	if _, err := io.ReadAll(out); err == nil {
		t.Error("a cut looks like the end of the program")
	}
	if code, err := term.Wait(); err == nil {
		t.Errorf("exit %d", code)
	}
}
