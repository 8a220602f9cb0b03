package wire_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"strings"
	"testing"

	"orchard/agent/wire"
)

// What an agent proves must be the same for controllers of every version: another seed would
// lock them out of each other's sandboxes.
func TestIdentitySeed(t *testing.T) {
	t.Parallel()
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	seed, err := wire.IdentitySeed(key, "name")
	if err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(seed); got != "3c33c7778b696c8764814623def5e20c13c0109c0a423ebbd02710b9c058cbe8" {
		t.Errorf("another seed: %s", got)
	}
	_, other := keys(t)
	for what, make := range map[string]func() ([]byte, error){
		"another name": func() ([]byte, error) { return wire.IdentitySeed(key, "name2") },
		"another key":  func() ([]byte, error) { return wire.IdentitySeed(other, "name") },
		"the key":      func() ([]byte, error) { return key.Seed(), nil },
	} {
		if got, err := make(); err != nil || bytes.Equal(got, seed) {
			t.Errorf("%s: the same seed, %v", what, err)
		}
	}
	if back, err := wire.ParseSeed(wire.FormatSeed(seed)); err != nil || !bytes.Equal(back, seed) {
		t.Errorf("read back: %x, %v", back, err)
	}
	for _, bad := range []string{"", "c2hvcnQ=", "!" + wire.FormatSeed(seed)} {
		if _, err := wire.ParseSeed(bad); err == nil || len(bad) > 0 && strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := wire.IdentitySeed(key, ""); err == nil {
		t.Error("a seed for no name")
	}
	if _, err := wire.IdentitySeed(nil, "name"); err == nil {
		t.Error("a seed of no key")
	}
	if _, err := wire.Certificate(seed[1:]); err == nil {
		t.Error("a certificate of a short seed")
	}
}
