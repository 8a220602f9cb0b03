package minio

import (
	"context"
	"crypto/rand"
	"errors"

	"orchard/internal/exit"
	"orchard/internal/objstore"
	"orchard/internal/objstore/retry"
)

// proof is what is known of one prefix. turn is taken by who finds it out.
type proof struct {
	turn    chan struct{}
	done    bool
	refused error
}

func (c *client) proof(place string) *proof {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.proofs[place]
	if p == nil {
		p = &proof{turn: make(chan struct{}, 1)}
		c.proofs[place] = p
	}
	return p
}

// prove returns nil when the server keeps conditions under this prefix. It finds out
// once; not having found out is not remembered.
func (s *Store) prove(ctx context.Context) error {
	p := s.proof(s.bucket + "/" + s.prefix)
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if p.done {
		return p.refused
	}
	missing, err := s.probe(ctx)
	if err != nil {
		return err
	}
	if missing != "" {
		p.refused = exit.Configf("%s: %s ignores conditional writes (%s), so two writers could overwrite each other's work; "+
			"Orchard writes only to a store that keeps them, such as MinIO since 2024 or Amazon S3", s, s.url, missing)
	}
	p.done = true
	return p.refused
}

// probe writes a small object against three conditions and removes it. The name is new,
// so an answer that it exists is about a repeat of our own request, and proves as much.
func (s *Store) probe(ctx context.Context) (missing string, err error) {
	key := probePrefix + rand.Text()
	name := s.prefix + key
	put := func(c condition) error {
		_, err := s.putOnce(ctx, "probe", key, name, objstore.Bytes("probe\n"), c)
		return err
	}
	if err := put(absent); errors.Is(err, objstore.ErrNotFound) { // a new object cannot be missing
		return "", exit.Configf("probe %s/%s: %s %w", s, key, s.url, errForeign)
	} else if err != nil && !errors.Is(err, objstore.ErrExists) {
		return "", err
	}
	defer s.tidy(ctx, key, name)
	switch err := put(absent); {
	case err == nil:
		return "If-None-Match", nil
	case !errors.Is(err, objstore.ErrExists):
		return "", err
	}
	switch err := put("00000000000000000000000000000000"); {
	case err == nil:
		return "If-Match", nil
	case !errors.Is(err, objstore.ErrExists):
		return "", err
	}
	return "", nil
}

// tidy removes a probe. Whoever may write and not delete leaves it, to be seen by nobody.
func (s *Store) tidy(ctx context.Context, key, name string) {
	retry.Do(ctx, quick, func(int) (struct{}, error) { return struct{}{}, s.remove(ctx, key, name) })
}
