package datasets

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"orchard/internal/exit"
)

func TestParse(t *testing.T) {
	t.Parallel()
	cwd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	here := "file://" + filepath.ToSlash(cwd)
	digest := strings.Repeat("0a", 32)
	for _, c := range []struct {
		uri           string
		root, name, v string
		err           string
	}{
		{uri: "tasks", root: here, name: "tasks"},
		{uri: "./tasks/", root: here, name: "tasks"},
		{uri: "out/tasks@01234567", root: here + "/out", name: "tasks", v: "01234567"},
		{uri: "/a/b@c/tasks", root: "file:///a/b@c", name: "tasks"},
		{uri: "/tasks@" + digest, root: "file:///", name: "tasks", v: digest},
		{uri: "file:///a/../b/tasks@01234567", root: "file:///b", name: "tasks", v: "01234567"},
		{uri: "s3://bucket/tasks", root: "s3://bucket", name: "tasks"},
		{uri: "s3://bucket/a/b/tasks@01234567", root: "s3://bucket/a/b", name: "tasks", v: "01234567"},
		{uri: "", err: "name"},
		{uri: "/", err: "name"},
		{uri: "a/blobs", err: `not be "blobs"`},
		{uri: "a/.hidden", err: "start with a letter or digit"},
		{uri: "a/b c", err: "letters, digits"},
		{uri: "tasks@", err: "8 to 64"},
		{uri: "tasks@latest", err: "8 to 64"},
		{uri: "tasks@0123456", err: "8 to 64"},
		{uri: "tasks@ABCDEF01", err: "lower-case"},
		{uri: "file://host/tasks", err: "three slashes"},
		{uri: "s3://bucket", err: "no name"},
		{uri: "s3:///tasks", err: "s3://bucket/prefix/name"},
		{uri: "s3://key:secret@bucket/tasks", err: "s3://bucket/prefix/name"},
		{uri: "s3:/bucket/out/tasks", err: "must look like s3://bucket"},
		{uri: "S3:/bucket/out/tasks", err: "must look like s3://bucket"},
		{uri: "file:/folder/tasks", err: "file:///folder"},
		{uri: "s3:/x", err: "must look like s3://bucket"},
		{uri: "./s3:/x", root: here + "/s3:", name: "x"},
		{uri: "https://host/tasks", err: `"https" is not known`},
	} {
		l, err := Parse(c.uri)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "secret") || exit.Code(err) != exit.Config {
				t.Errorf("Parse(%q) = %v, %v; want an error with %q", c.uri, l, err, c.err)
			}
			continue
		}
		if want := (Location{c.root, c.name, c.v}); err != nil || l != want {
			t.Errorf("Parse(%q) = %+v, %v; want %+v", c.uri, l, err, want)
		}
		if again, err := Parse(l.String()); err != nil || again != l {
			t.Errorf("Parse(%q) = %+v, %v; want %+v again", l.String(), again, err, l)
		}
	}
}

func TestStoresSayWhatIsWrongWithARoot(t *testing.T) {
	t.Parallel()
	for root, want := range map[string]string{
		"s3://My_Bucket/x":                         "bucket",
		"s3://ab/x":                                "3 characters",
		"s3://bucket/a/../b":                       "prefix",
		"s3://bucket/a//b":                         "prefix",
		"ftp://host/x":                             "s3://bucket/prefix",
		"file:///proc/self/status":                 "is a file",
		"s3://bucket/" + strings.Repeat("x", 2000): "1 to 1000 bytes",
	} {
		_, err := Stores(t.Context(), root)
		if exit.Code(err) != exit.Config || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", root, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"tasks", "/a/b@01234567", "file:///a/b", "s3://b/p/n@0123456789", "@", "a@b@c/d", "file://", "s3://[::1]/x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		l, err := Parse(uri)
		if err != nil {
			return
		}
		if again, err := Parse(l.String()); err != nil || again != l {
			t.Errorf("Parse(%q) = %+v, whose string parses as %+v, %v", uri, l, again, err)
		}
		if CheckName(l.Name) != nil || l.Version != "" && !versionPattern.MatchString(l.Version) {
			t.Errorf("Parse(%q) = %+v", uri, l)
		}
	})
}

func TestCheckRoot(t *testing.T) {
	t.Parallel()
	for root, ok := range map[string]bool{
		"out": true, "/": true, ".": true, "out/": true, "file:///out": true, "s3://bucket": true, "s3://bucket/a b/": true,
		"s3://": false, "s3:/bucket/out": false, "s3://key:secret@bucket/out": false, "https://host/out": false, "file://out": false,
	} {
		err := CheckRoot(root)
		if (err == nil) != ok || err != nil && (exit.Code(err) != exit.Config || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%s: error %v, want one: %v", root, err, !ok)
		}
	}
}
