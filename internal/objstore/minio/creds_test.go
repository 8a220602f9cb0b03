package minio

import (
	"errors"
	"testing"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
)

// slow has an identity that it does not give at first.
type slow struct{ asked int }

func (s *slow) RetrieveWithCredContext(*credentials.CredContext) (credentials.Value, error) {
	if s.asked++; s.asked == 1 {
		return credentials.Value{}, errors.New("no answer")
	}
	return credentials.Value{AccessKeyID: "role", SecretAccessKey: "secret"}, nil
}
func (s *slow) Retrieve() (credentials.Value, error) { return s.RetrieveWithCredContext(nil) }
func (s *slow) IsExpired() bool                      { return false }

// TestTroubleIsNotForGood: that an optional source could not be asked makes a process
// nobody for a while only; that it has nothing is for good.
func TestTroubleIsNotForGood(t *testing.T) {
	t.Parallel()
	c := &chain{links: []link{{"the machine's metadata service", &slow{}, true}}}
	if v, err := c.Retrieve(); err != nil || v.AccessKeyID != "" || c.IsExpired() {
		t.Errorf("without an answer: %q, %v, expired %v", v.AccessKeyID, err, c.IsExpired())
	}
	c.again = time.Now().Add(-time.Second)
	if !c.IsExpired() {
		t.Error("a minute later nobody would ask again")
	}
	if v, err := c.Retrieve(); err != nil || v.AccessKeyID != "role" || c.IsExpired() {
		t.Errorf("with an answer: %q, %v, expired %v", v.AccessKeyID, err, c.IsExpired())
	}
	none := &chain{links: []link{{"a file", &credentials.Static{}, true}}}
	if _, err := none.Retrieve(); err != nil || !none.again.IsZero() {
		t.Errorf("nothing there: %v, again at %v", err, none.again)
	}
}
