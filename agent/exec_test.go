package agent_test

import (
	"fmt"
	"strings"
	"testing"

	"orchard/agent/wire"
)

func TestExecAnswers(t *testing.T) {
	t.Parallel()
	b := start(t, nil, "--env", "FROM_FLAG=1")
	long := strings.Repeat("x", 300<<10)
	for _, c := range []struct {
		name   string
		req    wire.ExecRequest
		code   int
		stdout string
		stderr string
	}{
		{name: "true", req: wire.ExecRequest{Argv: []string{"true"}}},
		{name: "exit code", req: wire.ExecRequest{Shell: "exit 42"}, code: 42},
		{name: "its own 124", req: wire.ExecRequest{Shell: "exit 124"}, code: 124},
		{name: "signal", req: wire.ExecRequest{Shell: "kill -9 $$"}, code: -9},
		{name: "other signal", req: wire.ExecRequest{Shell: "kill -15 $$"}, code: -15},
		{name: "argv is not split", req: wire.ExecRequest{Argv: []string{"printf", "%s|", "a b", "$HOME", ""}}, stdout: "a b|$HOME||"},
		{name: "streams apart", req: wire.ExecRequest{Shell: "echo out; echo err >&2"}, stdout: "out\n", stderr: "err\n"},
		{name: "merged in order", req: wire.ExecRequest{Shell: "echo 1; echo 2 >&2; echo 3", Merge: true}, stdout: "1\n2\n3\n"},
		{name: "no stdin", req: wire.ExecRequest{Shell: "cat; echo done"}, stdout: "done\n"},
		{name: "stdin", req: wire.ExecRequest{Argv: []string{"cat"}, Stdin: []byte("a\x00b")}, stdout: "a\x00b"},
		{name: "stdin that nobody reads", req: wire.ExecRequest{Argv: []string{"true"}, Stdin: []byte(long)}},
		{name: "blank lines", req: wire.ExecRequest{Shell: `printf 'a\n\n\nb'`}, stdout: "a\n\n\nb"},
		{name: "CRLF", req: wire.ExecRequest{Shell: `printf 'a\r\nb\r\n'`}, stdout: "a\r\nb\r\n"},
		{name: "no UTF-8", req: wire.ExecRequest{Shell: `printf '\377\000\360\237'`}, stdout: "\xff\x00\xf0\x9f"},
		{name: "env", req: wire.ExecRequest{Shell: `echo "$A $FROM_FLAG $ORCHARD_AGENT_X"`, Env: map[string]string{"A": "x=y"}}, stdout: "x=y 1 \n"},
		{name: "env replaces", req: wire.ExecRequest{Shell: `echo $FROM_FLAG`, Env: map[string]string{"FROM_FLAG": "2"}}, stdout: "2\n"},
		{name: "default cwd", req: wire.ExecRequest{Shell: "pwd"}, stdout: b.dir + "\n"},
		{name: "cwd", req: wire.ExecRequest{Shell: "pwd", Cwd: "/usr"}, stdout: "/usr\n"},
		{name: "cwd that is not there", req: wire.ExecRequest{Shell: "pwd", Cwd: "/no/such"}, stdout: b.dir + "\n"},
		{name: "PATH of the command", req: wire.ExecRequest{Argv: []string{"true"}, Env: map[string]string{"PATH": "/nowhere"}}, code: 127,
			stderr: "orchard-agent: true: command not found in PATH \"/nowhere\"\n"},
		{name: "not executable", req: wire.ExecRequest{Argv: []string{"/etc/passwd"}}, code: 126, stderr: "orchard-agent: /etc/passwd: permission denied (EACCES)\n"},
		{name: "a directory", req: wire.ExecRequest{Argv: []string{"/usr"}}, code: 126, stderr: "orchard-agent: /usr: is a directory (EISDIR)\n"},
		{name: "shell without PATH", req: wire.ExecRequest{Shell: "echo ok", Env: map[string]string{"PATH": "/nowhere"}}, stdout: "ok\n"},
		{name: "longer than an argument", req: wire.ExecRequest{Shell: "X=" + long + "; echo ${#X} $0; cat", Stdin: []byte("in")}, stdout: fmt.Sprintf("%d bash\nin", len(long))},
		{name: "long and exits", req: wire.ExecRequest{Shell: "# " + long + "\nexit 3"}, code: 3},
		{name: "login reads bashrc", req: wire.ExecRequest{Shell: "echo $FROM_RC; echo Traceback >&2", Login: true, Env: map[string]string{"HOME": b.dir}}, stdout: "rc\n", stderr: "Traceback\n"},
		{name: "login merged", req: wire.ExecRequest{Shell: "echo x", Login: true, Merge: true, Env: map[string]string{"HOME": "/nowhere"}}, stdout: "x\n"},
		{name: "login long", req: wire.ExecRequest{Shell: "# " + long + "\necho $0", Login: true}, stdout: "bash\n"},
		{name: "noise that the user prints", req: wire.ExecRequest{Shell: "echo x >&2; echo 'bash: no job control in this shell' >&2", Login: true},
			stderr: "x\nbash: no job control in this shell\n"},
		{name: "own session", req: wire.ExecRequest{Shell: `set -- $(cat /proc/$$/stat); [ "$1" = "$5" ] && [ "$1" = "$6" ]`}},
		{name: "no descriptors leak", req: wire.ExecRequest{Shell: `ls /proc/self/fd | wc -l`}, stdout: "4\n"},
		{name: "no protection from the OOM killer", req: wire.ExecRequest{Shell: `cat /proc/self/oom_score_adj`}, stdout: "0\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "login reads bashrc" {
				b.put(".bashrc", "FROM_RC=rc\n")
			}
			j := b.run(c.req)
			if *j.ExitCode != c.code || string(j.Stdout.Data) != c.stdout || string(j.Stderr.Data) != c.stderr {
				t.Errorf("got exit %d, stdout %.300q, stderr %.300q; want %d, %.300q, %.300q (reason %q, error %q)",
					*j.ExitCode, j.Stdout.Data, j.Stderr.Data, c.code, c.stdout, c.stderr, j.Reason, j.Error)
			}
			failed := c.code >= 126
			if (j.State == wire.Failed) != failed || (j.Reason == wire.ReasonSpawn) != failed || (j.Error != "") != failed {
				t.Errorf("got state %q, reason %q, error %q", j.State, j.Reason, j.Error)
			}
		})
	}
}
