package client_test

import (
	"archive/tar"
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"orchard/envctl/client"
)

// Files go in and out as they are; folders as tar, and what is left out is named.
func TestFiles(t *testing.T) {
	t.Parallel()
	box, ctx := newBox(t, ""), t.Context()
	large := bytes.Repeat([]byte("0123456789abcdef"), 200_000)
	for _, f := range []struct {
		path string
		data []byte
	}{{"/tmp/f/large", large}, {"/tmp/f/none", nil}, {"/tmp/f/报告 é'\"\n-", []byte("x\x00\xff")}} {
		if err := box.Put(ctx, f.path, bytes.NewReader(f.data), int64(len(f.data)), 0o640); err != nil {
			t.Fatalf("put %q: %v", f.path, err)
		}
		r, err := box.Get(ctx, f.path)
		if err != nil {
			t.Fatalf("get %q: %v", f.path, err)
		}
		got, err := io.ReadAll(r)
		r.Close()
		if err != nil || !bytes.Equal(got, f.data) {
			t.Errorf("%q came back with %d bytes of %d, %v", f.path, len(got), len(f.data), err)
		}
	}
	if err := box.Put(ctx, "/tmp/f/piped", io.MultiReader(strings.NewReader("of unknown size")), -1, 0o600); err != nil {
		t.Error(err)
	}
	files, err := box.List(ctx, "/tmp/f")
	if err != nil || len(files) != 4 {
		t.Fatalf("list: %v, %v", files, err)
	}
	i := slices.IndexFunc(files, func(f client.File) bool { return f.Name == "large" })
	if f := files[i]; f.Kind != "file" || f.Size != int64(len(large)) || f.Mode != 0o640 || time.Since(f.Modified) > time.Hour {
		t.Errorf("large is %+v", f)
	}
	if r, err := box.Exec(ctx, client.Command{Shell: "mkfifo /tmp/f/pipe"}); err != nil || r.ExitCode != 0 {
		t.Fatal(r, err)
	}
	archive, err := box.Download(ctx, "/tmp/f")
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	var whole bytes.Buffer
	var names, skipped []string
	for tr := tar.NewReader(io.TeeReader(archive, &whole)); ; {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if path, _, ok := client.SkippedEntry(h); ok {
			skipped = append(skipped, path)
		} else {
			names = append(names, h.Name)
		}
	}
	if len(names) != 5 || !slices.Equal(skipped, []string{"pipe"}) {
		t.Errorf("archive of %q without %q", names, skipped)
	}
	io.Copy(&whole, archive)
	report, err := box.Upload(ctx, "/tmp/again", &whole, false)
	if err != nil || report.Files != 4 {
		t.Errorf("upload: %+v, %v", report, err)
	}
	if _, err := box.Upload(ctx, "/tmp/bad", strings.NewReader("no archive"), false); err == nil {
		t.Error("no archive was unpacked")
	}
	r, err := box.Patch(ctx, []byte("no patch"), 0)
	if err != nil || r.Applied || r.ExitCode == nil || *r.ExitCode != 128 {
		t.Errorf("no patch: %+v, %v", r, err)
	}
}

// Grants of ports are made, seen and revoked.
func TestPorts(t *testing.T) {
	t.Parallel()
	box, ctx := newBox(t, ""), t.Context()
	p, err := box.Expose(ctx, 8080, time.Minute)
	if err != nil || p.URL == "" || p.Token == "" || time.Until(p.Expires.Time) > time.Minute {
		t.Fatalf("%+v, %v", p, err)
	}
	all, err := box.Ports(ctx)
	if err != nil || len(all) != 1 || all[0].ID != p.ID || all[0].Port != 8080 || all[0].URL != "" {
		t.Errorf("%+v, %v", all, err)
	}
	if err := box.Revoke(ctx, p.ID); err != nil {
		t.Error(err)
	}
	if all, err := box.Ports(ctx); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
}
