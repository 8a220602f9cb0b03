package local

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"

	"orchard/internal/sandbox"
	"orchard/internal/sandbox/local/cell"
	"orchard/internal/sandbox/local/image"
)

const (
	home    = "/root"
	workdir = "/workspace" // of a spec and an image that name none
)

// rootfs is what a sandbox starts from.
type rootfs struct {
	lower    string   // the root file system under the sandbox's own
	shown    []string // folders of the machine, seen at the same path
	goCache  string   // a warm Go build cache, or ""
	env      map[string]string
	workdir  string
	uid, gid int
}

// rootfs finds or makes what spec starts from.
func (r *Runtime) rootfs(ctx context.Context, spec sandbox.Spec) (*rootfs, error) {
	var root *rootfs
	if spec.Image == HostImage {
		host, err := r.host.get(ctx)
		if err != nil {
			return nil, err
		}
		// A task whose tests would pass must not run out of time because the standard
		// library is being compiled: better to wait once.
		if !r.opts.Cold {
			_ = r.Warm(ctx) // without it tests only take longer
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
		}
		root = host.rootfs(r.warm.ready(host.goTool))
	} else {
		img, err := r.images.Get(ctx, spec.Image)
		if err != nil {
			return nil, err
		}
		if root, err = r.imageRootfs(spec.Image, img); err != nil {
			return nil, err
		}
	}
	maps.Copy(root.env, spec.Env)
	if spec.Workdir != "" {
		root.workdir = spec.Workdir
	}
	if root.workdir == "" {
		root.workdir = workdir
	}
	return root, nil
}

func (r *Runtime) imageRootfs(ref string, img *image.Image) (*rootfs, error) {
	uid, gid, err := img.IDs()
	if err != nil {
		return nil, &sandbox.Refused{Image: ref, Reason: err.Error()}
	}
	if !r.ids.ranges {
		uid, gid = 0, 0 // the only user there is
	}
	root := &rootfs{lower: img.Root, workdir: img.Workdir, uid: uid, gid: gid, env: map[string]string{"PATH": SystemPath}}
	if uid == 0 {
		root.env["HOME"] = home
	}
	for _, entry := range img.Env {
		if key, value, ok := strings.Cut(entry, "="); ok && key != "" {
			root.env[key] = value
		}
	}
	return root, nil
}

// config is the cell for a box of root.
func (r *Runtime) config(b *box, root *rootfs) *cell.Config {
	id := b.state.Spec.ID
	c := &cell.Config{
		Hostname: id,
		Box:      cell.Tree{Source: b.fs()},
		Overlays: []cell.Overlay{{Lower: cell.Tree{Source: root.lower}, Upper: "upper", Work: "work", Target: "/"}},
		Files: []cell.File{
			{Path: "/etc/hostname", Mode: 0o644, Data: id + "\n"},
			{Path: "/etc/hosts", Mode: 0o644, Data: "127.0.0.1\tlocalhost " + id + "\n::1\tlocalhost ip6-localhost\n"},
			{Path: "/etc/resolv.conf", Mode: 0o644, Data: "# no network\n"},
		},
		Workdir:      root.workdir,
		Agent:        cell.Mount{Tree: cell.Tree{Source: r.agentPath()}, Target: "/.orchard/agent"},
		UID:          root.uid,
		GID:          root.gid,
		SharedMemory: max(b.limits.memory/4, 64<<20),
	}
	if root.goCache != "" {
		c.Overlays = append(c.Overlays, cell.Overlay{Lower: cell.Tree{Source: root.goCache}, Upper: goUpper, Work: goWork, Target: goCacheInside})
	}
	for _, dir := range root.shown {
		c.Mounts = append(c.Mounts, cell.Mount{Tree: cell.Tree{Source: dir}, Target: dir})
	}
	if r.cgroups == nil {
		c.DataLimit, c.ProcessLimit = uint64(b.limits.memory), uint64(b.limits.processes)
	}
	c.Argv = []string{
		c.Agent.Target, "--listen", fmt.Sprintf("fd:%d", cell.ListenFD), "--uid", b.state.UID,
		"--keys", r.publicKey, "--cwd", root.workdir, "--lease", b.state.Spec.Lease.String(),
	}
	env := root.env
	if r.cgroups != nil && b.limits.cpu > 0 && b.limits.cpu < float64(runtime.NumCPU()) {
		// Go programs that see no cgroup would start a thread for every processor.
		if _, set := env["GOMAXPROCS"]; !set {
			env["GOMAXPROCS"] = fmt.Sprint(max(1, int(b.limits.cpu+0.999)))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(env)) {
		c.Env = append(c.Env, key+"="+env[key])
	}
	return c
}
