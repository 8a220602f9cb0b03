package minio

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	s3 "github.com/minio/minio-go/v7"

	"orchard/internal/exit"
	"orchard/internal/objstore"
)

// errNoUpload: the upload that a part belongs to has ended.
var errNoUpload = errors.New("the upload was ended by somebody else")

// code is the S3 code of an error, "" when the server did not say one.
func code(err error) string {
	var r s3.ErrorResponse
	errors.As(err, &r)
	return r.Code
}

// status is the HTTP status of an error, 0 when there was no answer.
func status(err error) int {
	var r s3.ErrorResponse
	errors.As(err, &r)
	return r.StatusCode
}

// explain says what an error of the server means, in terms a caller branches on: what
// somebody must mend is an exit.Config, what time mends is ErrUnavailable. key is "" for
// calls on the whole store.
func (s *Store) explain(ctx context.Context, op, key string, a *answer, err error) error {
	what := op + " " + s.root
	if key != "" {
		what += "/" + key
	}
	if e := ctx.Err(); e != nil {
		return fmt.Errorf("%s: %w", what, e)
	}
	var local *bodyError
	if errors.As(err, &local) {
		return fmt.Errorf("%s: read content: %w", what, local.err)
	}
	var r s3.ErrorResponse
	if errors.As(err, &r) {
		return s.explainAnswer(what, a, r)
	}
	var creds *credentialsError
	if errors.As(err, &creds) && !isNetwork(creds.err) {
		return exit.Configf("%s: %w", what, err)
	}
	var u *url.Error
	if creds == nil && errors.As(err, &u) { // its URL is the key once more
		err = fmt.Errorf("%s: %w", s.url, u.Err)
	}
	if errors.Is(err, errForeign) {
		return exit.Configf("%s: %s %w", what, s.url, errForeign)
	}
	if why := tlsTrouble(err, s.url); why != "" {
		return exit.Configf("%s: %s: %w", what, why, err)
	}
	return exit.Retryf("%s: %w: %w", what, objstore.ErrUnavailable, err)
}

func isNetwork(err error) bool {
	var u *url.Error // what an HTTP client says when it got no answer
	return errors.As(err, &u)
}

func (s *Store) explainAnswer(what string, a *answer, r s3.ErrorResponse) error {
	r.Message = brief(r.Message)
	said := r.Code
	if r.Message != "" && r.Message != r.Code {
		said = strings.TrimSuffix(r.Message, ".") + " (" + r.Code + ")"
	}
	config := func(format string, args ...any) error {
		return exit.Configf("%s: %s: %s", what, fmt.Sprintf(format, args...), said)
	}
	if r.Code == s3.InternalError && r.StatusCode == 0 { // minio-go, of an answer without what objects have
		return config("%s %v", s.url, errForeign)
	}
	switch r.Code {
	case s3.NoSuchKey, "NoSuchVersion":
		return fmt.Errorf("%s: %w", what, objstore.ErrNotFound)
	case s3.NoSuchBucket:
		return config("there is no bucket %q at %s; make it first (aws s3 mb s3://%s, or mc mb ALIAS/%s)", s.bucket, s.url, s.bucket, s.bucket)
	case "NoSuchUpload":
		return fmt.Errorf("%s: %w", what, errNoUpload)
	case s3.PreconditionFailed:
		return fmt.Errorf("%s: %w", what, objstore.ErrExists)
	case "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded", "QuotaExceeded", "InsufficientCapacity":
		return exit.Gonef("%s: %w: %s", what, objstore.ErrNoSpace, said)
	case "InvalidAccessKeyId", "InvalidTokenId", "InvalidToken", "InvalidClientTokenId":
		return config("%s does not know us, or a session has expired: %s", s.url, s.creds) // MinIO forgets those
	case "SignatureDoesNotMatch":
		return config("%s does not accept the secret: %s", s.url, s.creds)
	case s3.AccessDenied, "AllAccessDisabled", "AccountProblem":
		return config("not allowed on bucket %q at %s: %s", s.bucket, s.url, s.creds)
	case "ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired":
		return config("the session has expired, get a new one: %s", s.creds)
	case "RequestTimeTooSkewed", "RequestExpired":
		return config("%s", skew(time.Now(), a.date, s.url))
	case s3.AuthorizationHeaderMalformed, s3.InvalidRegion, "PermanentRedirect", "TemporaryRedirect", "IllegalLocationConstraintException":
		if r.Region != "" {
			return config("bucket %q is in another region: set AWS_REGION=%s", s.bucket, r.Region)
		}
		return config("bucket %q may be in another region: set AWS_REGION to its own", s.bucket)
	case s3.NotImplemented, s3.APINotSupported:
		return config("%s cannot do this", s.url)
	// Our requests are well-formed and carry the hashes of their content: these say that
	// something was lost on the way.
	case "BadDigest", "InvalidDigest", "XAmzContentSHA256Mismatch", "XAmzContentChecksumMismatch", "IncompleteBody", "RequestTimeout",
		"InvalidPart", "InvalidPartOrder", "MalformedXML", "ConditionalRequestConflict", "OperationAborted", s3.Conflict, "SlowDown", "SlowDownRead", "SlowDownWrite", "InternalError":
		return exit.Retryf("%s: %w: %s", what, objstore.ErrUnavailable, said)
	}
	switch n := r.StatusCode; {
	case n == http.StatusInsufficientStorage:
		return exit.Gonef("%s: %w: %s", what, objstore.ErrNoSpace, said)
	case n == http.StatusMovedPermanently, n == http.StatusTemporaryRedirect:
		return config("bucket %q may be in another region: set AWS_REGION to its own", s.bucket)
	case strings.Contains(r.Message, "HTTP request to an HTTPS server"), strings.Contains(r.Message, "HTTP request was sent to HTTPS port"):
		return config("the endpoint %s speaks TLS: write https:// in AWS_ENDPOINT_URL_S3", s.url)
	case n >= 500, n == http.StatusTooManyRequests, n == http.StatusRequestTimeout, n == 499:
		return exit.Retryf("%s: %w: %s", what, objstore.ErrUnavailable, said)
	}
	if r.Code == "" || r.Code[0] < 'A' || strings.Contains(r.Message, "must be made to API port") { // no code of S3: that is the HTTP status; MinIO's console
		return config("%s %v", s.url, errForeign)
	}
	return fmt.Errorf("%s: %s answered %d: %s", what, s.url, r.StatusCode, said)
}

// brief is the beginning of what a server said, in a line: it may be a page.
func brief(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "?")), " ")
	if r := []rune(s); len(r) > 200 {
		s = string(r[:200]) + "…"
	}
	return s
}

// skew says how far the clocks are apart; server is zero when it did not say.
func skew(here, server time.Time, at string) string {
	if server.IsZero() {
		return "this machine's clock and that of " + at + " differ too much: set the clock"
	}
	by, side := here.Sub(server).Round(time.Second), "ahead of"
	if by < 0 {
		by, side = -by, "behind"
	}
	return fmt.Sprintf("this machine's clock is %s %s that of %s: set the clock", by, side, at)
}

// tlsTrouble says what is wrong with a connection that time will not mend, or "".
func tlsTrouble(err error, at string) string {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &unknown):
		return "the certificate of " + at + " is of no authority that this machine trusts: name the authority's file in AWS_CA_BUNDLE"
	case errors.As(err, &name):
		return "the certificate of " + at + " is for another name"
	case errors.As(err, &invalid):
		return "the certificate of " + at + " is not valid"
	case errors.As(err, &record), err != nil && strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return "the endpoint " + at + " does not speak TLS: write http:// in AWS_ENDPOINT_URL_S3"
	}
	return ""
}
