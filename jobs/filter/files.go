package filter

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/objstore"
	"orchard/internal/runner"
	"orchard/jobs/filter/contamination"
	"orchard/jobs/filter/funnel"
)

// The files beside the result.
const (
	FileDropped       = "dropped.jsonl"       // each dropped task with its first reason, in the order read
	FileContamination = "contamination.jsonl" // where tasks were found in evaluation sets
	FileFunnel        = "funnel"              // .json, .md and .svg
)

// dropped is a line of dropped.jsonl.
type dropped struct {
	TaskID string `json:"task_id"`
	Rule   string `json:"rule"`   // the step of the funnel
	Reason string `json:"reason"` // under which it is counted
	Detail string `json:"detail"`
}

// files is the lists while they grow: beside the dataset, so that memory does not depend
// on their length.
type files struct {
	dir   string
	lists []*lines // dropped, and with evaluation sets contamination
}

// lines is a file of JSON lines.
type lines struct {
	name string
	file *os.File
	text *bufio.Writer
	json *json.Encoder
}

func newFiles(evals bool) (*files, error) {
	dir, err := os.MkdirTemp("", "orchard-filter-")
	if err != nil {
		return nil, err
	}
	f := &files{dir: dir}
	names := []string{FileDropped}
	if evals {
		names = append(names, FileContamination)
	}
	for _, name := range names {
		file, err := os.Create(dir + "/" + name)
		if err != nil {
			return nil, errors.Join(err, f.close())
		}
		text := bufio.NewWriterSize(file, 1<<18)
		l := &lines{name: name, file: file, text: text, json: json.NewEncoder(text)}
		l.json.SetEscapeHTML(false)
		f.lists = append(f.lists, l)
	}
	return f, nil
}

func (f *files) drop(d dropped) error              { return f.lists[0].json.Encode(d) }
func (f *files) found(m contamination.Match) error { return f.lists[1].json.Encode(m) }

func (f *files) close() error {
	var errs []error
	for _, l := range f.lists {
		errs = append(errs, l.file.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(f.dir))...)
}

// put checks the funnel and stores everything beside the result.
func (f *files) put(ctx context.Context, pass *runner.Pass[record.Task], counts *funnel.Funnel) error {
	if err := counts.Check(); err != nil {
		return exit.With(exit.Bug, err)
	}
	for _, l := range f.lists {
		if err := l.text.Flush(); err != nil {
			return fmt.Errorf("write %s: %w", l.name, err)
		}
		info, err := l.file.Stat()
		if err != nil {
			return err
		}
		if _, err := pass.PutFile(ctx, l.name, objstore.File{Path: l.file.Name(), Bytes: info.Size()}); err != nil {
			return err
		}
	}
	all, err := json.MarshalIndent(counts, "", "  ")
	if err != nil {
		return err
	}
	for _, file := range []struct {
		ending string
		text   []byte
	}{{".json", append(all, '\n')}, {".md", []byte(counts.Markdown())}, {".svg", []byte(counts.SVG())}} {
		if _, err := pass.PutFile(ctx, FileFunnel+file.ending, objstore.Bytes(file.text)); err != nil {
			return err
		}
	}
	return nil
}
