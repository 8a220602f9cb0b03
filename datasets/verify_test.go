package datasets

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"orchard/internal/exit"
	"orchard/internal/objstore/objtest"
)

// inspect is what a user's verify says of the newest version: the objects that are
// named as wrong.
func inspect(t *testing.T, root string) []string {
	t.Helper()
	s := folder(t, root)
	v, err := OpenIn(t.Context(), s, "notes", "")
	if err != nil {
		if exit.Code(err) != exit.Input {
			t.Fatalf("open: %v", err)
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), s.String()+"/"), ": ")
		return []string{name}
	}
	r, err := Verify(t.Context(), v)
	if err != nil {
		t.Fatalf("verify: %v", err)
	}
	var names []string
	for _, p := range r.Problems {
		names = append(names, strings.TrimPrefix(p.Object, s.String()+"/"))
	}
	return names
}

// One byte flipped or deleted anywhere in any object of a version is found, and the
// object is named.
func TestVerifyNamesEveryDamagedObject(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	s := folder(t, root)
	mustCommit(t, s, "notes", notes(t, s, 6), meta(6, 0), WriterOptions{})
	if got := inspect(t, root); len(got) > 0 {
		t.Fatalf("undamaged: %q", got)
	}
	objects := 0
	for name, content := range files(t, root) {
		if strings.Contains(name, "/keys/") || strings.HasSuffix(name, "/README.md") {
			continue // a damaged claim only has its work done again; the card is for people
		}
		objects++
		path := filepath.Join(root, filepath.FromSlash(name))
		try := func(what string, content []byte) {
			if err := os.WriteFile(path, content, 0o644); err != nil {
				t.Fatal(err)
			}
			if got := inspect(t, root); !slices.Equal(got, []string{name}) {
				t.Errorf("%s, %s: verify named %q", name, what, got)
			}
		}
		step := 1
		if strings.HasPrefix(name, "notes/data/") {
			step = 37
		}
		for i := 0; i < len(content); i += step {
			b := []byte(content)
			b[i] ^= 1 << (i % 8)
			try("byte flipped", b)
			try("byte deleted", []byte(content[:i]+content[i+1:]))
		}
		try("byte added", []byte(content+"x"))
		try("emptied", nil)
		if !strings.HasPrefix(name, "notes/versions/") && !strings.HasPrefix(name, "notes/refs/") {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if got := inspect(t, root); !slices.Equal(got, []string{name}) {
				t.Errorf("%s removed: verify named %q", name, got)
			}
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if objects != 4+4 { // manifest, shard, blob list, newest; 4 blobs
		t.Errorf("there are %d objects", objects)
	}
}

// Every problem is reported, not the first only.
func TestVerifyGoesOn(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	s := folder(t, root)
	mustCommit(t, s, "notes", notes(t, s, 6), meta(6, 0), WriterOptions{})
	var broken []string
	for name := range files(t, root) {
		if strings.HasPrefix(name, "blobs/") || strings.HasSuffix(name, ".arrow") {
			broken = append(broken, name)
			if err := os.Truncate(filepath.Join(root, name), 3); err != nil {
				t.Fatal(err)
			}
		}
	}
	got := inspect(t, root)
	slices.Sort(got)
	slices.Sort(broken)
	if !slices.Equal(got, broken) {
		t.Errorf("named %q, broken are %q", got, broken)
	}
}

// A store that cannot be read is not a damaged version.
func TestVerifyTellsTroubleFromDamage(t *testing.T) {
	t.Parallel()
	s := folder(t, t.TempDir())
	digest := mustCommit(t, s, "notes", notes(t, s, 6), meta(6, 0), WriterOptions{}).Digest()
	f := &objtest.Faults{Store: s, At: 1}
	v, err := OpenIn(t.Context(), f, "notes", digest)
	if err != nil {
		t.Fatal(err)
	}
	f.Delete(t.Context(), "x") // from now on the store is dead
	r, err := Verify(t.Context(), v)
	if !errors.Is(err, objtest.ErrFault) || len(r.Problems) > 0 {
		t.Errorf("verify: %+v, %v", r, err)
	}
}
