package agent_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"orchard/agent/wire"
)

func TestOutputSizes(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	for _, size := range []int{0, 1, 4096, 32<<10 - 1, 32 << 10, 32<<10 + 1, 100_000, 10 << 20} {
		t.Run(strconv.Itoa(size), func(t *testing.T) {
			file := make([]byte, size)
			for i := range file {
				file[i] = byte(i * 7 / 3)
			}
			b.put("out", string(file))
			j := b.run(wire.ExecRequest{Shell: "cat out; cat out >&2"})
			if !bytes.Equal(j.Stdout.Data, file) || !bytes.Equal(j.Stderr.Data, file) || j.Stdout.Truncated || j.Stdout.Bytes != int64(size) || j.Stdout.File != "" {
				t.Errorf("got %d and %d bytes, count %d, truncated %v", len(j.Stdout.Data), len(j.Stderr.Data), j.Stdout.Bytes, j.Stdout.Truncated)
			}
		})
	}
}

func TestOutputBeyondTheCap(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	for _, c := range []struct{ cap, size int64 }{{10, 11}, {10, 5000}, {1, 50}, {100, 100_000}, {60_000, 200_000}} {
		t.Run(fmt.Sprint(c.cap, " of ", c.size), func(t *testing.T) {
			whole := bytes.Repeat([]byte("0123456789abcdefghij\n"), int(c.size/21)+1)[:c.size]
			b.put("out", string(whole))
			j := b.run(wire.ExecRequest{Argv: []string{"cat", "out"}, OutputCap: c.cap})
			out := j.Stdout
			head, tail := whole[:c.cap/2], whole[c.size-(c.cap-c.cap/2):]
			note := fmt.Sprintf("\n[... %d bytes left out; the whole is in %s ...]\n", c.size-c.cap, out.File)
			if want := string(head) + note + string(tail); string(out.Data) != want {
				t.Errorf("got %.300q, want %.300q", out.Data, want)
			}
			if !out.Truncated || out.Bytes != c.size || out.File == "" {
				t.Errorf("got truncated %v, bytes %d, file %q", out.Truncated, out.Bytes, out.File)
			}
			if got := b.sh("cat %s", out.File); got != string(whole) {
				t.Errorf("the file has %d bytes, want %d", len(got), len(whole))
			}
			for _, offset := range []int64{0, 1, c.size - 1, c.size, c.size + 5} {
				resp, got := b.do("GET", fmt.Sprintf("/v1/jobs/%s/output?stream=stdout&offset=%d", j.ID, offset), nil)
				if want := whole[min(offset, c.size):]; !bytes.Equal(got, want) || resp.StatusCode != 200 {
					t.Errorf("offset %d: got %d bytes, want %d", offset, len(got), len(want))
				}
			}
		})
	}
}

// The two memory promises, for the real binary: idle, and while half a gigabyte goes through.
func TestMemoryIsConstant(t *testing.T) {
	if testing.Short() {
		t.Skip("prints 500 MB")
	}
	t.Parallel()
	// TMPDIR may be memory, where the agent keeps less of the output.
	spool, err := os.MkdirTemp("/var/tmp", "agent")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(spool) })
	b := startProgram(t, binary(t), nil, "--spool", spool)
	if b.sh("echo hello") != "hello\n" {
		t.Fatal("it does not run")
	}
	if rss := memory(t, b.cmd.Process.Pid, "VmRSS"); rss >= 15<<20 {
		t.Errorf("idle: %d bytes resident, want under 15 MiB", rss)
	}
	const size = 500_000_000
	j := b.run(wire.ExecRequest{Shell: fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x; exit 7", size)})
	if *j.ExitCode != 7 || j.Stdout.Bytes != size || !j.Stdout.Truncated || len(j.Stdout.Data) < wire.DefaultOutputCap || len(j.Stdout.Data) > wire.DefaultOutputCap+200 {
		t.Errorf("got exit %d, %d bytes, %d of them sent", *j.ExitCode, j.Stdout.Bytes, len(j.Stdout.Data))
	}
	if got := strings.TrimSpace(b.sh("wc -c < %s", j.Stdout.File)); got != strconv.Itoa(size) {
		t.Errorf("the file has %s bytes", got)
	}
	if peak := memory(t, b.cmd.Process.Pid, "VmHWM"); peak >= 64<<20 {
		t.Errorf("busy: %d bytes resident at the peak, want under 64 MiB", peak)
	}
}

// memory reads a field of /proc/PID/status, in bytes.
func memory(t testing.TB, pid int, field string) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kb << 10
		}
	}
	t.Fatalf("no %s in %s", field, text)
	return 0
}

func TestUnreadOutputDoesNotBlock(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	j := b.submit(wire.ExecRequest{Shell: "head -c 100000000 /dev/zero | tr '\\0' y; echo end >&2"}, "")
	if j = b.await(j.ID, wire.Done); *j.ExitCode != 0 || j.Stdout.Bytes != 100_000_000 || string(j.Stderr.Data) != "end\n" {
		t.Errorf("got %d, %d bytes", *j.ExitCode, j.Stdout.Bytes)
	}
}

func TestOutputOfARunningJob(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	j := b.submit(wire.ExecRequest{Shell: "printf begun; while [ ! -e go ]; do sleep 0.01; done; printf ' ended'"}, "")
	read := func(offset int) string {
		_, text := b.do("GET", fmt.Sprintf("/v1/jobs/%s/output?stream=stdout&offset=%d", j.ID, offset), nil)
		return string(text)
	}
	eventually(t, "the first word is there", func() bool { return read(0) == "begun" })
	b.want(200, "GET", "/v1/jobs/"+j.ID, nil, &j)
	if j.State != wire.Running || j.Stdout.Bytes != 5 || j.Stdout.Data != nil || j.ExitCode != nil {
		t.Errorf("got %+v", j)
	}
	b.put("go", "")
	b.await(j.ID, wire.Done)
	if got := read(5); got != " ended" {
		t.Errorf("the rest: got %q", got)
	}
	b.want(400, "GET", "/v1/jobs/"+j.ID+"/output?stream=stdout&offset=-1", nil, nil)
	b.want(400, "GET", "/v1/jobs/"+j.ID+"/output?stream=both", nil, nil)
	b.want(404, "GET", "/v1/jobs/none/output?stream=stdout", nil, nil)
}

// A full disk, and then no spool folder at all, cost the output its middle, not the
// command its life.
func TestDiskFull(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting a small file system needs root")
	}
	t.Parallel()
	small := t.TempDir()
	if err := syscall.Mount("small", small, "tmpfs", 0, "size=128k"); err != nil {
		t.Skipf("mount a tmpfs: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(small, syscall.MNT_DETACH) })
	b := start(t, nil, "--spool", small)
	j := b.run(wire.ExecRequest{Shell: "for i in $(seq 100000); do echo $i; done; exit 5"})
	lines := strings.Split(string(j.Stdout.Data), "\n")
	if *j.ExitCode != 5 || j.Stdout.Bytes != 588895 || !j.Stdout.Truncated || j.Stdout.File != "" {
		t.Errorf("got exit %d, %d bytes, truncated %v, file %q", *j.ExitCode, j.Stdout.Bytes, j.Stdout.Truncated, j.Stdout.File)
	}
	if lines[0] != "1" || lines[len(lines)-2] != "100000" {
		t.Errorf("head or tail is missing: %q ... %q", lines[0], lines[len(lines)-2])
	}
	resp, head := b.do("GET", "/v1/jobs/"+j.ID+"/output?stream=stdout", nil)
	if !bytes.HasPrefix(j.Stdout.Data, head) || len(head) == 0 || resp.Header.Get("X-Output-Offset") != "0" {
		t.Errorf("the head has %d bytes", len(head))
	}
	resp, tail := b.do("GET", fmt.Sprintf("/v1/jobs/%s/output?stream=stdout&offset=%d", j.ID, len(head)), nil)
	if !bytes.HasSuffix(j.Stdout.Data, tail) || resp.Header.Get("X-Output-Offset") != strconv.FormatInt(j.Stdout.Bytes-int64(len(tail)), 10) {
		t.Errorf("the tail has %d bytes at %s", len(tail), resp.Header.Get("X-Output-Offset"))
	}
	if out := b.run(wire.ExecRequest{Shell: "#" + strings.Repeat("x", 200_000) + "\ntrue"}); *out.ExitCode != 126 || !strings.Contains(out.Error, "ENOSPC") && !strings.Contains(out.Error, "no space") {
		t.Errorf("a command for which there is no room: %d %q", *out.ExitCode, out.Error)
	}
}

// User code may delete or replace the agent's folder.
func TestSpoolFolderIsNotTrusted(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	victim := b.dir + "/victim"
	b.put(victim, "precious")
	dir := strings.TrimSpace(b.sh("echo %s/orchard-spool-*", b.spool))
	if got := strings.TrimSpace(b.sh("stat -c %%a %s", dir)); got != "700" {
		t.Errorf("the folder has mode %s", got)
	}
	planted := newID()
	b.sh("ln -s %s %s/%s.stdout", victim, dir, planted)
	j := b.run(wire.ExecRequest{ID: planted, Shell: "seq 20000"})
	if j.Stdout.Bytes != 108894 || *j.ExitCode != 0 {
		t.Errorf("got %d bytes", j.Stdout.Bytes)
	}
	if got := b.get(victim); got != "precious" {
		t.Errorf("the planted link was followed: %q", got)
	}
	b.sh("rm -rf %s", b.spool)
	want := b.sh("seq 30000")
	if sum := sha256.Sum256([]byte(want)); len(want) != 168894 || sum != sha256.Sum256([]byte(want)) {
		t.Errorf("without the folder: got %d bytes", len(want))
	}
	if got := b.sh("echo %s; # %s", "long", strings.Repeat("x", 200_000)); got != "long\n" {
		t.Errorf("a long command: got %q", got)
	}
	b.sh("rm -rf %s; ln -s %s %[1]s", b.spool, b.dir)
	if got := b.sh("seq 30000"); got != want {
		t.Errorf("with a link for a folder: got %d bytes", len(got))
	}
}

// An answer in chunks has a proper end, and nothing waits before it.
func TestStrictHTTPClient(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	j := b.run(wire.ExecRequest{Shell: "seq 50000"})
	resp, err := b.http.Get("http://agent/v1/jobs/" + j.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Errorf("read the answer: %v", err)
	}
	began := time.UnixMicro(j.StartedUS)
	if ended := time.UnixMicro(j.EndedUS); ended.Before(began) || j.CreatedUS > j.StartedUS {
		t.Errorf("created %d, started %d, ended %d", j.CreatedUS, j.StartedUS, j.EndedUS)
	}
}
