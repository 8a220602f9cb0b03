// Package seal is where hashes, ids, seeds and random names are made, so that the same thing
// has the same name on every machine.
//
// An id is the lower-case hex of sha256 over canonical JSON: object keys sorted by
// byte order, no spaces, no HTML escapes, numbers as encoding/json writes them. Ids
// never hold a time, a machine name, an image digest or a shard count.
package seal

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
)

// Bytes is the hex sha256 of b.
func Bytes(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// Reader is Bytes of all that r has.
func Reader(r io.Reader) (string, error) {
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Random is n random bytes in hex: a name or key that nobody can guess.
func Random(n int) string {
	b := make([]byte, n)
	rand.Read(b) // never fails: crypto/rand ends the program instead
	return hex.EncodeToString(b)
}

// Canonical is v as canonical JSON. It fails where encoding/json does: NaN,
// infinities, channels and functions.
func Canonical(v any) ([]byte, error) {
	raw, err := JSON(v)
	if err != nil {
		return nil, err
	}
	// A second trip through an untyped value sorts the keys of structs as well.
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var u any
	if err := d.Decode(&u); err != nil {
		return nil, err
	}
	return JSON(u)
}

// JSON is v as encoding/json has it, without HTML escapes and without a line end.
func JSON(v any) ([]byte, error) {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// Sum is the id of v: hex sha256 over its canonical JSON.
func Sum(v any) (string, error) {
	b, err := Canonical(v)
	if err != nil {
		return "", fmt.Errorf("hash %T: %w", v, err)
	}
	return Bytes(b), nil
}

// ID is Sum over a list of strings; it cannot fail.
func ID(parts ...string) string {
	if parts == nil {
		parts = []string{}
	}
	id, err := Sum(parts)
	if err != nil {
		panic(err) // strings always marshal
	}
	return id
}

// Seed derives a non-negative 63-bit seed from a run seed and the names of what is
// drawn: the same names give the same seed, others an independent one.
func Seed(run int64, parts ...string) int64 {
	h := ID(append([]string{fmt.Sprint(run)}, parts...)...)
	b, _ := hex.DecodeString(h[:16])
	return int64(binary.BigEndian.Uint64(b) >> 1)
}
