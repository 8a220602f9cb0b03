package datasets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"orchard/internal/exit"
	"orchard/internal/objstore"
)

// ErrNotFound: there is no such dataset or version. Errors that wrap it are marked
// exit.Input.
var ErrNotFound = errors.New("not found")

// maxManifest bounds what is read as a manifest, some ten thousand shards with their
// statistics.
const maxManifest = 64 << 20

// Version is an opened version: a manifest that was checked against its digest. It
// holds no resources. Safe for concurrent use.
type Version struct {
	store    objstore.Store
	loc      Location // with the whole digest
	manifest Manifest
	raw      []byte
}

// Open opens the version that a URI names.
func Open(ctx context.Context, opener Opener, uri string) (*Version, error) {
	loc, err := Parse(uri)
	if err != nil {
		return nil, err
	}
	store, err := opener(ctx, loc.Root)
	if err != nil {
		return nil, err
	}
	return OpenIn(ctx, store, loc.Name, loc.Version)
}

// OpenIn opens a version of a dataset in a store: by its digest, by the beginning of
// one, or the newest when version is "".
func OpenIn(ctx context.Context, store objstore.Store, name, version string) (*Version, error) {
	if err := CheckName(name); err != nil {
		return nil, exit.With(exit.Config, err)
	}
	digest, err := resolve(ctx, store, name, version)
	if err != nil {
		return nil, err
	}
	loc := Location{Root: store.String(), Name: name, Version: digest}
	raw, _, err := objstore.ReadAll(ctx, store, ManifestKey(name, digest), maxManifest)
	if errors.Is(err, objstore.ErrNotFound) {
		return nil, absent(ctx, store, name, digest)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", loc, err)
	}
	m, got, err := ParseManifest(raw)
	if err == nil && got != digest {
		err = fmt.Errorf("is damaged: its digest is %s", got)
	}
	if err != nil {
		return nil, exit.Inputf("%s/%s: %w", store, ManifestKey(name, digest), err)
	}
	return &Version{store, loc, *m, raw}, nil
}

// resolve finds the whole digest of a version.
func resolve(ctx context.Context, store objstore.Store, name, version string) (string, error) {
	switch {
	case digestPattern.MatchString(version):
		return version, nil
	case version == "":
		digest, _, err := readPointer(ctx, store, name, latestKey(name))
		if err == nil && digest == "" {
			err = absent(ctx, store, name, "")
		}
		return digest, err
	case !versionPattern.MatchString(version):
		return "", exit.Configf("version %q of dataset %s: must be 8 to 64 lower-case hex digits", version, name)
	}
	var found []string
	for digest, err := range digests(ctx, store, name, version) {
		if err != nil {
			return "", err
		}
		found = append(found, digest)
	}
	switch len(found) {
	case 0:
		return "", absent(ctx, store, name, version)
	case 1:
		return found[0], nil
	}
	return "", exit.Inputf("%s/%s@%s: more than one version begins like this: %s", store, name, version, strings.Join(found, ", "))
}

// digests yields the versions of a dataset whose digest starts with prefix.
func digests(ctx context.Context, store objstore.Store, name, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		base := name + "/versions/"
		for info, err := range store.List(ctx, base+prefix) {
			if err != nil {
				yield("", fmt.Errorf("list versions of %s/%s: %w", store, name, err))
				return
			}
			digest, ok := strings.CutSuffix(strings.TrimPrefix(info.Key, base), "/manifest.json")
			if ok && digestPattern.MatchString(digest) && !yield(digest, nil) {
				return
			}
		}
	}
}

// absent is the error for a version that is not there; it lists what is.
func absent(ctx context.Context, store objstore.Store, name, version string) error {
	var have []string
	for digest, err := range digests(ctx, store, name, "") {
		if err != nil {
			return err
		}
		have = append(have, digest[:12])
	}
	if len(have) == 0 {
		return exit.Inputf("dataset %s/%s: %w; %s", store, name, ErrNotFound, instead(store.String(), name))
	}
	if version == "" {
		version = "(newest)"
	}
	return exit.Inputf("dataset %s/%s: version %s: %w; there is %s", store, name, version, ErrNotFound, strings.Join(have, ", "))
}

// instead says what to do about a dataset that is not there: it may be the file that one is
// to be made of.
func instead(root, name string) string {
	if folder, ok := strings.CutPrefix(root, "file://"); ok {
		if info, err := os.Stat(filepath.Join(filepath.FromSlash(folder), name)); err == nil && info.Mode().IsRegular() {
			return "it is a file, of which `orchard import` makes a dataset"
		}
	}
	return "`orchard dataset ls " + root + "` lists those that are there"
}

// Location is where the version is, with its whole digest; Digest is that alone.
func (v *Version) Location() Location { return v.loc }
func (v *Version) Digest() string     { return v.loc.Version }

// Manifest is what the version is. The caller does not change what it refers to.
func (v *Version) Manifest() Manifest { return v.manifest }

// RawManifest is the manifest as stored, JSON with a line end.
func (v *Version) RawManifest() []byte { return v.raw }

// Store is where the version and its blobs lie.
func (v *Version) Store() objstore.Store { return v.store }

// Input is the version as an input of what is made from it.
func (v *Version) Input(role string) Input {
	return Input{Kind: InputDataset, Name: v.loc.Name, Digest: v.loc.Version, Role: role, URI: v.loc.String()}
}

// Blob opens a blob that the version's rows name; see OpenBlob.
func (v *Version) Blob(ctx context.Context, sha string) (io.ReadCloser, error) {
	return OpenBlob(ctx, v.store, sha)
}

// shard fetches a shard.
func (v *Version) shard(ctx context.Context, s Shard) (*object, error) {
	return v.fetch(ctx, ShardKey(v.loc.Name, s.SHA256), s.SHA256, s.Bytes)
}
