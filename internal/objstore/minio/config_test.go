package minio

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"orchard/internal/exit"
	"orchard/internal/objstore"
)

func env(vars map[string]string) func(string) string {
	return func(name string) string { return vars[name] }
}

func TestFromEnv(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		vars map[string]string
		want func(Config) bool
	}{
		"nothing is Amazon's": {nil, func(c Config) bool { return c.Endpoint == "" && c.Metadata && c.CredentialsFile == "" }},
		"metadata disabled":   {map[string]string{"AWS_EC2_METADATA_DISABLED": "true"}, func(c Config) bool { return !c.Metadata }},
		"no metadata beside an endpoint": {map[string]string{"AWS_ENDPOINT_URL": "http://h"}, func(c Config) bool {
			return c.Endpoint == "http://h" && !c.Metadata
		}},
		"S3's endpoint wins": {map[string]string{"AWS_ENDPOINT_URL": "http://h", "AWS_ENDPOINT_URL_S3": "http://s"}, func(c Config) bool { return c.Endpoint == "http://s" }},
		"region":             {map[string]string{"AWS_DEFAULT_REGION": "eu-1"}, func(c Config) bool { return c.Region == "eu-1" }},
		"Amazon's key wins": {map[string]string{"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_SESSION_TOKEN": "t", "MINIO_ROOT_USER": "m", "MINIO_ROOT_PASSWORD": "n"}, func(c Config) bool {
			return c.AccessKey == "a" && c.SecretKey == "b" && c.SessionToken == "t" && strings.HasPrefix(c.KeySource, "AWS_ACCESS_KEY_ID")
		}},
		"MinIO's key": {map[string]string{"MINIO_ROOT_USER": "m", "MINIO_ROOT_PASSWORD": "n", "AWS_SESSION_TOKEN": "t"}, func(c Config) bool {
			return c.AccessKey == "m" && c.SecretKey == "n" && c.SessionToken == ""
		}},
		"home":    {map[string]string{"HOME": "/h"}, func(c Config) bool { return c.CredentialsFile == "/h/.aws/credentials" && !c.NamedFile }},
		"profile": {map[string]string{"HOME": "/h", "AWS_PROFILE": "p"}, func(c Config) bool { return c.Profile == "p" && c.NamedFile }},
		"web identity": {map[string]string{"AWS_WEB_IDENTITY_TOKEN_FILE": "/t", "AWS_ENDPOINT_URL_STS": "http://sts"}, func(c Config) bool {
			return c.Roles && c.STSEndpoint == "http://sts"
		}},
	} {
		if got := FromEnv(env(c.vars)); !c.want(got) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestSecretsAreNotPrinted(t *testing.T) {
	t.Parallel()
	c := FromEnv(env(map[string]string{"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "hush-hush", "AWS_SESSION_TOKEN": "tok-tok"}))
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		if s := fmt.Sprintf(format, c); strings.Contains(s, "hush") || strings.Contains(s, "tok-tok") || strings.Contains(s, "68757368") {
			t.Errorf("%s prints %s", format, s)
		}
	}
}

func TestBadConfigurations(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]Config{
		"without a path": {Endpoint: "http://h/path"},
		"must look like": {Endpoint: "localhost:9000"},
		"or a password":  {Endpoint: "http://u:p@h"},
		"auto, path or":  {Addressing: "both"},
		"has no secret":  {AccessKey: "id", KeySource: "A and B"},
		"without a key":  FromEnv(env(map[string]string{"AWS_SECRET_ACCESS_KEY": "x", "MINIO_ACCESS_KEY": "id", "MINIO_SECRET_KEY": "y"})),
		"AWS_ENDPOINT":   {Endpoint: "localhost"},
	} {
		if _, err := Open("s3://bucket/x", c); exit.Code(err) != exit.Config || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
}

// asking is a server that remembers with which key id it was asked.
func asking(t *testing.T) (Config, *string) {
	t.Helper()
	var id string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, rest, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
		id, _, _ = strings.Cut(rest, "/")
		w.WriteHeader(http.StatusNotFound)
	}))
	t.Cleanup(server.Close)
	return Config{Endpoint: server.URL}, &id
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "credentials")
	if err := os.WriteFile(file, []byte("[default]\naws_access_key_id = of-file\naws_secret_access_key = x\n[other]\naws_access_key_id = of-other\naws_secret_access_key = x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change    func(*Config)
		id, wrong string
	}{
		"key before file":    {func(c *Config) { c.AccessKey, c.SecretKey, c.CredentialsFile = "of-env", "x", file }, "of-env", ""},
		"file":               {func(c *Config) { c.CredentialsFile = file }, "of-file", ""},
		"profile":            {func(c *Config) { c.CredentialsFile, c.Profile, c.NamedFile = file, "other", true }, "of-other", ""},
		"no such profile":    {func(c *Config) { c.CredentialsFile, c.Profile, c.NamedFile = file, "third", true }, "", "profile third of " + file},
		"no such file":       {func(c *Config) { c.CredentialsFile, c.NamedFile = file+"x", true }, "", file + "x"},
		"no file, not named": {func(c *Config) { c.CredentialsFile = file + "x" }, "", ""},
		"nobody":             {func(c *Config) {}, "", ""},
	} {
		cfg, id := asking(t)
		c.change(&cfg)
		_, err := service{cfg: cfg, bucket: "bucket"}.open(t).Stat(t.Context(), "k")
		if c.wrong != "" {
			if exit.Code(err) != exit.Config || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%s: %v, want %q", name, err, c.wrong)
			}
		} else if !errors.Is(err, objstore.ErrNotFound) || *id != c.id {
			t.Errorf("%s: asked as %q, want %q; %v", name, *id, c.id, err)
		}
	}
}

// A container's endpoint hands out credentials; one that is out of order is an error, and
// quickly.
func TestContainerCredentials(t *testing.T) {
	status := http.StatusOK
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"AccessKeyID":"of-container","SecretAccessKey":"x","Token":"t","Expiration":%q}`, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	}))
	t.Cleanup(endpoint.Close)
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", endpoint.URL)
	cfg, id := asking(t)
	cfg.Roles = true
	if _, err := (service{cfg: cfg, bucket: "bucket"}).open(t).Stat(t.Context(), "k"); !errors.Is(err, objstore.ErrNotFound) || *id != "of-container" {
		t.Errorf("asked as %q; %v", *id, err)
	}
	status = http.StatusForbidden
	cfg.Region = "other" // another client, which asks anew
	_, err := service{cfg: cfg, bucket: "bucket"}.open(t).Stat(t.Context(), "k")
	if exit.Code(err) != exit.Config || !strings.Contains(err.Error(), "credentials endpoint") {
		t.Errorf("refused: %v", err)
	}
	endpoint.Close()
	cfg.Region = "third"
	_, err = service{cfg: cfg, bucket: "bucket"}.open(t).Stat(t.Context(), "k")
	if !errors.Is(err, objstore.ErrUnavailable) {
		t.Errorf("away: %v", err)
	}
}

// With an endpoint of one's own and nothing configured, nobody else is asked: it takes no
// time, though a metadata service would not answer.
func TestNobodyElseIsAsked(t *testing.T) {
	t.Parallel()
	cfg, _ := asking(t)
	cfg = FromEnv(env(map[string]string{"AWS_ENDPOINT_URL": cfg.Endpoint}))
	if links := newChain(cfg).links; len(links) != 0 {
		t.Errorf("asks %v", links)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, err := (service{cfg: cfg, bucket: "bucket"}).open(t).Stat(ctx, "k"); !errors.Is(err, objstore.ErrNotFound) {
		t.Errorf("stat: %v", err)
	}
}
