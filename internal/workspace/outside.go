package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"

	"orchard/internal/sandbox"
)

// Without git in the sandbox, its working tree and the prepared tree are fetched as
// tar files and the same scripts run here, over a copy.

const baseTar = "/base.tar" // the prepared tree, in the private folder

// placeFromOutside unpacks the bundle here and sends the files. The history stays
// outside: nothing in the sandbox could read it.
func (s site) placeFromOutside(ctx context.Context, bundle Source) error {
	return s.outside(func(here string) error {
		r, _, err := bundle(ctx)
		if err != nil {
			return fmt.Errorf("open the bundle of task %s: %w", s.task.TaskID, err)
		}
		defer r.Close()
		f, err := os.Create(here + "/private/bundle")
		if err != nil {
			return err
		}
		_, err = io.Copy(f, r)
		if err := errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("copy the bundle of task %s: %w", s.task.TaskID, err)
		}
		if err := s.here(ctx, here, "unpack.sh", nil); err != nil {
			return err
		}
		if err := packTar(here+"/tree", here+"/tree.tar"); err != nil {
			return fmt.Errorf("pack the tree of task %s: %w", s.task.TaskID, err)
		}
		tree, err := os.Open(here + "/tree.tar")
		if err != nil {
			return err
		}
		defer tree.Close()
		info, err := tree.Stat()
		if err != nil {
			return err
		}
		if err := s.sb.Put(ctx, s.private+"/tree.tar", tree, info.Size(), 0o600); err != nil {
			return fmt.Errorf("send the tree of task %s: %w", s.task.TaskID, err)
		}
		w, p := quote(s.task.Workdir), quote(s.private)
		_, err = s.must(ctx, "unpack its tree with tar", sandbox.Command{Timeout: scriptTimeout,
			Shell: "mkdir -p " + w + " && cd " + w + " && tar -xf " + p + "/tree.tar && rm -f " + p + "/tree.tar " + p + "/bundle"})
		return err
	})
}

// keepTar records the prepared tree in the sandbox.
func (s site) keepTar(ctx context.Context) error { return s.tar(ctx, baseTar) }

func (s site) tar(ctx context.Context, name string) error {
	_, err := s.must(ctx, "pack the working tree with tar", sandbox.Command{Timeout: scriptTimeout,
		Shell: "mkdir -p " + quote(s.task.Workdir) + " && cd " + quote(s.task.Workdir) + " && tar -cf " + quote(s.private+name) + " ."})
	return err
}

func (s site) diffOutside(ctx context.Context) (diff []byte, err error) {
	err = s.outside(func(here string) error {
		if err := s.tar(ctx, "/now.tar"); err != nil {
			return err
		}
		if err := s.fetchTree(ctx, baseTar, here+"/tree"); err != nil {
			return err
		}
		if err := s.here(ctx, here, "baseline.sh", map[string]string{"FORCE": "1"}); err != nil {
			return err
		}
		if err := os.RemoveAll(here + "/tree"); err != nil {
			return err
		}
		if err := os.Mkdir(here+"/tree", 0o700); err != nil {
			return err
		}
		if err := s.fetchTree(ctx, "/now.tar", here+"/tree"); err != nil {
			return err
		}
		if err := s.here(ctx, here, "diff.sh", nil); err != nil {
			return err
		}
		info, err := os.Stat(here + "/private/diff")
		if err != nil {
			return err
		}
		if info.Size() > maxDiff {
			return &TooLargeError{Bytes: info.Size()}
		}
		diff, err = os.ReadFile(here + "/private/diff")
		return err
	})
	return diff, err
}

// fetchTree unpacks a tar file of the private folder into dir here.
func (s site) fetchTree(ctx context.Context, name, dir string) error {
	r, err := s.sb.Get(ctx, s.private+name)
	if err != nil {
		return fmt.Errorf("sandbox %s, task %s: get the tree %s: %w", s.sb.ID(), s.task.TaskID, name, err)
	}
	defer r.Close()
	if err := unpackTar(r, dir); err != nil {
		return fmt.Errorf("sandbox %s, task %s: unpack %s: %w", s.sb.ID(), s.task.TaskID, name, err)
	}
	return nil
}

// outside runs fn with a new folder here that has the folders tree and private.
func (s site) outside(fn func(here string) error) error {
	here, err := os.MkdirTemp("", "workspace-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(here)
	for _, d := range []string{"/tree", "/private"} {
		if err := os.Mkdir(here+d, 0o700); err != nil {
			return err
		}
	}
	return fn(here)
}

// here runs a script on this machine, over the copy in the folder here.
func (s site) here(ctx context.Context, here, name string, vars map[string]string) error {
	v := map[string]string{"W": here + "/tree", "P": here + "/private", "B": s.task.BaseCommit}
	maps.Copy(v, vars)
	var stderr bytes.Buffer
	c := exec.CommandContext(ctx, "/bin/sh", "-c", commandLine(v, name, nil))
	c.Stderr = &stderr
	err := c.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &exit) && exit.ExitCode() == exitTask:
		return s.invalid("%s", tail(bytes.TrimSpace(stderr.Bytes())))
	case errors.As(err, &exit) && exit.ExitCode() == exitNoGit:
		return fmt.Errorf("task %s: neither the sandbox nor this machine has git", s.task.TaskID)
	}
	return fmt.Errorf("task %s: %s over a copy: %w: %s", s.task.TaskID, name, err, tail(stderr.Bytes()))
}
