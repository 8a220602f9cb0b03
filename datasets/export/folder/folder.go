// Package folder writes a version, or a choice of its rows and columns, into a local
// folder as files for other programs: Parquet, JSON lines or Arrow IPC, named as
// Hugging Face datasets expects them, with a card and a list of checksums.
//
// The same version and choice give the same bytes. A file is as large as was asked for,
// give or take a batch, and one batch is in memory. What was finished when a process
// died is found again and not written twice; a file that is not what this package wrote
// is never replaced.
package folder

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"orchard/datasets"
	"orchard/datasets/query"
	"orchard/internal/exit"
)

// Formats is the names of the formats; what follows a dot is how the lines are compressed.
var Formats = []string{"parquet", "jsonl", "jsonl.zst", "jsonl.gz", "arrow"}

// DefaultFileBytes is when a file is full, as stored.
const DefaultFileBytes = 256 << 20

// Options say what is written.
type Options struct {
	Format    string       // one of Formats
	Query     *query.Query // never nil
	FileBytes int64        // when a file is full; 0 is DefaultFileBytes
	// Progress is told how many rows of the version were seen; may be nil.
	Progress func(rows int64)
}

// Result is what is in the folder at the end.
type Result struct {
	Files   int
	Rows    int64
	Bytes   int64
	Written int // of Files by this call; the others were there
}

// Write makes the files in dir, which is made if need be. Two at once in one folder are
// refused.
func Write(ctx context.Context, v *datasets.Version, dir string, o Options) (Result, error) {
	if !slices.Contains(Formats, o.Format) {
		return Result{}, exit.Configf("format %q; there is %s", o.Format, strings.Join(Formats, ", "))
	}
	if o.FileBytes <= 0 {
		o.FileBytes = DefaultFileBytes
	}
	if err := os.MkdirAll(filepath.Join(dir, "data"), 0o755); err != nil {
		return Result{}, exit.Configf("write to %s: %w", dir, err)
	}
	unlock, err := lock(dir)
	if err != nil {
		return Result{}, err
	}
	defer unlock()
	e := &export{dir: dir, v: v, o: o}
	if err := e.load(); err != nil {
		return Result{}, err
	}
	if !e.state.Finished {
		if err := e.rows(ctx); err != nil {
			return Result{}, err
		}
	}
	if err := e.publish(); err != nil {
		return Result{}, err
	}
	r := Result{Files: len(e.state.Files), Written: e.written}
	for _, f := range e.state.Files {
		r.Rows += f.Rows
		r.Bytes += f.Bytes
	}
	return r, nil
}

// export is one call of Write.
type export struct {
	dir     string
	v       *datasets.Version
	o       Options
	state   state
	written int
}

// rows writes files after those that are finished. At least one is written, for its
// schema.
func (e *export) rows(ctx context.Context) error {
	from, seen := "", int64(0)
	if n := len(e.state.Files); n > 0 {
		from = e.state.Files[n-1].Last
		for _, f := range e.state.Files {
			seen += f.Rows
		}
	}
	var f *file
	defer func() {
		if f != nil {
			f.abort()
		}
	}()
	for row, err := range e.o.Query.Scan(ctx, e.v, from) {
		if err != nil {
			return err
		}
		if f == nil {
			if f, err = e.create(len(e.state.Files)); err != nil {
				return err
			}
		}
		if err := f.write(row); err != nil {
			return exit.Inputf("%s: row %q: %w", e.v.Location(), row.ID, err)
		}
		if seen++; e.o.Progress != nil {
			e.o.Progress(seen)
		}
		if f.full(e.o.FileBytes) {
			if err := e.end(&f); err != nil {
				return err
			}
		}
	}
	if f == nil && len(e.state.Files) == 0 {
		var err error
		if f, err = e.create(0); err != nil {
			return err
		}
	}
	if f != nil {
		if err := e.end(&f); err != nil {
			return err
		}
	}
	e.state.Finished = true
	return e.save()
}

// end closes a file and writes down that it is whole. The file has no place yet: how
// many there are is part of each one's name.
func (e *export) end(f **file) error {
	entry, err := (*f).close()
	*f = nil
	if err != nil {
		return err
	}
	e.state.Files = append(e.state.Files, entry)
	e.written++
	return e.save()
}

// publish gives the finished files their names, and writes the card.
func (e *export) publish() error {
	for i := range e.state.Files {
		f := &e.state.Files[i]
		f.Name = fmt.Sprintf("data/train-%05d-of-%05d.%s", i, len(e.state.Files), e.o.Format)
		final, hidden := filepath.Join(e.dir, f.Name), e.hidden(i)
		switch sum, err := hashFile(final); {
		case err == nil && sum == f.SHA256:
			os.Remove(hidden) // of a process that died between link and remove
			continue
		case err == nil:
			return inTheWay(final)
		case !os.IsNotExist(err):
			return exit.Configf("write to %s: %w", e.dir, err)
		}
		if err := os.Link(hidden, final); err != nil { // unlike a rename it replaces nothing
			return exit.Configf("write to %s: %w", e.dir, err)
		}
		os.Remove(hidden)
	}
	if err := e.card(); err != nil {
		return err
	}
	e.state.Complete = true
	return e.save()
}

func (e *export) hidden(i int) string {
	return filepath.Join(e.dir, "data", fmt.Sprintf(".train-%05d.%s", i, e.o.Format))
}

func inTheWay(path string) error {
	return exit.Inputf("%s: is in the way: it is not the file that this would write; move it or choose another folder", path)
}
