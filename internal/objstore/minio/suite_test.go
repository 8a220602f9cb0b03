package minio

import (
	"crypto/rand"
	"strings"
	"testing"

	"orchard/internal/objstore"
	"orchard/internal/objstore/limit"
	"orchard/internal/objstore/objtest"
	"orchard/internal/objstore/objtest/fakes3"
	"orchard/internal/objstore/retry"
)

// service is a server with a bucket that tests may fill.
type service struct {
	cfg    Config
	bucket string
	real   bool
}

func fake(t testing.TB) service {
	t.Helper()
	return service{cfg: config(fakes3.Start(t, nil)), bucket: fakes3.Bucket}
}

// config is for any key, which is what the fake takes.
func config(url string) Config {
	return Config{Endpoint: url, AccessKey: "key-of-tests", SecretKey: "secret-of-tests", KeySource: "the test"}
}

// open is an empty store under a prefix of its own.
func (s service) open(t testing.TB) *Store {
	t.Helper()
	st, err := Open("s3://"+s.bucket+"/t/"+strings.ToLower(rand.Text()), s.cfg)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func TestStore(t *testing.T) {
	t.Parallel()
	s := fake(t)
	objtest.Run(t, func(t *testing.T) objstore.Store { return s.open(t) })
}

// The way datasets use it.
func TestWrapped(t *testing.T) {
	t.Parallel()
	s := fake(t)
	objtest.Run(t, func(t *testing.T) objstore.Store { return retry.New(limit.New(s.open(t), 4), retry.Policy{}) })
}
