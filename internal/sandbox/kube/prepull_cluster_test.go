package kube

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"orchard/internal/sandbox/control"
	"orchard/internal/seal"
)

// pushed is the name of an image that no machine has, FROM scratch and without a program, in
// a registry of this process.
func pushed(t *testing.T, host string) string {
	t.Helper()
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	content := seal.Random(16)
	if err := w.WriteHeader(&tar.Header{Name: "only-a-file", Mode: 0o644, Size: int64(len(content))}); err != nil {
		t.Fatal(err)
	}
	io.WriteString(w, content)
	w.Close()
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.AppendLayers(empty.Image, l)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := name.NewTag(host + "/orchard-test/pulled:" + seal.Random(4))
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, img); err != nil {
		t.Fatal(err)
	}
	return ref.Name()
}

// What is there is there at once; what a registry has comes; what it has not fails in the
// kubelet's words; and then nothing is left but the record.
func TestClusterPrepull(t *testing.T) {
	s := newSite(t)
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	host := server.Listener.Addr().String()
	there, missing := pushed(t, host), host+"/orchard-test/none:1"
	replicas := []*Runtime{s.open(t), s.open(t)}
	began := time.Now()
	p := control.Prepull{ID: "p-" + seal.Random(4), Owner: "ann", Images: []string{imageBare, there, missing}, AtOnce: 10, Timeout: 2 * time.Minute}
	st, err := replicas[0].Prepull(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if len(st.Pulls) != 3 || st.Pulls[0].Status != control.PullPresent || st.Pulls[1].Status != control.PullPending {
		t.Errorf("at first: %+v", st.Pulls)
	}
	until(t, "the pre-pull to be over", func() (bool, string) {
		var err error
		st, err = replicas[1].PrepullOf(t.Context(), p.ID)
		return err == nil && !st.Ended.IsZero(), fmt.Sprintf("%+v, %v", st.Pulls, err)
	})
	t.Logf("over after %v: %+v", time.Since(began), st.Pulls)
	if got := st.Pulls[1]; got.Status != control.PullPresent {
		t.Errorf("in the registry: %+v", got)
	}
	if got := st.Pulls[2]; got.Status != control.PullFailed || got.Reason != control.ReasonImagePull || !strings.Contains(got.Message, "not found") {
		t.Errorf("in no registry: %+v", got)
	}
	pods, graves := s.left(t)
	if len(pods)+len(graves) != 0 {
		t.Errorf("left: %v, %v", pods, graves)
	}
	if boxes, err := replicas[1].List(t.Context()); len(boxes) != 0 || err != nil {
		t.Errorf("sandboxes: %+v, %v", boxes, err)
	}
	// The machine has it now, registry or not.
	server.Close()
	spec := small(there)
	if _, err := replicas[0].Start(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	until(t, "a sandbox of it to run", func() (bool, string) {
		pod, err := replicas[0].fetch(t.Context(), spec.ID)
		if err != nil {
			return false, err.Error()
		}
		return running(pod), pendingText(pod)
	})
}

// Ended in the middle, it takes along what it had begun.
func TestClusterPrepullDeleted(t *testing.T) {
	s := newSite(t)
	r := s.open(t)
	p := control.Prepull{ID: "p-" + seal.Random(4), Owner: "ann", Images: []string{"198.18.0.9:5000/none/such:1"}, AtOnce: 1, Timeout: 5 * time.Minute}
	if _, err := r.Prepull(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	until(t, "its Pod to be made", func() (bool, string) { pods, _ := s.left(t); return len(pods) == 1, fmt.Sprint(pods) })
	if err := r.DeletePrepull(t.Context(), p.ID); err != nil {
		t.Fatal(err)
	}
	s.noPods(t)
}
