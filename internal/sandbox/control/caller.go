package control

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
)

type callerKey struct{}

// callerOf is whom a request is from. A context that came through no authorised has none.
func callerOf(ctx context.Context) (caller, bool) {
	c, ok := ctx.Value(callerKey{}).(caller)
	return c, ok
}

// authorised lets h see only requests whose X-API-Key is known, and says whose it is.
func (s *Service) authorised(h handler) handler {
	return s.authorisedBy(func(r *http.Request) string { return r.Header.Get("X-API-Key") }, h)
}

// authorisedBy is authorised for requests that carry their key elsewhere. Without
// RequireKey everybody is an admin, as everybody may do everything.
func (s *Service) authorisedBy(keyOf func(*http.Request) string, h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		user, key := caller{name: DefaultOwner, admin: true}, keyOf(r)
		if s.set.RequireKey {
			if key == "" {
				return fail(http.StatusUnauthorized, "Missing API key. Please provide X-API-Key header.")
			}
			var ok bool
			if user, ok = s.keys.find(r.Context(), key); !ok {
				return fail(http.StatusForbidden, "Invalid API key")
			}
		}
		sum := sha256.Sum256([]byte("owner\x00" + key))
		user.key = hex.EncodeToString(sum[:16])
		if rec, ok := w.(*recorder); ok {
			rec.owner = user.name
		}
		return h(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, user)))
	}
}

// owner names the caller's key without being it: what one key asked for is never
// attached to what another did.
func owner(r *http.Request) string {
	c, _ := callerOf(r.Context())
	return c.key
}

// maxClientRequestID bounds what a client may write into the log.
const maxClientRequestID = 64

// clientRequestID is the id that a client gave its request, for the log: a few plain
// characters, whatever was sent.
func clientRequestID(r *http.Request) string {
	id := r.Header.Get("X-Request-ID")
	if len(id) > maxClientRequestID {
		id = id[:maxClientRequestID]
	}
	return strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.ContainsRune("-_.:/", c):
			return c
		}
		return '?'
	}, id)
}
