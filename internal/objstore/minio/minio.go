// Package minio is a store over a bucket of any S3 service: key a/b/c is the object
// prefix/a/b/c. It holds no state of its own and caches no content.
//
// Create is a PUT with If-None-Match: *, Swap one with If-Match. A server that ignores
// these would let two writers overwrite each other, so the first write of a process
// under a root proves that they work there, with a small object that it removes again;
// if not, every write is refused. Reading proves nothing and needs no right to write.
//
// Bodies up to 64 MiB are one request. Larger ones are sent in parts, and a writer that
// was killed goes on with the parts that its upload has, if they are those of its own
// body. The condition is checked when such an upload starts, before it is completed, and by
// the server as it completes. A server that ignores the last of the three leaves the
// instant between the second and the completion, in which another writer's object can be
// overwritten: harmless where the key is the hash of the content, as it is for
// everything of that size in a dataset. Uploads that nobody completes are not objects;
// the server's own rule for incomplete uploads removes them.
//
// Every body is sent with its MD5 and SHA-256, so the server refuses what was changed or
// cut on the way; what is read is checked for its length, its content is the reader's to check.
//
// ETags are the server's, mostly of the content: an object that gets the same bytes
// again has the ETag that it had before. One request is one try: wrap with package retry.
package minio

import (
	"context"
	"fmt"
	"strings"

	s3 "github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/s3utils"

	"orchard/internal/exit"
	"orchard/internal/objstore"
)

// probePrefix begins the names that are the store's own.
const probePrefix = ".orchard-probe-"

// Store is a bucket, or a prefix in one. Safe for concurrent use.
type Store struct {
	*client
	bucket string
	prefix string // "" or with a slash at its end
	root   string

	maxPut, leastPart int64 // constants, smaller in tests
}

var _ objstore.Store = (*Store)(nil)

// Open is the store of root, s3://bucket or s3://bucket/prefix. It asks nobody: that the
// bucket is there and the credentials are right shows at the first use. Stores with the
// same configuration share connections, credentials and what they learnt of the server.
func Open(root string, cfg Config) (*Store, error) {
	path, ok := strings.CutPrefix(root, "s3://")
	bucket, prefix, _ := strings.Cut(strings.TrimRight(path, "/"), "/")
	if !ok {
		return nil, exit.Configf("%s: must look like s3://bucket/prefix", root)
	}
	if err := s3utils.CheckValidBucketNameStrict(bucket); err != nil {
		return nil, exit.Configf("%s: bucket %q: %w", root, bucket, err)
	}
	root = "s3://" + bucket
	if prefix != "" {
		if err := objstore.CheckKey(prefix); err != nil {
			return nil, exit.Configf("%s: prefix: %w", root, err)
		}
		root += "/" + prefix
		prefix += "/"
	}
	c, err := shared(cfg)
	if err != nil {
		return nil, exit.Configf("%s: %w", root, err)
	}
	return &Store{client: c, bucket: bucket, prefix: prefix, root: root, maxPut: maxPut, leastPart: leastPart}, nil
}

// String is the store's URI.
func (s *Store) String() string { return s.root }

// name is the name of a key's object in the bucket.
func (s *Store) name(key string) (string, error) {
	if err := objstore.CheckKey(key); err != nil {
		return "", err
	}
	if strings.HasPrefix(key, probePrefix) {
		return "", fmt.Errorf("object key %q: a name the store keeps for itself", key)
	}
	if n := len(s.prefix) + len(key); n > 1024 {
		return "", fmt.Errorf("object key %q: has %d bytes with the prefix of %s; S3 takes 1024", key, n, s)
	}
	return s.prefix + key, nil
}

// begin is the start of every call on an object.
func (s *Store) begin(ctx context.Context, key string) (name string, err error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	return s.name(key)
}

// Stat describes an object.
func (s *Store) Stat(ctx context.Context, key string) (objstore.Info, error) {
	name, err := s.begin(ctx, key)
	if err != nil {
		return objstore.Info{}, err
	}
	ctx, a := listen(ctx)
	o, err := s.core.StatObject(ctx, s.bucket, name, s3.StatObjectOptions{})
	if err != nil {
		return objstore.Info{}, s.explain(ctx, "stat", key, a, err)
	}
	return objstore.Info{Key: key, Size: o.Size, ETag: o.ETag, Modified: o.LastModified.UTC()}, nil
}

// Delete removes an object. In a bucket that keeps versions it becomes a past one.
func (s *Store) Delete(ctx context.Context, key string) error {
	name, err := s.begin(ctx, key)
	if err != nil {
		return err
	}
	return s.remove(ctx, key, name)
}
