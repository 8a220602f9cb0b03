package minio

import (
	"cmp"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
)

// chain asks minio-go's providers in the usual order, and remembers which one answered
// so that errors can name it. Only what the configuration speaks of is asked: nothing
// waits for a metadata service that is not there. That a provider is in trouble is an
// error; the next one would be somebody else.
type chain struct {
	links []link

	mu     sync.Mutex
	curr   credentials.Provider
	source string
	keyID  string
	again  time.Time // when to ask once more though nobody had any; zero is never
}

// askAgain is how long it counts that an optional link was in trouble: a machine whose
// metadata service was slow once is not nobody for good.
const askAgain = time.Minute

type link struct {
	name     string
	provider credentials.Provider
	optional bool // its trouble means that it has nothing
}

func newChain(cfg Config) *chain {
	c := &chain{}
	if cfg.AccessKey != "" {
		value := credentials.Value{AccessKeyID: cfg.AccessKey, SecretAccessKey: string(cfg.SecretKey), SessionToken: string(cfg.SessionToken), SignerType: credentials.SignatureV4}
		c.links = append(c.links, link{cfg.KeySource, &credentials.Static{Value: value}, false})
	}
	if cfg.CredentialsFile != "" {
		profile := cmp.Or(cfg.Profile, "default")
		p := &credentials.FileAWSCredentials{Filename: cfg.CredentialsFile, Profile: profile}
		c.links = append(c.links, link{fmt.Sprintf("profile %s of %s", profile, cfg.CredentialsFile), p, !cfg.NamedFile})
	}
	if cfg.Roles {
		name := "the container's credentials endpoint"
		if os.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE") != "" {
			name = "the token of AWS_WEB_IDENTITY_TOKEN_FILE"
		}
		c.links = append(c.links, link{name, role(cfg), false})
	}
	if cfg.Metadata {
		c.links = append(c.links, link{"the machine's metadata service", role(Config{}), true})
	}
	return c
}

// role gets credentials that run out. The answer takes a moment or does not come.
func role(cfg Config) credentials.Provider {
	return &credentials.IAM{Client: &http.Client{Timeout: 5 * time.Second}, Endpoint: cfg.STSEndpoint, Region: cfg.Region}
}

// credentialsError is trouble with getting credentials, before any request.
type credentialsError struct {
	source string
	err    error
}

func (e *credentialsError) Error() string {
	return fmt.Sprintf("credentials from %s: %v", e.source, e.err)
}
func (e *credentialsError) Unwrap() error { return e.err }

// RetrieveWithCredContext is called when there are no credentials or they run out.
func (c *chain) RetrieveWithCredContext(cc *credentials.CredContext) (credentials.Value, error) {
	trouble := false
	for _, l := range c.links {
		v, err := l.provider.RetrieveWithCredContext(cc)
		if err != nil && l.optional {
			trouble = true
			continue
		}
		if err != nil {
			return credentials.Value{}, &credentialsError{l.name, err}
		}
		if v.AccessKeyID == "" && v.SecretAccessKey == "" {
			continue
		}
		c.mu.Lock()
		c.curr, c.source, c.keyID, c.again = l.provider, l.name, v.AccessKeyID, time.Time{}
		c.mu.Unlock()
		return v, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.curr, c.again = &credentials.Static{}, time.Time{}
	if trouble {
		c.again = time.Now().Add(askAgain)
	}
	return credentials.Value{SignerType: credentials.SignatureAnonymous}, nil
}

// Retrieve is the same without a context.
func (c *chain) Retrieve() (credentials.Value, error) { return c.RetrieveWithCredContext(nil) }

// IsExpired says whether to ask again.
func (c *chain) IsExpired() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.curr == nil || c.curr.IsExpired() || !c.again.IsZero() && time.Now().After(c.again)
}

// String names the identity that requests have, never a secret.
func (c *chain) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.keyID == "" {
		return "nobody: no credentials were found (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile of ~/.aws/credentials)"
	}
	return fmt.Sprintf("key id %s from %s", c.keyID, c.source)
}
