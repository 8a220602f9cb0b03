package datasets

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"orchard/datasets/record"
	"orchard/internal/buildinfo"
	"orchard/internal/exit"
	"orchard/internal/objstore"
)

// Meta is what a stage says of the version it commits.
type Meta struct {
	Stage     Stage
	Inputs    []Input
	RowsIn    int64            // must be the rows written and everything dropped
	Dropped   map[string]int64 // by reason
	Usage     record.Usage
	Started   time.Time
	Committed time.Time // zero is now; the newest version is the one with the latest
}

// Commit makes the written rows a version: shards, then the card and the manifest, then
// the claim of its key, then the move of refs/latest. adopted is true when another
// version, of other content, had claimed the key before; digest is then that one's, and
// what was written here stays a version too, under its own digest (Written).
func (w *Writer[R]) Commit(ctx context.Context, meta Meta) (digest string, adopted bool, err error) {
	defer w.Close()
	if meta.Committed.IsZero() {
		meta.Committed = time.Now()
	}
	key, err := Key(meta.Stage, meta.Inputs)
	if err != nil {
		return "", false, err
	}
	m := &Manifest{
		Content: Content{
			Format: Format, Features: features,
			RowsIn: meta.RowsIn, Dropped: meta.Dropped,
			Inputs: append([]Input{}, meta.Inputs...), Stage: meta.Stage, Key: key,
		},
		Run: Run{Started: meta.Started.UTC(), Committed: meta.Committed.UTC(), Build: build(), Usage: meta.Usage, InputURIs: []string{}},
	}
	if m.Dropped == nil {
		m.Dropped = map[string]int64{}
	}
	if len(m.Stage.Config) == 0 {
		m.Stage.Config = json.RawMessage("{}")
	}
	for _, in := range meta.Inputs {
		m.Run.InputURIs = append(m.Run.InputURIs, in.URI)
	}
	if err := w.finish(ctx, &m.Content); err != nil {
		return "", false, err
	}
	if err := m.check(); err != nil {
		return "", false, fmt.Errorf("commit dataset %s: %w", w.name, err)
	}
	digest, err = w.publish(ctx, m)
	if err != nil {
		return "", false, err
	}
	w.made = digest
	owner, err := Claim(ctx, w.store, w.name, key, digest)
	if err != nil {
		return "", false, err
	}
	v, err := OpenIn(ctx, w.store, w.name, owner)
	if err != nil {
		return "", false, err
	}
	return owner, owner != digest, Adopt(ctx, v)
}

func build() string {
	return strings.TrimSpace(buildinfo.Version + " " + buildinfo.Commit())
}

// publish writes the card and then the manifest, so that a version that is there has
// both. The same version may be there, from before or from another writer; its times
// may differ.
func (w *Writer[R]) publish(ctx context.Context, m *Manifest) (digest string, err error) {
	raw, digest, err := m.encode()
	if err != nil {
		return "", fmt.Errorf("commit dataset %s: %w", w.name, err)
	}
	for _, o := range []struct {
		key  string
		body []byte
	}{{CardKey(w.name, digest), Card(*m)}, {ManifestKey(w.name, digest), raw}} {
		_, err = w.store.Create(ctx, o.key, objstore.Bytes(o.body))
		if err != nil && !errors.Is(err, objstore.ErrExists) {
			return "", fmt.Errorf("commit dataset %s: %w", w.name, err)
		}
	}
	return digest, nil
}

// FindKey is the version that is the result of a key's work; ok is false when the work
// is still to be done.
func FindKey(ctx context.Context, store objstore.Store, name, key string) (digest string, ok bool, err error) {
	digest, _, err = readPointer(ctx, store, name, keyKey(name, key))
	if errors.Is(err, errDangling) { // the work is done again, and claims the key anew
		return "", false, nil
	}
	return digest, digest != "", err
}

// Claim makes digest the result of key unless another is already, and returns which: the
// first stands, unless its version is gone.
func Claim(ctx context.Context, store objstore.Store, name, key, digest string) (string, error) {
	for {
		owner, etag, err := readPointer(ctx, store, name, keyKey(name, key))
		if err != nil && !errors.Is(err, errDangling) || owner != "" {
			return owner, err
		}
		_, err = store.Swap(ctx, keyKey(name, key), objstore.Bytes(digest+"\n"), etag)
		if err == nil {
			return digest, nil
		}
		if !errors.Is(err, objstore.ErrExists) {
			return "", fmt.Errorf("commit dataset %s: %w", name, err)
		}
	}
}

// Adopt makes v the newest version unless one that was committed later is. A stage
// that finds its work done calls it: the earlier run may have ended just before.
func Adopt(ctx context.Context, v *Version) error {
	for {
		digest, etag, err := readPointer(ctx, v.store, v.loc.Name, latestKey(v.loc.Name))
		if digest == v.Digest() {
			return nil
		}
		if digest != "" {
			now, err := OpenIn(ctx, v.store, v.loc.Name, digest)
			if exit.Code(err) != exit.Input && err != nil {
				return err
			}
			if err == nil && now.manifest.Run.Committed.After(v.manifest.Run.Committed) {
				return nil
			}
		} else if err != nil && !errors.Is(err, errDangling) { // which is mended here
			return err
		}
		_, err = v.store.Swap(ctx, latestKey(v.loc.Name), objstore.Bytes(v.Digest()+"\n"), etag)
		if err == nil {
			return nil
		}
		if !errors.Is(err, objstore.ErrExists) {
			return fmt.Errorf("make %s the newest: %w", v.loc, err)
		}
	}
}

// errDangling: an object that should name a version does not, or the version is gone.
var errDangling = errors.New("does not name a version that is there")

// readPointer reads which version keys/… or refs/latest names: "" when there is no such
// object. etag is what a new one must replace, also with errDangling.
func readPointer(ctx context.Context, store objstore.Store, name, key string) (digest, etag string, err error) {
	raw, info, err := objstore.ReadAll(ctx, store, key, 1024)
	if errors.Is(err, objstore.ErrNotFound) {
		return "", "", nil
	}
	if err != nil {
		return "", "", fmt.Errorf("read %s/%s: %w", store, key, err)
	}
	digest, ok := strings.CutSuffix(string(raw), "\n")
	if ok && digestPattern.MatchString(digest) {
		_, err = store.Stat(ctx, ManifestKey(name, digest))
		if err == nil {
			return digest, info.ETag, nil
		}
		if !errors.Is(err, objstore.ErrNotFound) {
			return "", "", fmt.Errorf("read %s/%s: %w", store, key, err)
		}
	}
	return "", info.ETag, exit.Inputf("%s/%s: %w; name a version, or run the stage again", store, key, errDangling)
}
