package control

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"regexp"
	"strings"
	"time"

	"orchard/internal/seal"
)

// sandboxID is an RFC 1123 label: it becomes a Pod's name and label, and a part of
// every job id.
var sandboxID = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

const sandboxIDRule = "sandbox_id must be 1 to 63 lower-case letters, digits and hyphens, with a letter or digit first and last"

// newSandboxID is long enough that two never meet: the original's eight digits collide
// in one of four fleets of 50,000.
func newSandboxID() string { return seal.Random(8) }

// keyedSandboxID is the id of a create with an Idempotency-Key and no id of its own:
// every replica derives the same one, so a repeat finds the first one's sandbox.
func keyedSandboxID(owner, key string) string {
	sum := sha256.Sum256([]byte(owner + "\x00sandbox\x00" + key))
	return hex.EncodeToString(sum[:10])
}

// jobID is what a job's id says, so that any replica can answer for a job without a
// store: whose it is, of which incarnation, and what was asked. Clients see a string.
type jobID struct {
	sandbox string
	uid     [4]byte // hash of State.UID
	created time.Time
	timeout time.Duration
}

var jobEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

const jobHead = 20 // bytes before encoding: 6 time, 4 uid, 4 timeout, 6 random

func uidHash(uid string) [4]byte {
	sum := sha256.Sum256([]byte(uid))
	return [4]byte(sum[:4])
}

func newJobID(st State, timeout time.Duration, now time.Time) string {
	var b [jobHead]byte
	binary.BigEndian.PutUint64(b[:8], uint64(now.UnixMilli())<<16)
	uid := uidHash(st.UID)
	copy(b[6:10], uid[:])
	binary.BigEndian.PutUint32(b[10:14], uint32(timeout.Milliseconds()))
	rand.Read(b[14:])
	return jobEncoding.EncodeToString(b[:]) + "-" + st.Spec.ID
}

func parseJobID(s string) (jobID, bool) {
	head, id, ok := strings.Cut(s, "-")
	if !ok || !sandboxID.MatchString(id) {
		return jobID{}, false
	}
	b, err := jobEncoding.DecodeString(head)
	if err != nil || len(b) != jobHead {
		return jobID{}, false
	}
	return jobID{
		sandbox: id,
		uid:     [4]byte(b[6:10]),
		created: time.UnixMilli(int64(binary.BigEndian.Uint64(append([]byte{0, 0}, b[:6]...)))),
		timeout: time.Duration(binary.BigEndian.Uint32(b[10:14])) * time.Millisecond,
	}, true
}
