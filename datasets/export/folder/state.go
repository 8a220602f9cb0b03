package folder

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"

	"orchard/internal/exit"
	"orchard/internal/seal"
	"orchard/internal/whole"
)

// stateName is the list of what is in the folder. It is there from the first finished
// file on, so that a second call goes on where the first was.
const stateName = "orchard-export.json"

// state is the content of that file.
type state struct {
	Format    int      `json:"format"`
	Dataset   string   `json:"dataset"` // name
	Version   string   `json:"version"`
	Kind      string   `json:"kind"`
	Written   string   `json:"written_as"` // one of Formats
	Columns   []string `json:"columns"`    // empty is all
	Where     []string `json:"where"`
	FileBytes int64    `json:"file_bytes"`
	Files     []entry  `json:"files"`
	Finished  bool     `json:"finished"` // all files are written, if not yet named
	Complete  bool     `json:"complete"` // and named, and the card is there
}

// entry is a finished file.
type entry struct {
	Name   string `json:"name"` // "" until all are finished
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
	Rows   int64  `json:"rows"`
	Last   string `json:"last_id"`
}

// load takes up what an earlier call left, if it did the same and left it whole.
func (e *export) load() error {
	q := e.o.Query
	want := state{
		Format: 1, Dataset: e.v.Location().Name, Version: e.v.Digest(), Kind: q.Schema().Name, Written: e.o.Format,
		Columns: append([]string{}, q.Columns()...), Where: append([]string{}, q.Where()...), FileBytes: e.o.FileBytes, Files: []entry{},
	}
	path := filepath.Join(e.dir, stateName)
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		e.state = want
		return e.clear(0)
	}
	if err != nil {
		return exit.Configf("read %s: %w", path, err)
	}
	if err := json.Unmarshal(raw, &e.state); err != nil {
		return exit.Inputf("%s: is damaged: %w; choose another folder", path, err)
	}
	have := e.state
	have.Files, have.Finished, have.Complete = []entry{}, false, false
	if !reflect.DeepEqual(have, want) {
		return exit.Inputf("%s: the folder holds another export, %s of %s@%s; choose another folder", path, have.Written, have.Dataset, short(have.Version))
	}
	for i, f := range e.state.Files {
		if err := e.present(i, f); err != nil {
			return err
		}
	}
	return e.clear(len(e.state.Files))
}

// present checks a finished file, which has its name or not yet. One that is gone makes
// it and all after it unfinished, as where the next one begins depends on it.
func (e *export) present(i int, f entry) error {
	if i >= len(e.state.Files) {
		return nil // after one that is gone
	}
	places := []string{e.hidden(i)}
	if f.Name != "" {
		places = []string{filepath.Join(e.dir, f.Name), e.hidden(i)}
	}
	for _, path := range places {
		sum, err := hashFile(path)
		switch {
		case err == nil && sum == f.SHA256:
			return nil
		case err == nil && path != e.hidden(i):
			return exit.Inputf("%s: was changed after it was written: it has sha256 %s, expected %s; delete it and run this again", path, short(sum), short(f.SHA256))
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return exit.Configf("read %s: %w", path, err)
		}
	}
	e.state.Files = e.state.Files[:i]
	e.state.Finished, e.state.Complete = false, false
	return nil
}

// clear removes what a process that died had begun, and finished files that no longer
// count; those that have their names are found when they are written again.
func (e *export) clear(from int) error {
	data := filepath.Join(e.dir, "data")
	left, err := os.ReadDir(data)
	if err != nil {
		return exit.Configf("read %s: %w", data, err)
	}
	keep := map[string]bool{}
	for i := range from {
		keep[e.hidden(i)] = true
	}
	for _, f := range left {
		path := filepath.Join(data, f.Name())
		if strings.HasPrefix(f.Name(), ".train-") && !keep[path] {
			if err := os.Remove(path); err != nil {
				return exit.Configf("clear %s: %w", path, err)
			}
		}
	}
	return nil
}

// save replaces the state as a whole.
func (e *export) save() error {
	raw, err := json.MarshalIndent(e.state, "", " ")
	if err != nil {
		return err
	}
	return replace(filepath.Join(e.dir, stateName), append(raw, '\n'))
}

// replace writes a file so that a reader, and a machine that loses power, sees the old
// or the new one.
func replace(path string, content []byte) error {
	err := whole.Write(path, 0o644, func(f *os.File) error {
		_, err := f.Write(content)
		return errors.Join(err, f.Sync())
	})
	if err != nil {
		return trouble(fmt.Errorf("write %s: %w", path, err))
	}
	return nil
}

// lock keeps a second process out of the folder; it ends with this one.
func lock(dir string) (unlock func(), err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, exit.Configf("write to %s: %w", dir, err)
	}
	if err := syscall.Flock(int(d.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		d.Close()
		return nil, exit.Retryf("%s: another process writes to it: %w", dir, err)
	}
	return func() { d.Close() }, nil
}

// trouble is the class of an error of the local disk.
func trouble(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return exit.With(exit.Gone, err)
	}
	return exit.With(exit.Config, err)
}

func hashFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return seal.Reader(f)
}

func short(digest string) string { return digest[:min(12, len(digest))] }
