package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"orchard/internal/seal"
)

// service is the folder of one running service. Its lock says that it runs: the kernel
// lets go of it however the service ends.
type service struct {
	id   string
	dir  string
	lock *os.File
}

// openService removes what dead services left in stateDir and makes a folder for this one.
func openService(stateDir string) (*service, error) {
	all := filepath.Join(stateDir, "services")
	if err := os.MkdirAll(all, 0o700); err != nil {
		return nil, fmt.Errorf("make the state folder: %w", err)
	}
	// One at a time, so that no sweep sees a folder whose lock is not taken yet.
	gate, err := os.OpenFile(filepath.Join(all, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	defer gate.Close()
	if err := unix.Flock(int(gate.Fd()), unix.LOCK_EX); err != nil {
		return nil, fmt.Errorf("lock %s: %w", gate.Name(), err)
	}
	if err := sweep(all); err != nil {
		return nil, fmt.Errorf("remove what an earlier service left: %w", err)
	}
	s := &service{id: seal.Random(6)}
	s.dir = filepath.Join(all, s.id)
	if err := os.MkdirAll(filepath.Join(s.dir, "boxes"), 0o700); err != nil {
		return nil, err
	}
	if s.lock, err = lockNow(filepath.Join(s.dir, "lock")); err != nil {
		return nil, err
	}
	return s, nil
}

// lockNow is the locked file, or an error that is unix.EWOULDBLOCK when somebody has it.
func lockNow(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}

// sweep removes the folders and cgroups of services that are dead.
func sweep(all string) error {
	entries, err := os.ReadDir(all)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		dir := filepath.Join(all, e.Name())
		lock, err := lockNow(filepath.Join(dir, "lock"))
		if errors.Is(err, unix.EWOULDBLOCK) {
			continue
		}
		if err != nil {
			return err
		}
		err = errors.Join(removeRecordedCgroups(dir), removeTree(dir))
		lock.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// close removes the folder; every sandbox has ended before.
func (s *service) close() error {
	return errors.Join(removeTree(s.dir), s.lock.Close())
}

// boxDir is a sandbox's folder.
func (s *service) boxDir(uid string) string { return filepath.Join(s.dir, "boxes", uid) }

// removeTree is os.RemoveAll that is not stopped by folders which a sandbox, or the
// overlay, has closed to their owner.
func removeTree(dir string) error {
	if err := os.RemoveAll(dir); err == nil {
		return nil
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			// Before its entries are read: WalkDir calls this first.
			return os.Chmod(path, 0o700)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("open %s for removal: %w", dir, err)
	}
	return os.RemoveAll(dir)
}
