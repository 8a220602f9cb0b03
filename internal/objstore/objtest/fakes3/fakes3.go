// Package fakes3 is an S3 service in this process, for tests: gofakes3 in memory behind a
// real HTTP server on the loopback.
//
// It cannot show: signatures and rights (every key is welcome, the SHA-256 of a body is
// not compared, its MD5 is), conditions on completing a multipart upload (it ignores
// them and answers another ETag than the object then has), regions, TLS, a full disk, and
// the smallest size of parts. Tests of those answer
// by themselves, or run against a real server.
package fakes3

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// Bucket is there from the start.
const Bucket = "orchard-test"

// Start is a new empty service and returns its URL. wrap may change what it does.
func Start(t testing.TB, wrap func(http.Handler) http.Handler) string {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket(Bucket); err != nil {
		t.Fatal(err)
	}
	h := gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server()
	if wrap != nil {
		h = wrap(h)
	}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}
