package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// systemDirs are the folders of the machine that hold programs. Those that are links,
// as on most systems today, are links in the sandbox.
var systemDirs = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}

// publicEtc are the parts of /etc that programs of /usr need and that hold no secret: no
// account, key, token or address. Only what every user may read is taken.
var publicEtc = []string{
	"alternatives", "ca-certificates", "ca-certificates.conf", "debian_version", "fonts", "inputrc",
	"java", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "magic", "mime.types", "os-release",
	"perl", "pki/tls/certs", "pki/ca-trust", "protocols", "services", "shells",
	"ssl/cert.pem", "ssl/certs", "ssl/openssl.cnf", "terminfo", "timezone",
}

// publicEtcPatterns are such parts with a version in their names.
var publicEtcPatterns = []string{"java-*", "python*"}

// writtenEtc is the rest of the sandbox's /etc.
var writtenEtc = map[string]string{
	"passwd":        "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
	"group":         "root:x:0:\ntty:x:5:\nnogroup:x:65534:\n",
	"nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\nservices: files\nprotocols: files\n",
	"profile":       "umask 022\n",
}

// host is the "host" image: a skeleton of a root file system, made once, over which the
// machine's folders of programs are shown read-only.
type host struct {
	dir    string // where the skeleton goes
	tools  []string
	goTool *goTool // nil without Go on PATH

	mu    sync.Mutex
	made  bool
	shown []string
}

// get is the host image, whole.
func (h *host) get(ctx context.Context) (*host, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.made {
		return h, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := h.make(); err != nil {
		return nil, fmt.Errorf("make the host image: %w", err)
	}
	h.made = true
	return h, nil
}

func (h *host) make() error {
	for path, mode := range map[string]fs.FileMode{
		"": 0o755, "etc": 0o755, "home": 0o755, "media": 0o755, "mnt": 0o755, "opt": 0o755, "root": 0o700, "run": 0o755,
		"run/lock": 0o777 | fs.ModeSticky, "srv": 0o755, "sys": 0o555, "proc": 0o555, "dev": 0o755, "tmp": 0o777 | fs.ModeSticky,
		"var": 0o755, "var/cache": 0o755, "var/lib": 0o755, "var/log": 0o755, "var/tmp": 0o777 | fs.ModeSticky, "workspace": 0o755,
	} {
		dir := filepath.Join(h.dir, path)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := os.Chmod(dir, mode); err != nil {
			return err
		}
	}
	for link, target := range map[string]string{"var/run": "/run", "var/lock": "/run/lock", "etc/mtab": "/proc/self/mounts"} {
		if err := os.Symlink(target, filepath.Join(h.dir, link)); err != nil {
			return err
		}
	}
	if err := h.show(); err != nil {
		return err
	}
	return h.etc()
}

// show decides which of the machine's folders are seen, and makes their mount points.
func (h *host) show() error {
	wanted := append([]string{}, systemDirs...)
	if h.goTool != nil {
		wanted = append(wanted, h.goTool.root)
	}
	for _, dir := range append(wanted, h.tools...) {
		info, err := os.Lstat(dir)
		if errors.Is(err, fs.ErrNotExist) || h.covered(dir) {
			continue
		}
		if err != nil {
			return err
		}
		if info.Mode().Type() == fs.ModeSymlink {
			target, err := os.Readlink(dir)
			if err != nil {
				return err
			}
			if err := os.Symlink(target, filepath.Join(h.dir, dir)); err != nil {
				return err
			}
			continue
		}
		if err := os.MkdirAll(filepath.Join(h.dir, dir), 0o755); err != nil {
			return err
		}
		h.shown = append(h.shown, dir)
	}
	return nil
}

// covered says whether dir is seen already, in a folder above it.
func (h *host) covered(dir string) bool {
	for _, above := range h.shown {
		if dir == above || strings.HasPrefix(dir, above+"/") {
			return true
		}
	}
	return false
}

func (h *host) etc() error {
	for name, text := range writtenEtc {
		if err := os.WriteFile(filepath.Join(h.dir, "etc", name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	names := publicEtc
	for _, pattern := range publicEtcPatterns {
		found, err := filepath.Glob(filepath.Join("/etc", pattern))
		if err != nil {
			return err
		}
		for _, path := range found {
			names = append(names, strings.TrimPrefix(path, "/etc/"))
		}
	}
	for _, name := range names {
		if err := copyPublic(filepath.Join("/etc", name), filepath.Join(h.dir, "etc", name)); err != nil {
			return err
		}
	}
	return nil
}

// copyPublic copies what every user of the machine may read: links as links, folders
// whole, and nothing that is neither file, link nor folder.
func copyPublic(from, to string) error {
	info, err := os.Lstat(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	switch mode := info.Mode(); {
	case mode.Type() == fs.ModeSymlink:
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	case mode.IsDir() && mode.Perm()&0o005 == 0o005:
		entries, err := os.ReadDir(from)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(to, 0o755); err != nil {
			return err
		}
		for _, e := range entries {
			if err := copyPublic(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
				return err
			}
		}
	case mode.IsRegular() && mode.Perm()&0o004 != 0:
		content, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		return os.WriteFile(to, content, 0o644|mode.Perm()&0o111)
	}
	return nil
}

// rootfs is a new sandbox's view; warm is a Go cache, or "".
func (h *host) rootfs(warm string) *rootfs {
	var path []string
	if h.goTool != nil {
		path = append(path, filepath.Join(h.goTool.root, "bin"))
	}
	for _, tool := range h.tools {
		if bin := filepath.Join(tool, "bin"); isDir(bin) {
			tool = bin
		}
		path = append(path, tool)
	}
	env := map[string]string{"PATH": strings.Join(append(path, SystemPath), ":"), "HOME": home, "LANG": "C.UTF-8"}
	if h.goTool != nil {
		maps.Copy(env, goEnv)
	}
	return &rootfs{lower: h.dir, shown: h.shown, goCache: warm, env: env}
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
