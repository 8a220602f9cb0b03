package wire

import (
	"bytes"
	"container/heap"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// maxNonces bounds the replay cache: about 2 MB when full.
const maxNonces = 1 << 14

// Verifier tells requests signed by a controller for one sandbox, each only once.
// Safe for concurrent use.
type Verifier struct {
	uid  string
	keys []ed25519.PublicKey
	now  func() time.Time

	mu     sync.Mutex
	seen   map[string]bool
	oldest nonceHeap
	// floor is the newest time whose nonces were dropped for space: nothing as old is
	// accepted any more, so a full cache never lets a replay through.
	floor int64
}

// NewVerifier accepts what any of keys signed for sandbox uid. now is the clock; nil is time.Now.
func NewVerifier(uid string, keys []ed25519.PublicKey, now func() time.Time) *Verifier {
	if now == nil {
		now = time.Now
	}
	return &Verifier{uid: uid, keys: keys, now: now, seen: map[string]bool{}}
}

// Verify returns nil when r may be acted on, and then r.Body is what was signed: a
// hashed body has been read whole and compared, and a streamed one has the signed
// length if that was known. Nothing is read from the body, and nothing remembered,
// before the signature is found good.
func (v *Verifier) Verify(r *http.Request) error {
	fields := strings.Split(r.Header.Get("Authorization"), " ")
	if len(fields) != 5 || fields[0] != scheme {
		return errors.New("the request is not signed")
	}
	at, nonce, content := fields[1], fields[2], fields[3]
	signature, err := signatureEncoding.DecodeString(fields[4])
	if err != nil || !v.signed(signedText(r.Method, r.RequestURI, v.uid, at, nonce, content), signature) {
		return errors.New("the signature fits neither this sandbox's uid nor its keys")
	}
	ms, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return fmt.Errorf("the signature's time %q is not a number", at)
	}
	if err := v.once(ms, nonce); err != nil {
		return err
	}
	return checkContent(r, content)
}

func (v *Verifier) signed(text, signature []byte) bool {
	for _, key := range v.keys {
		if len(key) == ed25519.PublicKeySize && ed25519.Verify(key, text, signature) {
			return true
		}
	}
	return false
}

// once refuses a time outside the window and a nonce that came before.
func (v *Verifier) once(ms int64, nonce string) error {
	now := v.now().UnixMilli()
	skew := ClockSkew.Milliseconds()
	v.mu.Lock()
	defer v.mu.Unlock()
	for len(v.oldest) > 0 && v.oldest[0].ms < now-skew {
		delete(v.seen, heap.Pop(&v.oldest).(seenNonce).nonce)
	}
	switch {
	case ms < now-skew || ms > now+skew:
		return fmt.Errorf("the signature's time is %d ms from this sandbox's clock, at most %d are accepted", ms-now, skew)
	case ms <= v.floor:
		return errors.New("the signature is too old for a sandbox this busy: sign again")
	case v.seen[nonce]:
		return errors.New("the signature was used before")
	}
	v.seen[nonce] = true
	heap.Push(&v.oldest, seenNonce{ms, nonce})
	if len(v.oldest) > maxNonces {
		dropped := heap.Pop(&v.oldest).(seenNonce)
		delete(v.seen, dropped.nonce)
		v.floor = dropped.ms
	}
	return nil
}

// checkContent holds the body against the signed CONTENT field.
func checkContent(r *http.Request, content string) error {
	kind, value, _ := strings.Cut(content, ":")
	switch {
	case kind == "stream" && r.Method == http.MethodPut:
		if value != "-1" && value != strconv.FormatInt(r.ContentLength, 10) {
			return fmt.Errorf("the body has length %d, signed was %s", r.ContentLength, value)
		}
		return nil
	case kind == "sha256" && r.Method != http.MethodPut:
		body, err := io.ReadAll(io.LimitReader(r.Body, MaxBody+1))
		if err != nil {
			return fmt.Errorf("read the body: %w", err)
		}
		if len(body) > MaxBody {
			return fmt.Errorf("the body has more than %d bytes", MaxBody)
		}
		sum := sha256.Sum256(body)
		if subtle.ConstantTimeCompare([]byte(hex.EncodeToString(sum[:])), []byte(value)) != 1 {
			return errors.New("the body is not the signed one")
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		return nil
	}
	return fmt.Errorf("content %q cannot be signed for a %s", kind, r.Method)
}

// seenNonce is a nonce and its request's time; nonceHeap has the oldest first.
type seenNonce struct {
	ms    int64
	nonce string
}

type nonceHeap []seenNonce

var _ heap.Interface = (*nonceHeap)(nil)

func (h nonceHeap) Len() int           { return len(h) }
func (h nonceHeap) Less(i, j int) bool { return h[i].ms < h[j].ms }
func (h nonceHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *nonceHeap) Push(x any)        { *h = append(*h, x.(seenNonce)) }
func (h *nonceHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
