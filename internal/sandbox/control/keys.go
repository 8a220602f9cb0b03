package control

import (
	"crypto/sha256"
	"crypto/subtle"
	"strings"

	"orchard/internal/seal"
)

// Keys are the API keys that a service takes. Only their hashes are kept, so a Keys
// can be printed. The zero Keys takes none.
type Keys struct {
	sums [][sha256.Size]byte
}

// ParseKeys reads keys separated by commas, spaces or newlines.
func ParseKeys(s string) Keys {
	var k Keys
	for _, key := range strings.FieldsFunc(s, func(r rune) bool {
		return r == ',' || r == ' ' || r == '\n' || r == '\r' || r == '\t'
	}) {
		k.sums = append(k.sums, sha256.Sum256([]byte(key)))
	}
	return k
}

// Len is how many keys there are.
func (k Keys) Len() int { return len(k.sums) }

// String shows no key.
func (k Keys) String() string { return "***" }

// Match reports whether key is one of k, in a time that tells nothing of either.
func (k Keys) Match(key string) bool {
	sum := sha256.Sum256([]byte(key))
	found := 0
	for _, s := range k.sums {
		found |= subtle.ConstantTimeCompare(s[:], sum[:])
	}
	return found == 1
}

// NewKey is a random key.
func NewKey() string { return seal.Random(24) }
