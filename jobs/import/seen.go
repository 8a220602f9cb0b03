package importer

import (
	"crypto/sha256"

	"orchard/datasets/imports"
	"orchard/internal/seal"
)

// seen is the ids that were kept, hashed, with where they were and what they said.
// 128 bits are enough that no two of a billion ids are ever taken for one.
type seen map[[16]byte]first

type first struct {
	same [16]byte // hash of the content
	file int32
	row  int64 // from 1
}

// add remembers a row. again is true for one that says the same as an earlier one of its
// id; other is the earlier one that says something else.
func (s seen) add(p *imports.Parsed, file int, row int64) (again bool, other *first, err error) {
	sum, err := seal.Canonical(p.Same())
	if err != nil {
		return false, nil, err
	}
	now := first{same: short(sum), file: int32(file), row: row}
	id := short([]byte(p.ID()))
	f, ok := s[id]
	switch {
	case !ok:
		s[id] = now
		return false, nil, nil
	case f.same == now.same:
		return true, nil, nil
	}
	return false, &f, nil
}

func short(b []byte) (out [16]byte) {
	sum := sha256.Sum256(b)
	copy(out[:], sum[:])
	return out
}

// bits is a list of yes and no.
type bits struct {
	words []uint64
	n     int64
}

func (b *bits) add(yes bool) {
	if b.n%64 == 0 {
		b.words = append(b.words, 0)
	}
	if yes {
		b.words[b.n/64] |= 1 << (b.n % 64)
	}
	b.n++
}

// at is entry i; no beyond the end.
func (b *bits) at(i int64) bool { return i < b.n && b.words[i/64]&(1<<(i%64)) != 0 }
