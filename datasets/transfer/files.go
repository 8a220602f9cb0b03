package transfer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"orchard/internal/exit"
	"orchard/internal/objstore"
)

// most of a small object that is copied through memory.
const smallObject = 64 << 20

// files copies what a stage wrote beside the version, as its list has it.
func (c *copier) files(ctx context.Context) error {
	key := c.v.Manifest().Key
	index := "files/" + key + ".json"
	raw, _, err := objstore.ReadAll(ctx, c.from, c.here(index), smallObject)
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
		return exit.Inputf("%s/%s: is damaged: %w", c.from, c.here(index), err)
	}
	for _, f := range list {
		name := "files/" + key + "/" + f.Name
		if err := c.object(ctx, c.here(name), c.there(name), f.Bytes, hashCheck(f.SHA256)); err != nil {
			return err
		}
	}
	return c.extra(ctx, index)
}

// extra copies a small object that need not be there; another one that is there stays.
func (c *copier) extra(ctx context.Context, key string) error {
	raw, _, err := objstore.ReadAll(ctx, c.from, c.here(key), smallObject)
	if errors.Is(err, objstore.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = c.to.Create(ctx, c.there(key), objstore.Bytes(raw))
	switch {
	case errors.Is(err, objstore.ErrExists):
		c.done(0)
	case err != nil:
		return fmt.Errorf("copy to %s/%s: %w", c.to, c.there(key), err)
	default:
		c.copied.Add(1)
		c.done(int64(len(raw)))
	}
	return nil
}
