package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// spoolDir is the agent's own folder, for streams and for commands too long for an
// argument. User code may have the same uid and delete or replace anything in and
// above it: files are made exclusively, through a handle on the folder, and are never
// opened again by name. Safe for concurrent use.
type spoolDir struct {
	parent  string
	limit   int64 // of a stream's file, in bytes
	reserve int64 // free space to leave, in bytes

	mu   sync.Mutex
	root *os.Root
}

// openSpoolDir makes a fresh private folder in parent, which is made when absent.
func openSpoolDir(parent string) (*spoolDir, error) {
	parent, err := filepath.Abs(parent)
	if err != nil {
		return nil, fmt.Errorf("spool folder %s: %w", parent, err)
	}
	d := &spoolDir{parent: parent, limit: spoolLimit, reserve: diskReserve}
	if err := d.renew(); err != nil {
		return nil, err
	}
	return d, nil
}

// renew opens another fresh folder. The old one's handle stays open for those who have it.
func (d *spoolDir) renew() error {
	if err := os.MkdirAll(d.parent, 0o755); err != nil {
		return fmt.Errorf("spool folder: %w", err)
	}
	path, err := os.MkdirTemp(d.parent, "orchard-spool-") // 0700
	if err != nil {
		return fmt.Errorf("spool folder: %w", err)
	}
	if d.root, err = os.OpenRoot(path); err != nil {
		return fmt.Errorf("spool folder: %w", err)
	}
	return nil
}

// create makes a file that was not there, readable and writable by the owner only.
// When user code has deleted the folder there is a new one.
func (d *spoolDir) create(name string) (*os.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	const flags = os.O_RDWR | os.O_CREATE | os.O_EXCL
	f, err := d.root.OpenFile(name, flags, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		if err := d.renew(); err != nil {
			return nil, err
		}
		f, err = d.root.OpenFile(name, flags, 0o600)
	}
	return f, err
}

// path is where user code finds the file name.
func (d *spoolDir) path(name string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return filepath.Join(d.root.Name(), name)
}

// remove deletes the file name if it is there.
func (d *spoolDir) remove(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	_ = d.root.Remove(name)
}

// close deletes the folder.
func (d *spoolDir) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.root.Close()
	os.RemoveAll(d.root.Name())
}
