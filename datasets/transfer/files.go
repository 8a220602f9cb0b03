package transfer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"orchard/datasets"
	"orchard/internal/exit"
	"orchard/internal/objstore"
)

// most of a small object that is copied through memory.
const smallObject = 64 << 20

// files copies what a stage wrote beside the version, as its list has it.
func (c *copier) files(ctx context.Context) error {
	key := c.v.Manifest().Key
	index := c.here(datasets.FilesIndex, key)
	raw, _, err := objstore.ReadAll(ctx, c.from, index, smallObject)
	if errors.Is(err, objstore.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	var list []struct {
		Name   string `json:"name"`
		SHA256 string `json:"sha256"`
		Bytes  int64  `json:"bytes"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return exit.Inputf("%s/%s: is damaged: %w", c.from, index, err)
	}
	for _, f := range list {
		from, to := c.here(datasets.FilesPrefix, key)+f.Name, c.there(datasets.FilesPrefix, key)+f.Name
		if err := c.object(ctx, from, to, f.Bytes, hashCheck(f.SHA256)); err != nil {
			return err
		}
	}
	return c.extra(ctx, datasets.FilesIndex, key)
}

// extra copies a small object that need not be there; another one that is there stays.
func (c *copier) extra(ctx context.Context, at place, id string) error {
	raw, _, err := objstore.ReadAll(ctx, c.from, c.here(at, id), smallObject)
	if errors.Is(err, objstore.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	to := c.there(at, id)
	_, err = c.to.Create(ctx, to, objstore.Bytes(raw))
	switch {
	case errors.Is(err, objstore.ErrExists):
		c.done(0)
	case err != nil:
		return fmt.Errorf("copy to %s/%s: %w", c.to, to, err)
	default:
		c.copied.Add(1)
		c.done(int64(len(raw)))
	}
	return nil
}
