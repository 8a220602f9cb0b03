//go:build linux

package local

import (
	"archive/tar"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"orchard/internal/sandbox"
	"orchard/internal/sandbox/control"
)

// A pre-pull unpacks what is there, and says what is not; a sandbox then finds it unpacked.
func TestPrepull(t *testing.T) {
	t.Parallel()
	cache := t.TempDir()
	r := open(t, func(o *Options) { o.CacheDir = cache })
	path := writeImage(t, v1.Config{}, []tar.Header{{Name: "data/", Typeflag: tar.TypeDir, Mode: 0o755}}, nil)
	st, err := r.Prepull(t.Context(), control.Prepull{ID: "p", Images: []string{path, path + ".none"}, AtOnce: 1, Timeout: time.Minute})
	if err != nil || len(st.Pulls) != 2 {
		t.Fatalf("%+v, %v", st, err)
	}
	deadline := time.After(30 * time.Second)
	for st.Ended.IsZero() {
		select {
		case <-deadline:
			t.Fatalf("not done: %+v", st)
		case <-time.After(5 * time.Millisecond):
		}
		if st, err = r.PrepullOf(t.Context(), "p"); err != nil {
			t.Fatal(err)
		}
	}
	if st.Pulls[0].Status != control.PullPresent || st.Pulls[1].Status != control.PullFailed || st.Pulls[1].Reason != control.ReasonRefused || st.Pulls[1].Message == "" {
		t.Errorf("%+v", st.Pulls)
	}
	if unpacked, err := filepath.Glob(filepath.Join(cache, "images", "*", "*", "data")); err != nil || len(unpacked) != 1 {
		all, _ := os.ReadDir(filepath.Join(cache, "images"))
		t.Errorf("in the cache: %v of %v, %v", unpacked, all, err)
	}
	var refused *sandbox.Refused
	if _, err := r.Prepull(t.Context(), control.Prepull{ID: "q", Images: []string{path}, Placement: sandbox.Placement{Spot: true}}); !errors.As(err, &refused) {
		t.Errorf("placed: %v", err)
	}
	if err := r.DeletePrepull(t.Context(), "p"); err != nil {
		t.Error(err)
	}
	if _, err := r.PrepullOf(t.Context(), "p"); !errors.Is(err, control.ErrNotFound) {
		t.Errorf("deleted: %v", err)
	}
}
