//go:build linux

package local

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"orchard/internal/sandbox"
)

// TestToolchainsRun runs the machine's own programs in "host".
func TestToolchainsRun(t *testing.T) {
	t.Parallel()
	r := open(t)
	st := begin(t, r, sandbox.Spec{})
	id := st.Spec.ID
	for _, c := range []struct{ name, needs, command, want string }{
		{"bash", "bash", `bash -c 'a=(1 2 3); echo ${#a[@]}'`, "3"},
		{"awk through /etc/alternatives", "awk", `echo a b | awk '{print $2}'`, "b"},
		{"git", "git", `cd /tmp && git init -q g && cd g && git -c user.name=n -c user.email=e commit -q --allow-empty -m m && git log --format=%s`, "m"},
		{"python3", "python3", `python3 -c 'import json, ssl, sqlite3, hashlib, multiprocessing as m; print(m.Pool(2).map(abs, [-1, -2]))'`, "[1, 2]"},
		{"python3 venv on a writable home", "python3", `python3 -c 'import pathlib; p = pathlib.Path.home() / "x"; p.write_text("y"); print(p.read_text())'`, "y"},
		{"gcc", "gcc", `cd /tmp && echo 'int main(){return 7;}' > a.c && gcc -o a.out a.c && ./a.out; echo $?`, "7"},
		{"perl", "perl", `perl -e 'use POSIX; print floor(2.5)'`, "2"},
		{"a terminal", "script", `script -qc 'tty' /dev/null | tr -d '\r'`, "/dev/pts/0"},
		{"certificates", "openssl", `ls /etc/ssl/certs | wc -l | awk '{print ($1 > 10)}'`, "1"},
		{"process substitution", "bash", `bash -c 'cat <(echo ps)'`, "ps"},
		{"names", "getent", `getent hosts 127.0.0.1 | awk '{print $2}'; getent passwd 0 | cut -d: -f1; whoami`, "localhost\nroot\nroot"},
		{"own host name", "getent", `getent hosts "$(hostname)" | awk '{print $1}'`, "127.0.0.1"},
		{"a server on the own loopback", "python3",
			`python3 -c 'import socket as s; l=s.create_server(("127.0.0.1",0)); c=s.create_connection(l.getsockname()); a,_=l.accept(); c.send(b"hi"); print(a.recv(9).decode())'`, "hi"},
		{"shared memory", "python3", `python3 -c 'from multiprocessing import shared_memory as m; s=m.SharedMemory(create=True,size=9); print(s.size); s.unlink()'`, "9"},
		{"root becomes another user", "setpriv", `setpriv --reuid 65534 --regid 65534 --clear-groups id -u`, "65534"},
		{"a debugger may trace", "python3",
			`python3 -c 'import ctypes, os, signal; c=ctypes.CDLL(None); p=os.fork() or (signal.pause()); print(c.ptrace(16, p, 0, 0)); os.kill(p, 9)'`, "0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := exec.LookPath(c.needs); err != nil {
				t.Skipf("this machine has no %s", c.needs)
			}
			if got := must(t, r, id, c.command); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestGoIsWarm runs a first test on the shared cache, which stays as it was.
func TestGoIsWarm(t *testing.T) {
	t.Parallel()
	r := open(t)
	if r.host.goTool == nil {
		t.Skip("this machine has no Go")
	}
	if err := r.Warm(t.Context()); err != nil {
		t.Fatal(err)
	}
	cache := r.warm.cache(r.host.goTool)
	before := entries(t, cache)
	st := begin(t, r, sandbox.Spec{})
	if got := must(t, r, st.Spec.ID, `touch /root/.cache/go-build/x /root/.cache/y && go env GOPROXY GOFLAGS GOTOOLCHAIN | xargs`); got != "off -mod=mod local" {
		t.Errorf("go env: %q", got)
	}
	must(t, r, st.Spec.ID, `mkdir -p /workspace/m && cd /workspace/m && printf 'module m\n' > go.mod &&
		printf 'package m\nimport ("testing"; "net/http"; "encoding/json")\nfunc TestX(t *testing.T) { _ = http.Get; _ = json.Marshal }\n' > m_test.go`)
	t.Log(must(t, r, st.Spec.ID, `cd /workspace/m && time go test ./...`))
	// What the test had to compile lies in the sandbox: its own package and main. Nothing of
	// the shared cache was dated anew, which would copy it.
	fresh := strings.Split(entries(t, filepath.Join(r.service.boxDir(st.UID), "fs", goUpper)), "\n")
	if len(fresh) > 40 {
		t.Errorf("%d entries were made, the cache is not warm", len(fresh))
	}
	for _, path := range fresh {
		rel := filepath.Join(filepath.Base(filepath.Dir(path)), filepath.Base(path))
		if _, err := os.Stat(filepath.Join(cache, rel)); err == nil {
			t.Errorf("%s was copied", rel)
		}
	}
	must(t, r, st.Spec.ID, `rm -rf /root/.cache/go-build/00; echo spoiled > /root/.cache/go-build/README`)
	if after := entries(t, cache); after != before {
		t.Error("a sandbox has changed the shared cache")
	}
}

// entries is every file of a folder by name.
func entries(t *testing.T, dir string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil || len(found) == 0 {
		t.Fatalf("an empty cache: %v", err)
	}
	return strings.Join(found, "\n")
}
