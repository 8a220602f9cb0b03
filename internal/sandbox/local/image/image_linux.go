package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"

	"orchard/internal/sandbox"
)

// Store keeps unpacked images in a folder that several processes may share. Safe for
// concurrent use.
type Store struct {
	dir    string
	owners bool
	seen   memo
}

// Image is an unpacked image.
type Image struct {
	Digest  string // of its configuration: "sha256:…"
	Root    string // its root file system
	Env     []string
	Workdir string // "" when the image has none
	User    string // as the image has it: a name or number, perhaps ":group"
}

// Open is the store in dir, which is made. With owners, which takes root, files have the
// numeric owners that the image says; else all belong to this process's user.
func Open(dir string, owners bool) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the image folder: %w", err)
	}
	return &Store{dir: dir, owners: owners}, nil
}

// Get finds the image that ref names and unpacks it if it is new. *sandbox.Refused says
// that there is no such image or that it cannot be run here; other errors may pass.
func (s *Store) Get(ctx context.Context, ref string) (*Image, error) {
	stamp, stamped := stampOf(ref)
	if digest, ok := s.seen.get(stamp); stamped && ok {
		if img, err := s.load(digest); err == nil {
			return img, nil
		}
	}
	src, err := s.find(ctx, ref)
	if err != nil {
		return nil, err
	}
	defer src.close()
	hash, err := src.image.ConfigName()
	if err != nil {
		return nil, unreadable(ref, err)
	}
	if err := runsHere(ref, src.image); err != nil {
		return nil, err
	}
	img, err := s.unpacked(ctx, hash.Hex, src.image)
	if err != nil {
		return nil, unreadable(ref, err)
	}
	if stamped {
		s.seen.put(stamp, hash.Hex)
	}
	return img, nil
}

// runsHere refuses another machine's programs.
func runsHere(ref string, img v1.Image) error {
	c, err := img.ConfigFile()
	if err != nil {
		return unreadable(ref, err)
	}
	if (c.OS != "" && c.OS != "linux") || (c.Architecture != "" && c.Architecture != runtime.GOARCH) {
		return &sandbox.Refused{Image: ref, Reason: fmt.Sprintf("it is for %s/%s, this machine is linux/%s", c.OS, c.Architecture, runtime.GOARCH)}
	}
	return nil
}

// errBroken marks an image whose bytes are wrong: reading it again reads the same.
var errBroken = errors.New("the image is broken")

func unreadable(ref string, err error) error {
	if errors.Is(err, errBroken) {
		return &sandbox.Refused{Image: ref, Reason: err.Error()}
	}
	return fmt.Errorf("image %s: %w", ref, err)
}

// load is the image of a digest that was unpacked before.
func (s *Store) load(hex string) (*Image, error) {
	raw, err := os.ReadFile(filepath.Join(s.dir, hex, "config.json"))
	if err != nil {
		return nil, err
	}
	var c v1.Config
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, fmt.Errorf("read the configuration of image %s: %w", hex, err)
	}
	return &Image{
		Digest: "sha256:" + hex, Root: filepath.Join(s.dir, hex, "rootfs"),
		Env: c.Env, Workdir: c.WorkingDir, User: c.User,
	}, nil
}

// unpacked loads the image, after unpacking it if nobody has.
func (s *Store) unpacked(ctx context.Context, hex string, img v1.Image) (*Image, error) {
	if found, err := s.load(hex); !errors.Is(err, fs.ErrNotExist) {
		return found, err
	}
	unlock, err := lock(ctx, filepath.Join(s.dir, hex+".lock"))
	if err != nil {
		return nil, err
	}
	defer unlock()
	if found, err := s.load(hex); !errors.Is(err, fs.ErrNotExist) {
		return found, err
	}
	// Whoever left this was killed: its lock is ours.
	tmp := filepath.Join(s.dir, hex+".tmp")
	if err := os.RemoveAll(tmp); err != nil {
		return nil, err
	}
	if err := s.unpackTo(ctx, tmp, img); err != nil {
		return nil, errors.Join(err, os.RemoveAll(tmp))
	}
	if err := os.Rename(tmp, filepath.Join(s.dir, hex)); err != nil {
		return nil, err
	}
	return s.load(hex)
}

func (s *Store) unpackTo(ctx context.Context, dir string, img v1.Image) error {
	c, err := img.ConfigFile()
	if err != nil {
		return err
	}
	layers, err := img.Layers()
	if err != nil {
		return fmt.Errorf("%w: %w", errBroken, err)
	}
	root := filepath.Join(dir, "rootfs")
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	u, err := newUnpacker(root, s.owners)
	if err != nil {
		return err
	}
	defer u.close()
	// The digests are the configuration's, which names the image: a layer's own would be
	// those of whatever bytes came.
	digests := c.RootFS.DiffIDs
	if len(digests) != len(layers) {
		return fmt.Errorf("%w: it has %d layers and names %d", errBroken, len(layers), len(digests))
	}
	for i, layer := range layers {
		if err := u.layer(ctx, layer, digests[i]); err != nil {
			return fmt.Errorf("layer %d: %w", i+1, err)
		}
	}
	if err := u.finish(); err != nil {
		return err
	}
	raw, err := json.Marshal(c.Config)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "config.json"), raw, 0o600)
}

// lock waits until this process alone holds path.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		case <-again.C:
		}
	}
}
