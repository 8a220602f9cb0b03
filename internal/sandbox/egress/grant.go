package egress

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"orchard/internal/sandbox"
)

// Grant is everything that one sandbox may reach through the proxy.
type Grant struct {
	Sandbox    string `json:"sandbox"`
	UID        string `json:"uid"`        // of this incarnation of the sandbox
	Generation int64  `json:"generation"` // of two grants for one UID the higher counts
	TokenSum   string `json:"token_sum"`  // hex sha256 of the password that the sandbox has
	Rules      []Rule `json:"rules"`
}

// Rule is a sandbox.EgressRule with its end.
type Rule struct {
	CIDR    string   `json:"cidr,omitempty"`
	Domain  string   `json:"domain,omitempty"`
	Ports   []uint16 `json:"ports,omitempty"`
	UntilUS int64    `json:"until_us,omitempty"` // Unix microseconds; 0 is never
}

// Rules are those of a sandbox, granted at now.
func Rules(asked []sandbox.EgressRule, now time.Time) []Rule {
	rules := make([]Rule, 0, len(asked))
	for _, r := range asked {
		rule := Rule{CIDR: r.CIDR, Domain: r.Domain, Ports: r.Ports}
		if r.For > 0 {
			rule.UntilUS = now.Add(r.For).UnixMicro()
		}
		rules = append(rules, rule)
	}
	return rules
}

// Until is when the rule closes; zero is never.
func (r Rule) Until() time.Time {
	if r.UntilUS == 0 {
		return time.Time{}
	}
	return time.UnixMicro(r.UntilUS)
}

// TokenSum is what a Grant says of a token.
func TokenSum(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// holds reports whether token is the sandbox's.
func (g Grant) holds(token string) bool {
	return subtle.ConstantTimeCompare([]byte(TokenSum(token)), []byte(g.TokenSum)) == 1
}

// sealContext keeps a signature of a grant from being one of anything else.
const sealContext = "orchard egress grant v1\x00"

// Seal is g as text that only a holder of key can make.
func Seal(g Grant, key ed25519.PrivateKey) (string, error) {
	body, err := json.Marshal(g)
	if err != nil {
		return "", fmt.Errorf("seal egress grant of sandbox %s: %w", g.Sandbox, err)
	}
	sig := ed25519.Sign(key, append([]byte(sealContext), body...))
	return base64.RawURLEncoding.EncodeToString(body) + "." + base64.RawURLEncoding.EncodeToString(sig), nil
}

// ErrForged says that a grant was not sealed by a controller, or was changed since.
var ErrForged = errors.New("egress grant: not signed by a controller")

// Open is what Seal sealed with the private key of one of keys.
func Open(sealed string, keys []ed25519.PublicKey) (Grant, error) {
	head, tail, _ := strings.Cut(sealed, ".")
	body, err := base64.RawURLEncoding.DecodeString(head)
	if err != nil {
		return Grant{}, ErrForged
	}
	sig, err := base64.RawURLEncoding.DecodeString(tail)
	if err != nil {
		return Grant{}, ErrForged
	}
	for _, key := range keys {
		if ed25519.Verify(key, append([]byte(sealContext), body...), sig) {
			var g Grant
			if err := json.Unmarshal(body, &g); err != nil {
				return Grant{}, fmt.Errorf("egress grant: %w", err)
			}
			return g, nil
		}
	}
	return Grant{}, ErrForged
}
