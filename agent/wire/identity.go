package wire

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// An agent that others could be taken for proves who it is before it is told anything:
// it serves TLS with a key that only it and the controllers know. That key is made of the
// controllers' private one and a random name that the sandbox has for itself, so no
// controller keeps it. The name is also what a controller asks for (SNI).

// identityUse keeps these keys apart from whatever else may be made of the controllers'.
const identityUse = "orchard agent identity 1: "

// errStranger is one who has another key than the agent that was asked for.
var errStranger = errors.New("its key is not that of the agent")

// IdentitySeed is what the agent called name makes its key of. It is a secret.
func IdentitySeed(key ed25519.PrivateKey, name string) ([]byte, error) {
	if len(key) != ed25519.PrivateKeySize || name == "" {
		return nil, fmt.Errorf("an agent's identity needs the controllers' key, and a name: got %d bytes and %q", len(key), name)
	}
	return hkdf.Key(sha256.New, key.Seed(), nil, identityUse+name, ed25519.SeedSize)
}

// FormatSeed is seed as ParseSeed reads it.
func FormatSeed(seed []byte) string { return base64.StdEncoding.EncodeToString(seed) }

// ParseSeed reads an identity's seed. Its errors never quote the text.
func ParseSeed(text string) ([]byte, error) {
	seed, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("the seed is not base64 of %d bytes", ed25519.SeedSize)
	}
	return seed, nil
}

// Certificate is what an agent with that seed shows: nothing in it counts but the key.
func Certificate(seed []byte) (*tls.Certificate, error) {
	if len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("an identity's seed has %d bytes, want %d", len(seed), ed25519.SeedSize)
	}
	key := ed25519.NewKeyFromSeed(seed)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<36, 0)}
	raw, err := x509.CreateCertificate(nil, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make an identity's certificate: %w", err)
	}
	return &tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}, nil
}

// ServeTLS is how an agent with that seed serves.
func ServeTLS(seed []byte) (*tls.Config, error) {
	certificate, err := Certificate(seed)
	if err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*certificate}, SessionTicketsDisabled: true}, nil
}

// DialTLS is how a controller with that key reaches the agent called name, and nobody else:
// the handshake fails with any other. There is no session to resume, so each is a whole one.
func DialTLS(key ed25519.PrivateKey, name string) (*tls.Config, error) {
	seed, err := IdentitySeed(key, name)
	if err != nil {
		return nil, err
	}
	want := ed25519.NewKeyFromSeed(seed).Public()
	return &tls.Config{
		MinVersion: tls.VersionTLS13, ServerName: name, SessionTicketsDisabled: true,
		InsecureSkipVerify: true, // no authority is asked: the one key is known
		VerifyConnection: func(s tls.ConnectionState) error {
			if got, ok := s.PeerCertificates[0].PublicKey.(ed25519.PublicKey); !ok || !got.Equal(want) {
				return errStranger
			}
			return nil
		},
	}, nil
}
