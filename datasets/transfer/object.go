package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sync/errgroup"

	"orchard/datasets"
	"orchard/internal/exit"
	"orchard/internal/objstore"
)

// object copies one object whose content check knows. size is -1 when only the store
// knows it.
func (c *copier) object(ctx context.Context, from, to string, size int64, check check) error {
	there, err := c.to.Stat(ctx, to)
	switch {
	case err == nil:
		return c.exists(ctx, from, to, size, there, check)
	case !errors.Is(err, objstore.ErrNotFound):
		return fmt.Errorf("copy to %s/%s: %w", c.to, to, err)
	}
	body, err := c.body(ctx, from, size, check)
	if err != nil {
		return err
	}
	_, err = c.to.Create(ctx, to, body)
	if errors.Is(err, objstore.ErrExists) { // somebody copies the same
		c.done(0)
		return nil
	}
	if damaged := body.damaged.Load(); damaged != nil { // whatever the store made of it
		return exit.Inputf("%s/%s: %w", c.from, from, *damaged)
	}
	if err != nil {
		return fmt.Errorf("copy to %s/%s: %w", c.to, to, err)
	}
	c.copied.Add(1)
	c.done(body.size)
	return nil
}

// exists compares what is there. It is never replaced: a name that follows from the
// content has other content, so something is broken there.
func (c *copier) exists(ctx context.Context, from, to string, size int64, there objstore.Info, check check) error {
	if size < 0 {
		info, err := c.from.Stat(ctx, from)
		if errors.Is(err, objstore.ErrNotFound) {
			return exit.Inputf("%s/%s: is missing", c.from, from)
		}
		if err != nil {
			return fmt.Errorf("read %s/%s: %w", c.from, from, err)
		}
		size = info.Size
	}
	err := c.compare(ctx, to, size, there, check)
	if errors.Is(err, datasets.ErrDamaged) {
		return exit.Inputf("%s/%s: is in the way: %w; delete it and copy again", c.to, to, err)
	}
	if err != nil {
		return fmt.Errorf("read %s/%s: %w", c.to, to, err)
	}
	c.mu.Lock()
	c.found = append(c.found, to)
	c.mu.Unlock()
	c.done(0)
	return nil
}

// still is an error when what was found there is not any more: old objects that no version
// names yet may be collected as garbage while the rest is copied.
func (c *copier) still(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(c.o.Workers)
	for _, key := range c.found {
		g.Go(func() error {
			_, err := c.to.Stat(ctx, key)
			if errors.Is(err, objstore.ErrNotFound) {
				return exit.Retryf("copy to %s/%s: it was there and was deleted meanwhile; copy again: %w", c.to, key, err)
			}
			if err != nil {
				return fmt.Errorf("read %s/%s: %w", c.to, key, err)
			}
			return nil
		})
	}
	return g.Wait()
}

func (c *copier) compare(ctx context.Context, to string, size int64, there objstore.Info, check check) error {
	if there.Size != size {
		return fmt.Errorf("%w: has %d bytes, expected %d", datasets.ErrDamaged, there.Size, size)
	}
	if !c.o.Check {
		return nil
	}
	r, info, err := c.to.Open(ctx, to, 0, -1)
	if err != nil {
		return err
	}
	v := verify(r, info.Size, check)
	defer v.Close()
	_, err = io.Copy(io.Discard, v)
	return err
}

// body is an object of the source as the content of a new one.
func (c *copier) body(ctx context.Context, key string, size int64, check check) (*body, error) {
	info, err := c.from.Stat(ctx, key)
	if errors.Is(err, objstore.ErrNotFound) {
		return nil, exit.Inputf("%s/%s: is missing", c.from, key)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s/%s: %w", c.from, key, err)
	}
	if size >= 0 && info.Size != size {
		return nil, exit.Inputf("%s/%s: is damaged: has %d bytes, expected %d", c.from, key, info.Size, size)
	}
	return &body{ctx: ctx, store: c.from, key: key, size: info.Size, check: check}, nil
}
