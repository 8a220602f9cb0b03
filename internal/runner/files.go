package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"orchard/datasets"
	"orchard/internal/exit"
	"orchard/internal/objstore"
	"orchard/internal/seal"
)

// PutFile stores a file beside the result, such as an export in a trainer's format, at
// <name>/files/<key>/<file>. It appears in Result.Files.
func (p *Pass[Out]) PutFile(ctx context.Context, name string, body objstore.Body) (File, error) {
	return p.out.putFile(ctx, name, body)
}

func (o *output[Out]) putFile(ctx context.Context, name string, body objstore.Body) (File, error) {
	key := datasets.FilesPrefix(o.job.where.Name, o.job.result.Key) + name
	f := File{Name: name, URI: strings.TrimSuffix(o.store.String(), "/") + "/" + key, Bytes: body.Size()}
	var err error
	if f.SHA256, err = sum(body.Open()); err != nil {
		return File{}, fmt.Errorf("file %s: %w", name, err)
	}
	_, err = o.store.Create(ctx, key, body)
	if errors.Is(err, objstore.ErrExists) { // of a pass that was killed: the same work gives the same bytes
		r, _, oerr := o.store.Open(ctx, key, 0, -1)
		there, serr := sum(r, oerr)
		if err = serr; err == nil && there != f.SHA256 {
			err = exit.With(exit.Bug, fmt.Errorf("%s is there with other bytes; the same work must give the same", f.URI))
		}
	}
	if err != nil {
		return File{}, fmt.Errorf("file %s: %w", name, err)
	}
	o.job.update(func(r *Result) { r.Files = append(r.Files, f) })
	return f, nil
}

// sum is the hex sha256 of what r reads; it closes r.
func sum(r io.ReadCloser, err error) (string, error) {
	if err != nil {
		return "", err
	}
	defer r.Close()
	return seal.Reader(r)
}

// filesIndex is the list of a key's files.
func (o *output[Out]) filesIndex() string {
	return datasets.FilesIndex(o.job.where.Name, o.job.result.Key)
}

// saveFiles stores the list of files, so that a rerun that finds the work done can name
// them.
func (o *output[Out]) saveFiles(ctx context.Context) error {
	files := o.job.snapshot().Files
	if len(files) == 0 {
		return nil
	}
	b, err := json.Marshal(files)
	if err != nil {
		return err
	}
	_, err = o.store.Create(ctx, o.filesIndex(), objstore.Bytes(b))
	if errors.Is(err, objstore.ErrExists) {
		return nil
	}
	return err
}

func (o *output[Out]) loadFiles(ctx context.Context) error {
	b, _, err := objstore.ReadAll(ctx, o.store, o.filesIndex(), maxBlob)
	if errors.Is(err, objstore.ErrNotFound) {
		return nil
	}
	var files []File
	if err == nil {
		err = json.Unmarshal(b, &files)
	}
	if err != nil {
		return fmt.Errorf("list of files beside %s: %w", o.job.where, err)
	}
	o.job.update(func(r *Result) { r.Files = files })
	return nil
}
