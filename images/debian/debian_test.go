package debian_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"orchard/images/debian"
)

func needDebian(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("dpkg-query"); err != nil {
		t.Skip("this machine is no Debian")
	}
}

// What was taken runs alone: in a root where nothing else is.
func TestProgramsRunAlone(t *testing.T) {
	t.Parallel()
	needDebian(t)
	if os.Getuid() != 0 {
		t.Skip("needs root, to run programs in another root")
	}
	set, err := debian.Packages(t.Context(), "bash", "coreutils", "git", "procps")
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	lay(t, root, set)
	if err := errors.Join(os.Mkdir(filepath.Join(root, "dev"), 0o755), os.WriteFile(filepath.Join(root, "dev/null"), nil, 0o666)); err != nil {
		t.Fatal(err) // git wants to open it
	}
	for _, c := range []struct{ name, command, want string }{
		{"a shell", `echo "$BASH_VERSINFO" | tr 0-9 y`, "y"},
		{"git", "git --version | cut -d' ' -f1-2", "git version"},
		{"libraries of libraries", "free --version | cut -d' ' -f1-2", "free from"},
		{"templates", "cd / && git init -q --bare repo && ls repo/info", "exclude"},
	} {
		cmd := exec.CommandContext(t.Context(), "/usr/bin/bash", "-c", c.command)
		cmd.Dir, cmd.Env, cmd.Stdin = "/", []string{"PATH=/usr/bin:/bin", "HOME=/"}, strings.NewReader("")
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
		out, err := cmd.CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != c.want {
			t.Errorf("%s: %v, %q, want %q", c.name, err, got, c.want)
		}
	}
}

// lay puts a set where an unpacker would.
func lay(t *testing.T, root string, set debian.Set) {
	t.Helper()
	for _, f := range set.Files {
		at := filepath.Join(root, f.Path)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		switch {
		case f.Link != "":
			err = os.Symlink(f.Link, at)
		case f.Mode.IsDir():
			err = os.MkdirAll(at, 0o755)
		default:
			err = copyFile(at, f.Source)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// The packages that files came from are named, also those of libraries alone.
func TestOwners(t *testing.T) {
	t.Parallel()
	needDebian(t)
	set, err := debian.Programs(t.Context(), "/bin/bash")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, p := range set.Packages {
		seen[p.Name] = true
		out, err := exec.Command("dpkg-query", "-W", "-f", "${Version} ${Architecture}", p.Name).Output()
		if version, arch, _ := strings.Cut(string(out), " "); err != nil || p.Version != version || !strings.HasPrefix(p.PURL, "pkg:deb/") || !strings.Contains(p.PURL, "arch="+arch) {
			t.Errorf("%+v, dpkg says %s, %v", p, out, err)
		}
	}
	if !seen["bash"] || !seen["libc6"] || len(seen) > 4 {
		t.Errorf("bash came from %v", seen)
	}
}

func TestNotThere(t *testing.T) {
	t.Parallel()
	needDebian(t)
	if _, err := debian.Packages(t.Context(), "no-such-package"); err == nil || !strings.Contains(err.Error(), "no-such-package") {
		t.Errorf("package: %v", err)
	}
	if _, err := debian.Programs(t.Context(), "/usr/bin/no-such-program"); err == nil || !strings.Contains(err.Error(), "no-such-program") {
		t.Errorf("program: %v", err)
	}
}
