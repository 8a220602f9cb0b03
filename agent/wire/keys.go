package wire

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// FormatPublicKey is key as ParsePublicKeys reads it: base64 of its 32 bytes.
func FormatPublicKey(key ed25519.PublicKey) string { return base64.StdEncoding.EncodeToString(key) }

// ParsePublicKeys reads one or more keys, separated by spaces, commas or newlines.
func ParsePublicKeys(text string) ([]ed25519.PublicKey, error) {
	var keys []ed25519.PublicKey
	for _, field := range splitKeys(text) {
		raw, err := base64.StdEncoding.DecodeString(field)
		if err != nil || len(raw) != ed25519.PublicKeySize {
			return nil, fmt.Errorf("public key %q is not base64 of %d bytes", field, ed25519.PublicKeySize)
		}
		keys = append(keys, raw)
	}
	if len(keys) == 0 {
		return nil, errors.New("there is no public key")
	}
	return keys, nil
}

// FormatPrivateKey is key as ParsePrivateKey reads it: base64 of its 32-byte seed.
// It is a secret.
func FormatPrivateKey(key ed25519.PrivateKey) string {
	return base64.StdEncoding.EncodeToString(key.Seed())
}

// ParsePrivateKey reads one key. Its errors never quote the text.
func ParsePrivateKey(text string) (ed25519.PrivateKey, error) {
	fields := splitKeys(text)
	if len(fields) != 1 {
		return nil, fmt.Errorf("want one private key, there are %d", len(fields))
	}
	seed, err := base64.StdEncoding.DecodeString(fields[0])
	if err != nil || len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("the private key is not base64 of %d bytes", ed25519.SeedSize)
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

func splitKeys(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" ,\t\r\n", r) })
}
