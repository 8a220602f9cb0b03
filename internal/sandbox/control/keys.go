package control

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"strings"

	"orchard/internal/seal"
)

// DefaultOwner is the owner of what is made with a key that has no name.
const DefaultOwner = "default"

// Keys are the API keys that a service takes, and whom each stands for. Only their
// hashes are kept, so a Keys can be printed. The zero Keys takes none; a Keys does not change.
type Keys struct {
	list []apiKey
}

type apiKey struct {
	sum  [sha256.Size]byte
	user caller
}

// caller is whom a request is from.
type caller struct {
	name  string // of its key: the owner of what it makes
	key   string // which key it came with, and not the key
	admin bool   // it sees what everybody has made
	quota quota
}

// ParseKeys reads keys separated by commas, spaces or newlines. They have no names: what
// they make belongs to DefaultOwner.
func ParseKeys(s string) Keys {
	var k Keys
	for _, key := range strings.FieldsFunc(s, func(r rune) bool {
		return r == ',' || r == ' ' || r == '\n' || r == '\r' || r == '\t'
	}) {
		k.list = append(k.list, apiKey{sha256.Sum256([]byte(key)), caller{name: DefaultOwner}})
	}
	return k
}

// Len is how many keys there are.
func (k Keys) Len() int { return len(k.list) }

// String shows no key.
func (k Keys) String() string { return "***" }

// find is whom key stands for, in a time that tells nothing of any key.
func (k Keys) find(key string) (caller, bool) {
	sum := sha256.Sum256([]byte(key))
	found := -1
	for i := range k.list {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(k.list[i].sum[:], sum[:]), i, found)
	}
	if found < 0 {
		return caller{}, false
	}
	return k.list[found].user, true
}

// and is the keys of both. One key must stand for one user, and one name for one key;
// flat keys may be given twice.
func (k Keys) and(other Keys) (Keys, error) {
	all := Keys{list: append(append([]apiKey(nil), k.list...), other.list...)}
	var errs []error
	names, sums := map[string]bool{}, map[[sha256.Size]byte]string{}
	for _, e := range all.list {
		if name := e.user.name; name != DefaultOwner {
			if names[name] {
				errs = append(errs, fmt.Errorf("key %q is there twice", name))
			}
			names[name] = true
		}
		if first, ok := sums[e.sum]; ok && (first != DefaultOwner || e.user.name != DefaultOwner) {
			errs = append(errs, fmt.Errorf("keys %q and %q have the same sha256", first, e.user.name))
		}
		sums[e.sum] = e.user.name
	}
	return all, errors.Join(errs...)
}

// NewKey is a random key.
func NewKey() string { return seal.Random(24) }
