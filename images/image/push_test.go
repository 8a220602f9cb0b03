package image_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"orchard/images/image"
)

// serve runs a registry that lets in who has the password.
func serve(t *testing.T) string {
	t.Helper()
	inner := registry.New()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "me" || password != "secret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

// Not parallel: where docker keeps credentials is in the environment.
func TestPush(t *testing.T) {
	host := serve(t)
	docker := t.TempDir()
	t.Setenv("DOCKER_CONFIG", docker)
	tag := host + "/team/orchard/stage:1.0"
	img := sample(t, write(t, "program", 0o700, time.Now()))
	if _, err := image.Push(t.Context(), tag, img); err == nil || !strings.Contains(err.Error(), "push "+tag) {
		t.Errorf("without a password: %v", err)
	}
	config := `{"auths": {"` + host + `": {"username": "me", "password": "secret"}}}`
	must(0, os.WriteFile(filepath.Join(docker, "config.json"), []byte(config), 0o600))

	pushed := must(image.Push(t.Context(), tag, img))
	if want := host + "/team/orchard/stage@" + must(img.Digest()).String(); pushed != want {
		t.Errorf("pushed as %s, want %s", pushed, want)
	}
	me := remote.WithAuth(&authn.Basic{Username: "me", Password: "secret"})
	for _, ref := range []string{pushed, tag} {
		there := must(remote.Image(must(name.ParseReference(ref)), me))
		if got, want := must(there.Digest()), must(img.Digest()); got != want {
			t.Errorf("%s is %s, want %s", ref, got, want)
		}
	}

	arm, err := image.New(image.Config{Platform: v1.Platform{OS: "linux", Architecture: "arm64"}}, []image.File{{Path: "/program", Data: []byte("arm")}})
	if err != nil {
		t.Fatal(err)
	}
	both := must(image.Push(t.Context(), tag, img, arm))
	if again := must(image.Push(t.Context(), tag, img, arm)); again != both {
		t.Errorf("pushed again as %s, was %s", again, both)
	}
	index := must(remote.Index(must(name.ParseReference(both)), me))
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	for arch, want := range map[string]v1.Image{"amd64": img, "arm64": arm} {
		got := must(remote.Image(must(name.ParseReference(both)), me, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: arch})))
		if must(got.Digest()) != must(want.Digest()) {
			t.Errorf("for %s the index has another image", arch)
		}
	}
}

func TestPushRefused(t *testing.T) {
	t.Parallel()
	img := sample(t, write(t, "program", 0o700, time.Now()))
	for _, tag := range []string{"127.0.0.1:1/UPPER/stage:1", "stage", "127.0.0.1:1/stage"} {
		if _, err := image.Push(t.Context(), tag, img); err == nil {
			t.Errorf("%s was taken", tag)
		}
	}
	if _, err := image.Push(t.Context(), "127.0.0.1:1/stage:1"); err == nil {
		t.Error("nothing was pushed")
	}
}
