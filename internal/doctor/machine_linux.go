package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"orchard/internal/sandbox/local"
)

// oldest is the first kernel with mount_setattr and with overlays in user namespaces.
const oldestMajor, oldestMinor = 5, 12

// machine looks at what the kernel gives.
func machine(ctx context.Context) []Finding {
	findings := []Finding{kernel(local.KernelRelease())}
	for i, n := range local.Namespaces {
		f := namespace(n)
		findings = append(findings, f)
		if i == 0 && f.Status == Fail {
			break // the others need this one
		}
	}
	return append(findings, seccomp(), cgroups(ctx))
}

func kernel(release string) Finding {
	f := Finding{Name: "kernel", Status: OK, Found: "Linux " + release}
	var major, minor int
	if n, _ := fmt.Sscanf(release, "%d.%d", &major, &minor); n == 2 && (major < oldestMajor || major == oldestMajor && minor < oldestMinor) {
		f.Status = Fail
		f.Means = fmt.Sprintf("Sandboxes need Linux %d.%d: overlays and read-only trees in user namespaces.", oldestMajor, oldestMinor)
		f.Fix = "Upgrade the kernel."
	}
	return f
}

func namespace(n local.Namespace) Finding {
	f := Finding{Name: n.Name + " namespace", Status: OK, Found: "can be made"}
	err := n.Try()
	if err == nil {
		return f
	}
	f.Status, f.Found = Fail, err.Error()
	f.Means = "Sandboxes are isolated by it; there is no mode without."
	f.Fix = namespaceFix(errors.Is(err, unix.ENOSPC))
	return f
}

// switches are the settings by which systems forbid user namespaces.
var switches = []struct{ file, bad, fix string }{
	{"/proc/sys/user/max_user_namespaces", "0", "sysctl -w user.max_user_namespaces=10000"},
	{"/proc/sys/kernel/unprivileged_userns_clone", "0", "sysctl -w kernel.unprivileged_userns_clone=1"},
	{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"},
}

func namespaceFix(full bool) string {
	if full {
		return "This machine has as many as it allows: raise the limits in /proc/sys/user/max_*_namespaces."
	}
	for _, s := range switches {
		raw, err := os.ReadFile(s.file)
		if err == nil && strings.TrimSpace(string(raw)) == s.bad {
			return "As root: " + s.fix
		}
	}
	return "In a container, allow unshare, mount and pivot_root (Docker: --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined), or run on the machine itself."
}

func seccomp() Finding {
	raw, err := os.ReadFile("/proc/sys/kernel/seccomp/actions_avail")
	if err == nil && strings.Contains(string(raw), "errno") {
		return Finding{Name: "seccomp", Status: OK, Found: "filters are there"}
	}
	return Finding{Name: "seccomp", Status: Fail, Found: fmt.Sprintf("no filters: %v", err), Means: "System calls that lead out of a sandbox could not be refused.", Fix: "Use a kernel with CONFIG_SECCOMP_FILTER."}
}

func cgroups(ctx context.Context) Finding {
	f := Finding{Name: "cgroups", Status: Warn,
		Means: "Limits are partial: memory by process, processors not at all, and no end names a lack of memory.",
		Fix:   "Run as root, or in a cgroup that is yours: systemd-run --user --scope -p Delegate=yes orchard …"}
	scratch, err := os.MkdirTemp("", "orchard-doctor-")
	if err != nil {
		f.Found = err.Error()
		return f
	}
	defer os.RemoveAll(scratch)
	version, err := local.TryCgroups(ctx, scratch)
	if err != nil {
		f.Found = err.Error()
		return f
	}
	return Finding{Name: "cgroups", Status: OK, Found: version + ": cpu, memory and pids can be limited"}
}

// Free space below which sandboxes, or a run of the examples, are likely to fill the disk.
const (
	leastFree = 1 << 30
	goodFree  = 5 << 30
)

func disk(dir string) Finding {
	f := Finding{Name: "disk", Status: Fail, Means: "Sandboxes, images and caches are kept there.", Fix: "Free some space, or choose another folder with --state-dir."}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		f.Found = err.Error()
		return f
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		f.Found = fmt.Sprintf("%s: %v", dir, err)
		return f
	}
	free := st.Bavail * uint64(st.Bsize)
	f.Found = fmt.Sprintf("%.1f GiB free at %s", float64(free)/(1<<30), dir)
	switch {
	case free >= goodFree:
		return Finding{Name: "disk", Status: OK, Found: f.Found}
	case free >= leastFree:
		f.Status = Warn
	}
	return f
}
