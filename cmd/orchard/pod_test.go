package main

import (
	"errors"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
)

// What a Pod's list shows is the error, cut to what Kubernetes keeps.
func TestLastWords(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "log")
	lastWords(file, errors.New("--out: no such bucket"))
	if b, err := os.ReadFile(file); err != nil || string(b) != "--out: no such bucket" {
		t.Errorf("%q, %v", b, err)
	}
	lastWords(file, errors.New(strings.Repeat("x", 10000)))
	if b, _ := os.ReadFile(file); len(b) > 4096 || len(b) < 4000 {
		t.Errorf("%d bytes", len(b))
	}
	lastWords("", errors.New("nobody listens"))
}

func TestLimitMemory(t *testing.T) {
	was := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(was)
	limitMemory("1000000000")
	if got := debug.SetMemoryLimit(-1); got != 900000000 {
		t.Errorf("limit %d", got)
	}
	for _, nonsense := range []string{"", "x", "-1", "0"} {
		limitMemory(nonsense)
	}
	if got := debug.SetMemoryLimit(-1); got != 900000000 {
		t.Errorf("nonsense changed the limit to %d", got)
	}
}
