package wire

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A signed request carries
//
//	Authorization: Orchard1 TIME NONCE CONTENT SIGNATURE
//
// TIME is Unix milliseconds, NONCE 16 random bytes in hex, CONTENT "sha256:HEX" of
// the body or, for a PUT, whose body may be larger than memory, "stream:LENGTH" (-1
// when not known). SIGNATURE is Ed25519, base64, over method, request URI, sandbox
// UID and the three fields before it. The UID itself is not sent: a request for
// another sandbox simply does not verify.
const scheme = "Orchard1"

// ClockSkew is how far a request's time may be from the agent's clock, either way.
const ClockSkew = 2 * time.Minute

// MaxBody is the largest hashed body, in bytes: it is read whole before anything acts on it.
const MaxBody = 32 << 20

var signatureEncoding = base64.RawURLEncoding.Strict()

// Sign adds the Authorization header that lets req reach the agent of sandbox uid,
// once. A body that is hashed must be replayable (GetBody set, as http.NewRequest
// does for buffers and strings).
func Sign(req *http.Request, key ed25519.PrivateKey, uid string, now time.Time) error {
	if len(key) != ed25519.PrivateKeySize {
		return fmt.Errorf("sign %s: the private key has %d bytes, want %d", req.URL.Path, len(key), ed25519.PrivateKeySize)
	}
	content, err := contentOf(req)
	if err != nil {
		return fmt.Errorf("sign %s: %w", req.URL.Path, err)
	}
	var nonce [16]byte
	if _, err := rand.Read(nonce[:]); err != nil {
		return fmt.Errorf("sign %s: %w", req.URL.Path, err)
	}
	at, once := strconv.FormatInt(now.UnixMilli(), 10), hex.EncodeToString(nonce[:])
	signature := ed25519.Sign(key, signedText(req.Method, req.URL.RequestURI(), uid, at, once, content))
	req.Header.Set("Authorization", strings.Join([]string{scheme, at, once, content, signatureEncoding.EncodeToString(signature)}, " "))
	return nil
}

// signedText quotes every part, so that no two different requests have one text.
func signedText(method, uri, uid, at, nonce, content string) []byte {
	var b []byte
	for _, part := range []string{scheme, method, uri, uid, at, nonce, content} {
		b = strconv.AppendQuote(b, part)
	}
	return b
}

// contentOf is the CONTENT field of a request about to be sent.
func contentOf(req *http.Request) (string, error) {
	if req.Method == http.MethodPut {
		length := req.ContentLength
		if length == 0 && req.Body != nil && req.Body != http.NoBody {
			length = -1
		}
		return "stream:" + strconv.FormatInt(length, 10), nil
	}
	h := sha256.New()
	if req.Body != nil && req.Body != http.NoBody {
		if req.GetBody == nil {
			return "", errors.New("the body cannot be read twice: only a PUT may stream")
		}
		body, err := req.GetBody()
		if err != nil {
			return "", err
		}
		defer body.Close()
		if _, err := io.Copy(h, body); err != nil {
			return "", err
		}
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

// Transport signs every request for one sandbox and sends it through Base. Safe for
// concurrent use when Base is.
//
// A signature is good for one arrival: keep Base's IdleConnTimeout under the agent's
// 150 s, so that net/http does not send a request again on a connection found dead.
type Transport struct {
	Base http.RoundTripper  // nil is http.DefaultTransport
	Key  ed25519.PrivateKey // the controllers'
	UID  string             // of the sandbox
	Now  func() time.Time   // nil is time.Now
}

var _ http.RoundTripper = (*Transport)(nil)

// RoundTrip implements http.RoundTripper; req itself is left as it is.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	base, now := t.Base, t.Now
	if base == nil {
		base = http.DefaultTransport
	}
	if now == nil {
		now = time.Now
	}
	signed := req.Clone(req.Context())
	if err := Sign(signed, t.Key, t.UID, now()); err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, err
	}
	return base.RoundTrip(signed)
}
