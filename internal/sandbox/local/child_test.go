//go:build linux

package local

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"orchard/agent/wire"
	"orchard/internal/exit"
	"orchard/internal/sandbox"
	"orchard/internal/sandbox/control"
)

// childVariable makes the test binary a service of its own, as childTask says.
const childVariable = "ORCHARD_TEST_CHILD"

type childTask struct {
	Options  Options
	Commands []string // run one after the other in one sandbox
	Hold     bool     // then wait until stdin ends
	Forbid   bool     // first forbid user namespaces below this process's own
}

type childResult struct {
	State   control.State
	Service string // its folder
	Outputs []string
	Err     string
	Code    int // the exit code of Err
}

// child opens a runtime, runs the commands in a sandbox and prints a childResult.
func child() int {
	var task childTask
	if err := json.Unmarshal([]byte(os.Getenv(childVariable)), &task); err != nil {
		panic(err)
	}
	if task.Forbid {
		if err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0); err != nil {
			panic(err)
		}
	}
	result := childResult{}
	r, err := New(context.Background(), task.Options)
	if err == nil {
		defer r.Close()
		result.Service = r.service.dir
		err = result.fill(r, task.Commands)
	}
	if err != nil {
		result.Err, result.Code = err.Error(), exit.Code(err)
	}
	json.NewEncoder(os.Stdout).Encode(result)
	if task.Hold {
		io.Copy(io.Discard, os.Stdin)
	}
	return 0
}

func (res *childResult) fill(r *Runtime, commands []string) error {
	ctx := context.Background()
	if _, err := r.Start(ctx, sandbox.Spec{ID: "child", Image: HostImage, CPU: "1", Memory: "512Mi"}); err != nil {
		return err
	}
	var err error
	if res.State, err = r.Wait(ctx, "child"); err != nil {
		return err
	}
	for _, c := range commands {
		job, err := run(ctx, r, "child", wire.ExecRequest{Shell: c, Merge: true})
		if err != nil {
			return err
		}
		res.Outputs = append(res.Outputs, strings.TrimSpace(string(job.Stdout.Data)))
	}
	return nil
}

// startChild is a child that has printed its result.
func startChild(t *testing.T, task childTask, as *syscall.SysProcAttr) (childResult, *exec.Cmd, io.Closer) {
	t.Helper()
	raw, err := json.Marshal(task)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Dir = "/"
	// No Go on PATH: these children need no build cache.
	cmd.Env = []string{childVariable + "=" + string(raw), "PATH=/usr/bin:/bin"}
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = as
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close() // it removes what it made, unless it was killed
		cmd.Wait()
	})
	var result childResult
	if err := json.NewDecoder(out).Decode(&result); err != nil {
		t.Fatalf("the child's result: %v", err)
	}
	return result, cmd, in
}

// works ends the test unless the child's sandbox was ready.
func (res childResult) works(t *testing.T) {
	t.Helper()
	if res.Err != "" || res.State.Phase != control.Ready {
		t.Fatalf("the child: %s: %+v", res.Err, res.State)
	}
}

// TestWithoutNamespaces runs a service where the kernel gives no user namespace.
func TestWithoutNamespaces(t *testing.T) {
	t.Parallel()
	own := idMap{size: 1}
	result, _, in := startChild(t, childTask{Options: Options{StateDir: t.TempDir(), AgentPath: agentBinary}, Forbid: true}, &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER, UidMappings: own.mapping(os.Geteuid()), GidMappings: own.mapping(os.Getegid()),
	})
	in.Close()
	if result.Code != exit.Config || !strings.Contains(result.Err, "no user, mount") || !strings.Contains(result.Err, "orchard doctor") {
		t.Errorf("exit %d: %s", result.Code, result.Err)
	}
}

// TestUnprivileged runs a service as nobody, without cgroups.
func TestUnprivileged(t *testing.T) {
	t.Parallel()
	var as *syscall.SysProcAttr
	state, err := os.MkdirTemp("", "orchard-nobody-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(state)
	if os.Geteuid() == 0 {
		as = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		if err := os.Chown(state, 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
	result, cmd, in := startChild(t, childTask{
		Options: Options{StateDir: state, AgentPath: agentBinary, Processes: 64},
		Commands: []string{
			`id -u`,
			`touch /root/x /etc/x /workspace/x && echo wrote`,
			`touch /usr/x 2>/dev/null; ls /usr/x /etc/shadow ` + state + ` 2>/dev/null`,
			`mount -t tmpfs none /mnt 2>/dev/null; unshare -U true 2>/dev/null; echo x 2>/dev/null > /.orchard/agent; cat /proc/1/environ 2>/dev/null; echo refused`,
			`ps -e | wc -l | awk '{print ($1 < 9)}'`,
			`ulimit -u; ulimit -d`,
			`mkdir -p /root/closed/in && chmod 0 /root/closed; git init -q /tmp/g && python3 -c 'print(6*7)'`,
		},
	}, as)
	result.works(t)
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("the child's end: %v", err)
	}
	want := []string{"0", "wrote", "", "refused", "1", "64\n524288", "42"}
	for i, got := range result.Outputs {
		if got != want[i] {
			t.Errorf("command %d: got %q, want %q", i, got, want[i])
		}
	}
	if as != nil && result.State.Limits != control.LimitsPartial {
		t.Errorf("limits %q, want partial", result.State.Limits)
	}
	if left, err := os.ReadDir(filepath.Join(state, "services")); err != nil || len(left) != 1 { // the lock
		t.Errorf("the service left %v, %v", left, err)
	}
}

// TestKilledServiceLeavesNothing kills a service with -9 and opens the next one, while
// a third on the same state folder lives on.
func TestKilledServiceLeavesNothing(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	opts := Options{StateDir: state, AgentPath: agentBinary}
	task := childTask{Options: opts, Hold: true, Commands: []string{`setsid sleep 12345 >/dev/null 2>&1 & echo started`}}
	lives, _, livesIn := startChild(t, task, nil)
	defer livesIn.Close()
	dies, cmd, diesIn := startChild(t, task, nil)
	defer diesIn.Close()
	lives.works(t)
	dies.works(t)
	inside := descendants(t, cmd.Process.Pid)
	if len(inside) < 2 {
		t.Fatalf("a service with a sandbox has processes %v", inside)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	for _, pid := range inside {
		waitGone(t, pid)
	}
	r := open(t, func(o *Options) { *o = opts; o.CacheDir = cacheDir })
	if _, err := os.Stat(dies.Service); !os.IsNotExist(err) {
		t.Errorf("the folder of the killed service is left: %v", err)
	}
	if _, err := os.Stat(filepath.Join(lives.Service, "boxes", lives.State.UID)); err != nil {
		t.Errorf("a living service's sandbox was removed: %v", err)
	}
	if r.cgroups != nil {
		for _, dir := range r.cgroups.each() {
			gone := filepath.Join(filepath.Dir(dir), "orchard-"+filepath.Base(dies.Service))
			if _, err := os.Stat(gone); !os.IsNotExist(err) {
				t.Errorf("cgroup %s is left: %v", gone, err)
			}
		}
	}
}

// descendants are the processes below pid, by the machine's numbers.
func descendants(t *testing.T, pid int) []int {
	t.Helper()
	var all []int
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range tasks {
		raw, _ := os.ReadFile(file)
		for _, field := range strings.Fields(string(raw)) {
			child, err := strconv.Atoi(field)
			if err != nil {
				t.Fatal(err)
			}
			all = append(append(all, child), descendants(t, child)...)
		}
	}
	return all
}

// waitGone waits until a process has ended, reaped or not.
func waitGone(t *testing.T, pid int) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	n, err := 0, unix.EINTR
	for err == unix.EINTR { // a signal of the Go runtime is no answer
		n, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 30_000)
	}
	if n != 1 {
		t.Errorf("process %d outlives its service (%v)", pid, err)
	}
}
