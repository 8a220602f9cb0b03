//go:build linux

package main

import (
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

func serve(t *testing.T) (prefix string) {
	t.Helper()
	s := httptest.NewServer(registry.New())
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://") + "/team/orchard"
}

// What is pushed has the digest of the archive, and is printed as a chart's values want it.
func TestPushed(t *testing.T) {
	t.Parallel()
	dist, prefix := t.TempDir(), serve(t)
	build(t, "-dist", dist, "-version", "4", "agent")
	digest, err := archiveOf(t, dist, "agent").Digest()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := build(t, "-dist", dist, "-version", "4", "-push", prefix+"/", "agent", "agent"), fmt.Sprintf("%s/agent@%s\n", prefix, digest); got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
	there, err := remote.Head(mustRef(prefix + "/agent:4"))
	if err != nil || there.Digest != digest {
		t.Errorf("the tag is %+v, %v", there, err)
	}
}

// One digest for two platforms, each with its own program. The standard library is compiled for another machine.
func TestPushedForTwoPlatforms(t *testing.T) {
	t.Parallel()
	if os.Getenv("ORCHARD_SOAK") != "1" {
		t.Skip("ORCHARD_SOAK=1 compiles for another machine")
	}
	pushed := strings.TrimSpace(build(t, "-dist", t.TempDir(), "-push", serve(t), "-platforms", "linux/amd64,linux/arm64", "agent"))
	index, err := remote.Index(mustRef(pushed))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		p := v1.Platform{OS: "linux", Architecture: arch}
		img, err := remote.Image(mustRef(pushed), remote.WithPlatform(p))
		if err != nil {
			t.Fatal(err)
		}
		if c, err := img.ConfigFile(); err != nil || c.Architecture != arch {
			t.Errorf("%s: %+v, %v", arch, c, err)
		}
	}
}

func mustRef(s string) name.Reference {
	ref, err := name.ParseReference(s)
	if err != nil {
		panic(err)
	}
	return ref
}
