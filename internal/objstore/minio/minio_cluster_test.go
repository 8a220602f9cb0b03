package minio

import (
	"cmp"
	"context"
	"crypto/rand"
	"os"
	"strings"
	"testing"

	s3 "github.com/minio/minio-go/v7"

	"orchard/internal/objstore"
	"orchard/internal/objstore/objtest"
	"orchard/test/e2e/suite"
)

// realService is the MinIO server of the test cluster, with a bucket that goes with the test.
func realService(t testing.TB) service {
	t.Helper()
	suite.Need(t)
	s := service{bucket: "orchard-" + strings.ToLower(rand.Text()), real: true, cfg: Config{
		Endpoint:  cmp.Or(os.Getenv("ORCHARD_E2E_MINIO"), "http://198.18.255.1:9000"),
		AccessKey: "orchard", SecretKey: "orchard-test-secret", KeySource: "the test",
	}}
	st := s.open(t)
	if err := st.core.MakeBucket(t.Context(), s.bucket, s3.MakeBucketOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.core.RemoveBucketWithOptions(context.Background(), s.bucket, s3.RemoveBucketOptions{ForceDelete: true}); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestClusterStore(t *testing.T) {
	t.Parallel()
	s := realService(t)
	objtest.Run(t, func(t *testing.T) objstore.Store { return s.open(t) })
}
