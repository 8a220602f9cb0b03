package minio

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	s3 "github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// client is a server as one identity: connections, credentials, and which of its
// prefixes are proven to keep conditions.
type client struct {
	core  s3.Core
	creds *chain
	url   string

	mu     sync.Mutex
	proofs map[string]*proof // by bucket/prefix
}

// clients are those of this process. A store is opened for each dataset, and connections
// are worth keeping.
var clients struct {
	sync.Mutex
	by map[Config]*client
}

func shared(cfg Config) (*client, error) {
	clients.Lock()
	defer clients.Unlock()
	if c := clients.by[cfg]; c != nil {
		return c, nil
	}
	c, err := newClient(cfg)
	if err != nil {
		return nil, err
	}
	if clients.by == nil {
		clients.by = map[Config]*client{}
	}
	clients.by[cfg] = c
	return c, nil
}

func newClient(cfg Config) (*client, error) {
	host, secure, err := cfg.endpoint()
	if err != nil {
		return nil, err
	}
	lookup, ok := map[string]s3.BucketLookupType{"": s3.BucketLookupAuto, "auto": s3.BucketLookupAuto, "path": s3.BucketLookupPath, "virtual": s3.BucketLookupDNS}[cfg.Addressing]
	if !ok {
		return nil, fmt.Errorf("ORCHARD_S3_ADDRESSING is %q; it must be auto, path or virtual", cfg.Addressing)
	}
	if cfg.AccessKey != "" && cfg.SecretKey == "" {
		return nil, fmt.Errorf("the key id %s has no secret: set both of %s", cfg.AccessKey, cfg.KeySource)
	}
	if cfg.AccessKey == "" && cfg.SecretKey != "" {
		return nil, fmt.Errorf("there is a secret without a key id: set both of %s", cfg.KeySource)
	}
	base, err := transport(cfg.CABundle)
	if err != nil {
		return nil, err
	}
	c := &client{creds: newChain(cfg), proofs: map[string]*proof{}}
	core, err := s3.NewCore(host, &s3.Options{
		Creds:        credentials.New(c.creds),
		Secure:       secure,
		Region:       cmp.Or(cfg.Region, "us-east-1"),
		BucketLookup: lookup,
		Transport:    &wire{base, cmp.Or(cfg.Idle, time.Minute)},
		MaxRetries:   1,
	})
	if err != nil {
		return nil, fmt.Errorf("endpoint %s: %w", cfg.Endpoint, err)
	}
	core.SetAppInfo("orchard", "1")
	c.core, c.url = *core, core.EndpointURL().String()
	return c, nil
}

func transport(bundle string) (*http.Transport, error) {
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if bundle != "" {
		pem, err := os.ReadFile(bundle)
		if err != nil {
			return nil, fmt.Errorf("AWS_CA_BUNDLE: %w", err)
		}
		if !roots.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("AWS_CA_BUNDLE: %s holds no certificate in PEM format", bundle)
		}
	}
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:     &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConns:        256,
		MaxIdleConnsPerHost: 64, // as many as write in parallel
		IdleConnTimeout:     time.Minute,
		DisableCompression:  true, // an object is its bytes
	}, nil
}
