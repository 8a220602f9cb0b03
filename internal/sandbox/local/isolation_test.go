//go:build linux

package local

import (
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"orchard/agent/wire"
	"orchard/internal/sandbox"
)

// TestNothingOfTheMachineIsSeen looks from inside for what must not be there. Every
// command prints what it found; "" is nothing.
func TestNothingOfTheMachineIsSeen(t *testing.T) {
	t.Setenv("ORCHARD_TEST_SECRET", "leaked-by-the-environment")
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("leaked"), 0o644); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())

	r := open(t)
	id := begin(t, r, sandbox.Spec{}).Spec.ID
	begin(t, r, sandbox.Spec{ID: "neighbour"})
	keys := []string{base64.StdEncoding.EncodeToString(r.key), base64.StdEncoding.EncodeToString(r.key.Seed())}

	for _, c := range []struct{ name, command string }{
		{"home folders", `find /root /home -mindepth 1 -not -path '/root/.cache*'`},
		{"a file of the machine", `cat ` + secret + ` 2>/dev/null`},
		{"the state folder", `ls -d ` + r.opts.StateDir + ` 2>/dev/null`},
		{"accounts' secrets", `ls -d /etc/shadow /etc/gshadow /etc/sudoers /etc/ssh /etc/ssl/private /etc/machine-id 2>/dev/null`},
		{"more accounts than two", `grep -v -e ^root: -e ^nobody: /etc/passwd`},
		{"the service's environment", `env | grep -i leaked; cat /proc/*/environ 2>/dev/null | tr '\0' '\n' | grep -i leaked`},
		{"the agent's environment", `cat /proc/1/environ 2>/dev/null`},
		{"the agent's memory", `head -c 1 /proc/1/mem 2>/dev/null`},
		{"the agent's descriptors", `readlink /proc/1/fd/*; cat /proc/1/fd/* 2>/dev/null`},
		{"the agent's root", `ls /proc/1/root/ 2>/dev/null`},
		{"the agent's working folder", `readlink /proc/1/cwd`},
		{"the service's key", `grep -arlF -e '` + keys[0] + `' -e '` + keys[1] + `' /etc /tmp /var /run /workspace /.orchard /proc/1/cmdline 2>/dev/null`},
		{"descriptors in commands", `ls /proc/self/fd | grep -v -x -e 0 -e 1 -e 2 -e 3`},
		{"processes of the machine", `ps -eo comm= | grep -v -x -e agent -e bash -e sh -e ps -e grep`},
		{"neighbours' names", `cat /proc/*/cmdline | tr '\0' ' ' | grep -o neighbour | grep -v -x neighbour`},
		{"a server on the machine's loopback", fmt.Sprintf(`bash -c 'echo > /dev/tcp/127.0.0.1/%s' 2>/dev/null && echo connected`, port)},
		{"interfaces but the loopback", `tail -n +3 /proc/net/dev | grep -v '^ *lo:'`},
		{"routes", `tail -n +2 /proc/net/route`},
		{"sockets of the machine", `tail -n +2 /proc/net/unix`},
		{"the kernel's memory, keys and log", `cat /proc/kcore /proc/keys /proc/kmsg /proc/timer_list 2>/dev/null | head -c 10`},
		{"the machine's buses", `ls -A /sys`},
		{"disks", `ls /dev | grep -e ^sd -e ^vd -e ^nvme -e ^loop -e ^mem -e ^kvm -e ^fuse`},
		{"the machine's host name", `hostname | grep -v -x ` + id},
		{"cgroups above", `cut -d: -f3 /proc/self/cgroup | grep -v -x /`},
		{"shared memory of the machine", `ipcs -m | tail -n +4; ls -A /dev/shm`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if out, _ := sh(t, r, id, c.command); out != "" {
				t.Errorf("%s\nshows %q", c.command, out)
			}
		})
	}
}

// TestOutsideIsAHighUser looks at a sandbox's process from the machine.
func TestOutsideIsAHighUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root maps ranges of users")
	}
	r := open(t)
	a, b := begin(t, r, sandbox.Spec{}), begin(t, r, sandbox.Spec{})
	seen := map[string]bool{}
	for _, st := range []string{a.Spec.ID, b.Spec.ID} {
		out := must(t, r, st, `awk '{print $2}' /proc/self/uid_map`)
		var uid int
		if _, err := fmt.Sscan(out, &uid); err != nil || uid < rangeFirst {
			t.Errorf("root inside is uid %s outside", out)
		}
		seen[out] = true
	}
	if len(seen) != 2 {
		t.Error("two sandboxes are the same users")
	}
	must(t, r, a.Spec.ID, `echo mine > /root/file`)
	info, err := os.Stat(filepath.Join(r.service.boxDir(a.UID), "fs", "upper", "root", "file"))
	if err != nil {
		t.Fatal(err)
	}
	if uid := ownerOf(info); uid < rangeFirst {
		t.Errorf("a file of the sandbox belongs to uid %d on disk", uid)
	}
}

// TestNoWayOut tries what breaks out of weaker sandboxes. Each command must fail.
func TestNoWayOut(t *testing.T) {
	t.Parallel()
	r := open(t)
	id := begin(t, r, sandbox.Spec{}).Spec.ID
	must(t, r, id, "cat > /tmp/sys.py <<'EOF'\n"+syscallProgram+"EOF")
	for _, c := range []struct{ name, command string }{
		{"write /usr", `touch /usr/bin/x`},
		{"write /usr through /proc", `touch /proc/self/root/usr/bin/x`},
		{"write GOROOT", `touch "$(go env GOROOT)/x"`},
		{"remount /usr", `mount -o remount,rw /usr`},
		{"mount tmpfs", `mount -t tmpfs none /mnt`},
		{"mount proc", `mount -t proc none /mnt`},
		{"bind", `mount --bind / /mnt`},
		{"unmount a mask", `umount /proc/keys`},
		{"unmount /usr", `umount -l /usr`},
		{"pivot_root", `cd /tmp && mkdir -p n && pivot_root . n`},
		{"new user namespace", `unshare -U true`},
		{"new mount namespace", `unshare -m true`},
		{"new namespaces by clone", `python3 /tmp/sys.py 56 0x10020000 0`},
		{"namespaces by clone3", `python3 /tmp/sys.py 435 0 88`},
		{"enter a namespace", `nsenter -t 1 -m true`},
		{"open by handle", `python3 /tmp/sys.py 304 3 0 0`},
		{"make a disk", `mknod /tmp/disk b 254 0`},
		{"make a device", `mknod /tmp/mem c 1 1`},
		{"raise sysctl", `echo 1 > /proc/sys/kernel/core_pattern`},
		{"allow user namespaces again", `echo 9 > /proc/sys/user/max_user_namespaces`},
		{"sysrq", `echo b > /proc/sysrq-trigger && grep -q . /proc/sysrq-trigger`},
		{"set the clock", `date -s 2001-01-01`},
		{"set the host name", `hostname evil`},
		{"load a module", `python3 /tmp/sys.py 175 0 0 0`},
		{"bpf", `python3 /tmp/sys.py 321 0 0 0`},
		{"perf", `python3 /tmp/sys.py 298 0 0 0 0`},
		{"io_uring", `python3 /tmp/sys.py 425 1 0`},
		{"userfaultfd", `python3 /tmp/sys.py 323 1`},
		{"keyctl", `python3 /tmp/sys.py 250 0 -3 0`},
		{"kexec", `python3 /tmp/sys.py 246 0 0 0`},
		{"vsock to the hypervisor", `python3 -c 'import socket; socket.socket(40, socket.SOCK_STREAM)'`},
		{"kernel crypto sockets", `python3 -c 'import socket; socket.socket(38, socket.SOCK_SEQPACKET)'`},
		{"another architecture's calls", `python3 /tmp/sys.py 0x40000027`},
		{"trace the agent", `python3 /tmp/sys.py 101 16 1 0 0 && grep TracerPid /proc/1/status | grep -v '\b0$'`},
		{"take the agent's descriptors", `python3 -c 'import os; f=os.pidfd_open(1); import ctypes; c=ctypes.CDLL(None, use_errno=True); exit(c.syscall(438, f, 3, 0) < 0)'`},
		{"kill the agent", `kill -9 1; sleep 0.1; kill -0 1 && false`},
		{"stop the agent", `kill -STOP 1; grep State /proc/1/status | grep -v T && false`},
		{"write the agent", `echo x >> /.orchard/agent`},
		{"replace the agent", `rm -f /.orchard/agent`},
		{"write the agent through its process", `echo x >> /proc/1/exe`},
		{"write a program through a descriptor", `exec 9</usr/bin/true; echo x > /proc/self/fd/9`},
		{"see outside by chroot", `cd / && python3 -c 'import os; os.mkdir("/tmp/jail"); fd=os.open("/", 0); os.chroot("/tmp/jail"); os.fchdir(fd); [os.chdir("..") for _ in range(99)]; os.chroot("."); exit(os.path.exists("/etc/shadow") and 0 or 1)'`},
		{"become root by set-user-id", `setpriv --reuid 65534 --clear-groups su -c id`},
		{"raise own limits", `python3 -c 'import resource as r; r.setrlimit(r.RLIMIT_CORE, (-1, -1))'`},
		{"write another user's terminal", `echo x > /dev/tty`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if out, code := sh(t, r, id, c.command); code == 0 {
				t.Errorf("%s\nworked: %s", c.command, out)
			}
		})
	}
	if got := must(t, r, id, `echo alive`); got != "alive" {
		t.Error("the sandbox did not survive the attempts")
	}
}

// syscallProgram makes the call of its first argument and fails when the call does.
const syscallProgram = `import ctypes, sys
c = ctypes.CDLL(None, use_errno=True)
n = [ctypes.c_long(int(a, 0)) for a in sys.argv[1:]]
r = c.syscall(*n)
if r < 0:
    print("errno", ctypes.get_errno())
    sys.exit(1)
`

// TestFilterNamesItsAnswer checks that calls are refused by the filter, not by chance.
func TestFilterNamesItsAnswer(t *testing.T) {
	t.Parallel()
	r := open(t)
	id := begin(t, r, sandbox.Spec{}).Spec.ID
	must(t, r, id, "cat > /tmp/sys.py <<'EOF'\n"+syscallProgram+"EOF")
	for _, c := range []struct{ name, call, errno string }{
		{"mount", "165 0 0 0 0 0", "errno 1"},
		{"clone3", "435 0 0", "errno 38"},
		{"unshare of a user namespace", "272 0x10000000", "errno 1"},
		{"a number of x32", "0x40000027", "errno 38"},
		{"a vsock", "41 40 1 0", "errno 97"},
		{"io_uring_setup", "425 1 0", "errno 1"},
	} {
		if out, _ := sh(t, r, id, "python3 /tmp/sys.py "+c.call); out != c.errno {
			t.Errorf("%s: %q, want %q", c.name, out, c.errno)
		}
	}
	must(t, r, id, "python3 /tmp/sys.py 272 0x200") // unshare(CLONE_FS) takes nothing from anybody
}

// TestRequestsOfOthersAreRefused asks one sandbox's agent with another's signature.
func TestRequestsOfOthersAreRefused(t *testing.T) {
	t.Parallel()
	r := open(t)
	a, b := begin(t, r, sandbox.Spec{}), begin(t, r, sandbox.Spec{})
	box, err := r.find(a.Spec.ID)
	if err != nil {
		t.Fatal(err)
	}
	box.mu.Lock()
	box.state.UID = b.UID // signs for b, still reaches a
	box.mu.Unlock()
	_, err = run(t.Context(), r, a.Spec.ID, wire.ExecRequest{Shell: "echo in"})
	box.mu.Lock()
	box.state.UID = a.UID
	box.mu.Unlock()
	if err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("another sandbox's signature: %v", err)
	}
}
