package datasets

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"orchard/internal/exit"
	"orchard/internal/objstore"
	"orchard/internal/objstore/dir"
	"orchard/internal/objstore/limit"
	"orchard/internal/objstore/minio"
	"orchard/internal/objstore/retry"
)

// Location is where a dataset lies: a root that holds datasets and blobs, a name in
// it and perhaps a version.
type Location struct {
	Root    string // a URI without a slash at its end: file:///abs/folder or s3://bucket/prefix
	Name    string
	Version string // a digest or the beginning of one, at least 8 digits; "" is the newest
}

var (
	namePattern    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)
	versionPattern = regexp.MustCompile(`^[0-9a-f]{8,64}$`)
	oneSlash       = regexp.MustCompile(`^(?i:s3|file):(/|$)`)
	digestPattern  = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// CheckName says what is wrong with the name of a dataset, or nil.
func CheckName(name string) error {
	if !namePattern.MatchString(name) || name == "blobs" {
		return fmt.Errorf("the name %q must be 1 to 100 letters, digits, dots, dashes or underscores, start with a letter or digit, and not be \"blobs\"", name)
	}
	return nil
}

// Parse reads s3://bucket/prefix/name@version, file:///folder/name@version or a path
// folder/name@version; a relative path counts from the working folder. The error is an
// exit.Config.
func Parse(uri string) (Location, error) {
	l, err := parse(uri)
	if err != nil {
		if u, uerr := url.Parse(uri); uerr == nil && u.User != nil && strings.Contains(uri, "://") {
			uri = u.Redacted()
		}
		return Location{}, exit.Configf("dataset %q: %w", uri, err)
	}
	return l, nil
}

// CheckRoot says what is wrong with the address of a root, or nil.
func CheckRoot(root string) error {
	if _, err := Parse(strings.TrimRight(root, "/") + "/x"); err != nil {
		return exit.Configf("must look like s3://bucket/prefix, file:///folder or folder, without credentials")
	}
	return nil
}

func parse(uri string) (Location, error) {
	rest, version, _ := cutVersion(uri)
	if strings.HasSuffix(uri, "@") || version != "" && !versionPattern.MatchString(version) {
		return Location{}, fmt.Errorf("version %q: must be 8 to 64 lower-case hex digits", version)
	}
	scheme, path, isURI := strings.Cut(rest, "://")
	root := ""
	switch {
	case !isURI && oneSlash.MatchString(rest): // a folder named "s3:" is not what anybody wants
		return Location{}, fmt.Errorf("must look like s3://bucket/prefix/name, file:///folder/name or folder/name")
	case !isURI:
		abs, err := filepath.Abs(rest)
		if err != nil {
			return Location{}, err
		}
		root, path = "file://", filepath.ToSlash(abs)
	case scheme == "file":
		if !strings.HasPrefix(path, "/") {
			return Location{}, fmt.Errorf("a file URI has three slashes: file:///%s", path)
		}
		root, path = "file://", filepath.ToSlash(filepath.Clean(path))
	case scheme == "s3":
		u, err := url.Parse(rest)
		if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Port() != "" {
			return Location{}, fmt.Errorf("must look like s3://bucket/prefix/name")
		}
		root, path = "s3://", strings.TrimRight(path, "/")
	default:
		return Location{}, fmt.Errorf("scheme %q is not known; use a path, file:/// or s3://", scheme)
	}
	slash := strings.LastIndexByte(path, '/')
	if slash < 0 || rest == "" {
		return Location{}, fmt.Errorf("has no name; it must end in /name")
	}
	l := Location{Root: root + path[:slash], Name: path[slash+1:], Version: version}
	if l.Root == "file://" {
		l.Root = "file:///"
	}
	return l, CheckName(l.Name)
}

// cutVersion splits off the version: what follows the last @ of the last part.
func cutVersion(uri string) (rest, version string, found bool) {
	slash := strings.LastIndexByte(uri, '/')
	at := strings.LastIndexByte(uri, '@')
	if at <= slash {
		return uri, "", false
	}
	return uri[:at], uri[at+1:], true
}

// String is the location as a URI that Parse reads.
func (l Location) String() string {
	s := strings.TrimSuffix(l.Root, "/") + "/" + l.Name
	if l.Version != "" {
		s += "@" + l.Version
	}
	return s
}

// At is the same dataset at another version.
func (l Location) At(version string) Location {
	l.Version = version
	return l
}

// Beside is the dataset of another name under the same root.
func (l Location) Beside(name string) Location { return Location{Root: l.Root, Name: name} }

// Opener opens the store of a root.
type Opener func(ctx context.Context, root string) (objstore.Store, error)

// calls is how many requests of a store are under way at once.
const calls = 32

// Stores opens every root that Parse knows: folders, and S3 prefixes as the environment
// says (docs/stores.md), where what fails in passing is tried again.
func Stores(_ context.Context, root string) (objstore.Store, error) {
	if path, ok := strings.CutPrefix(root, "file://"); ok {
		s, err := dir.Open(filepath.FromSlash(path))
		if err != nil {
			return nil, exit.With(exit.Config, err)
		}
		return s, nil
	}
	s, err := minio.Open(root, minio.FromEnv(os.Getenv))
	if err != nil {
		return nil, err
	}
	return retry.New(limit.New(s, calls), retry.Policy{}), nil
}
