package minio

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"orchard/internal/exit"
	"orchard/internal/objstore"
	"orchard/internal/objstore/objtest/fakes3"
)

// answering is a store whose server gives one answer to everything, as the named
// services word it.
func answering(t testing.TB, status int, code, message string, header http.Header) *Store {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for k, v := range header {
			w.Header()[k] = v
		}
		w.WriteHeader(status)
		if code != "" {
			fmt.Fprintf(w, `<?xml version="1.0"?><Error><Code>%s</Code><Message>%s</Message></Error>`, code, message)
		}
	}))
	t.Cleanup(server.Close)
	return service{cfg: config(server.URL), bucket: "bucket"}.open(t)
}

func TestErrors(t *testing.T) {
	t.Parallel()
	hourAgo := http.Header{"Date": {time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat)}}
	for _, c := range []struct {
		status        int
		code, message string
		header        http.Header
		exit          int
		is            error
		want          string
	}{
		{404, "NoSuchKey", "The specified key does not exist.", nil, exit.Bug, objstore.ErrNotFound, "/k: object not found"},
		{404, "NoSuchBucket", "The specified bucket does not exist", nil, exit.Config, nil, `no bucket "bucket" at http://127.0.0.1`},
		{404, "NoSuchBucket", "The specified bucket does not exist", nil, exit.Config, nil, "mb s3://bucket"},
		{403, "InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records.", nil, exit.Config, nil, "or a session has expired: key id key-of-tests from the test"},
		{403, "SignatureDoesNotMatch", "The request signature we calculated does not match.", nil, exit.Config, nil, "does not accept the secret: key id key-of-tests"},
		{403, "AccessDenied", "Access Denied.", nil, exit.Config, nil, `not allowed on bucket "bucket"`},
		{403, "", "", nil, exit.Config, nil, `not allowed on bucket "bucket"`},
		{400, "ExpiredToken", "The provided token has expired.", nil, exit.Config, nil, "the session has expired"},
		{403, "RequestTimeTooSkewed", "The difference between the request time and the server's time is too large.", hourAgo, exit.Config, nil, "clock is 1h0m"},
		{400, "AuthorizationHeaderMalformed", "the region is wrong; expecting 'eu-1'", http.Header{"X-Amz-Bucket-Region": {"eu-1"}}, exit.Config, nil, "AWS_REGION=eu-1"},
		{301, "PermanentRedirect", "must be addressed using the specified endpoint", nil, exit.Config, nil, "AWS_REGION"},
		{507, "XMinioStorageFull", "Storage backend has reached its minimum free drive threshold.", nil, exit.Gone, objstore.ErrNoSpace, "minimum free drive"},
		{400, "XMinioAdminBucketQuotaExceeded", "Bucket quota exceeded", nil, exit.Gone, objstore.ErrNoSpace, "quota"},
		{507, "", "", nil, exit.Gone, objstore.ErrNoSpace, ""},
		{503, "SlowDown", "Please reduce your request rate.", nil, exit.Retry, objstore.ErrUnavailable, "reduce your request rate"},
		{503, "XMinioServerNotInitialized", "Server not initialized yet, please try again.", nil, exit.Retry, objstore.ErrUnavailable, "not initialized"},
		{500, "InternalError", "We encountered an internal error", nil, exit.Retry, objstore.ErrUnavailable, "internal error"},
		{502, "", "", nil, exit.Retry, objstore.ErrUnavailable, ""},
		{429, "", "", nil, exit.Retry, objstore.ErrUnavailable, ""},
		{409, "ConditionalRequestConflict", "The conditional request cannot succeed due to a conflicting operation", nil, exit.Retry, objstore.ErrUnavailable, ""},
		{400, "BadDigest", "The Content-Md5 you specified did not match what we received.", nil, exit.Retry, objstore.ErrUnavailable, ""},
		{400, "XAmzContentSHA256Mismatch", "The provided header does not match", nil, exit.Retry, objstore.ErrUnavailable, ""},
		{501, "NotImplemented", "A header you provided implies functionality that is not implemented.", nil, exit.Config, nil, "cannot do this"},
		{412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold", nil, exit.Bug, objstore.ErrExists, ""},
		{400, "KeyTooLongError", "Your key is too long", nil, exit.Bug, nil, "answered 400: Your key is too long (KeyTooLongError)"},
		{400, "InvalidArgument", "S3 API Requests must be made to API port.", nil, exit.Config, nil, "is AWS_ENDPOINT_URL_S3 right?"},
		{400, "", "", nil, exit.Config, nil, "as an S3 service does"},
		{401, "", "", nil, exit.Config, nil, "as an S3 service does"},
		{405, "", "", nil, exit.Config, nil, "as an S3 service does"},
		{302, "", "", http.Header{"Location": {"/login"}}, exit.Config, nil, "as an S3 service does"},
	} {
		t.Run(fmt.Sprint(c.status, " ", c.code), func(t *testing.T) {
			t.Parallel()
			_, _, err := answering(t, c.status, c.code, c.message, c.header).Open(t.Context(), "k", 0, -1)
			if err == nil || exit.Code(err) != c.exit || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v (exit %d), want exit %d and %q", err, exit.Code(err), c.exit, c.want)
			}
			for _, kind := range []error{objstore.ErrNotFound, objstore.ErrExists, objstore.ErrNoSpace, objstore.ErrUnavailable} {
				if errors.Is(err, kind) && kind != c.is {
					t.Errorf("error %v is %v as well", err, kind)
				}
			}
			if strings.Contains(fmt.Sprint(err), "secret-of-tests") {
				t.Errorf("the error shows the secret: %v", err)
			}
		})
	}
}

func TestSkew(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for want, server := range map[string]time.Time{
		"is 20m0s behind that of u":  at.Add(20 * time.Minute),
		"is 1h0m1s ahead of that of": at.Add(-time.Hour - time.Second),
		"differ too much":            {},
	} {
		if got := skew(at, server, "u"); !strings.Contains(got, want) {
			t.Errorf("%q, want %q in it", got, want)
		}
	}
}

// quiet keeps a server's remarks about broken handshakes out of the test's output.
func quiet(h http.Handler) *httptest.Server {
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	return s
}

func TestTLS(t *testing.T) {
	t.Parallel()
	plain := fakes3.Start(t, nil)
	var handler http.Handler
	fakes3.Start(t, func(h http.Handler) http.Handler { handler = h; return h })
	server := quiet(handler)
	server.StartTLS()
	t.Cleanup(server.Close)
	bundle := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(bundle, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o644); err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(strings.TrimPrefix(server.URL, "https://"), ":")
	for name, c := range map[string]struct{ endpoint, bundle, want string }{
		"unknown authority": {server.URL, "", "AWS_CA_BUNDLE"},
		"TLS to plain":      {strings.Replace(plain, "http", "https", 1), "", "write http://"},
		"plain to TLS":      {"http://127.0.0.1:" + port, "", "write https://"},
		"other name":        {"https://localhost:" + port, bundle, "for another name"},
		"trusted":           {server.URL, bundle, ""},
	} {
		cfg := config(c.endpoint)
		cfg.CABundle = c.bundle
		s := service{cfg: cfg, bucket: fakes3.Bucket}.open(t)
		_, err := s.Swap(t.Context(), "k", objstore.Bytes("x"), "")
		if name == "plain to TLS" { // the server closes on a request with content, before its answer can be read
			_, _, err = s.Open(t.Context(), "k", 0, -1)
		}
		if c.want == "" && err != nil || c.want != "" && (exit.Code(err) != exit.Config || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v (exit %d), want %q", name, err, exit.Code(err), c.want)
		}
	}
	cfg := config(plain)
	cfg.CABundle = filepath.Join(t.TempDir(), "none")
	if _, err := Open("s3://bucket", cfg); exit.Code(err) != exit.Config || !strings.Contains(err.Error(), "AWS_CA_BUNDLE") {
		t.Errorf("a bundle that is not there: %v", err)
	}
}

func TestNobodyAnswers(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(nil)
	server.Close()
	silent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // only then does the server see that the caller leaves
		<-r.Context().Done()
	}))
	t.Cleanup(silent.Close)
	t.Cleanup(silent.CloseClientConnections)
	for name, url := range map[string]string{"refused": server.URL, "silent": silent.URL} {
		cfg := config(url)
		cfg.Idle = 200 * time.Millisecond
		s := service{cfg: cfg, bucket: "bucket"}.open(t)
		_, err := s.Create(t.Context(), "k", objstore.Bytes("x"))
		if !errors.Is(err, objstore.ErrUnavailable) || exit.Code(err) != exit.Retry {
			t.Errorf("%s: create: %v", name, err)
		}
		for _, err := range s.List(t.Context(), "") {
			if !errors.Is(err, objstore.ErrUnavailable) {
				t.Errorf("%s: list: %v", name, err)
			}
		}
	}
	cfg := config(silent.URL)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := service{cfg: cfg, bucket: "bucket"}.open(t).Stat(ctx, "k")
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, objstore.ErrUnavailable) {
		t.Errorf("stat with a deadline: %v", err)
	}
}

// What a real server says to wrong credentials, an absent bucket and a wrong region.
func TestClusterErrors(t *testing.T) {
	t.Parallel()
	svc := realService(t)
	with := func(change func(*service)) *Store {
		other := svc
		change(&other)
		return other.open(t)
	}
	for name, c := range map[string]struct {
		s    *Store
		want string
	}{
		"wrong id":        {with(func(s *service) { s.cfg.AccessKey = "nobody-knows" }), "session has expired: key id nobody-knows"},
		"wrong secret":    {with(func(s *service) { s.cfg.SecretKey = "not-this-one" }), "does not accept the secret: key id orchard"},
		"nobody":          {with(func(s *service) { s.cfg.AccessKey, s.cfg.SecretKey = "", "" }), "no credentials were found"},
		"unknown session": {with(func(s *service) { s.cfg.SessionToken = "x.y.z" }), "does not know us"},
		"absent bucket":   {with(func(s *service) { s.bucket += "-not" }), "there is no bucket"},
	} {
		_, _, err := c.s.Open(t.Context(), "k", 0, -1)
		if exit.Code(err) != exit.Config || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "not-this-one") {
			t.Errorf("%s: open: %v (exit %d), want %q", name, err, exit.Code(err), c.want)
		}
		_, err = c.s.Create(t.Context(), "k", objstore.Bytes("x"))
		if exit.Code(err) != exit.Config || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: create: %v (exit %d), want %q", name, err, exit.Code(err), c.want)
		}
		if _, err = c.s.Stat(t.Context(), "k"); exit.Code(err) != exit.Config {
			t.Errorf("%s: stat: %v (exit %d)", name, err, exit.Code(err))
		}
	}
}
