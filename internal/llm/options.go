package llm

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// Options say where the model server is and how patient to be with it. The zero value
// of a field is the default named beside it; URL and Model have none. llmflags binds
// them to the command line.
type Options struct {
	URL   string // base URL, such as http://host:8000/v1
	Model string

	// Key goes into the Authorization header; "" sends none. It comes from the
	// environment or from KeyFile, which wins.
	Key     Secret
	KeyFile string

	CAFile string // PEM certificates to trust besides the system's
	Proxy  string // URL of an HTTP or SOCKS5 proxy; "" takes HTTPS_PROXY, HTTP_PROXY and NO_PROXY

	Stream bool // stream every answer: no idle connection for proxies to close

	Timeout    time.Duration // of each try, until the last byte of the answer; 10 min
	MaxRetries int           // tries after the first; 0 is none
	MaxWait    time.Duration // longest pause between two tries; 1 min. A longer Retry-After ends the call.
	MaxBytes   int64         // longest answer; 64 MiB

	// Of all calls that share the wrapper of Wrap; 0 is no limit.
	Concurrency  int
	BudgetTokens int64
	BudgetUSD    float64

	// US dollars per million tokens. Both 0: no price is known.
	PriceIn, PriceOut float64
}

// The defaults of Options.
const (
	DefaultTimeout    = 10 * time.Minute
	DefaultMaxRetries = 8
	DefaultMaxWait    = time.Minute
	DefaultMaxBytes   = 64 << 20
)

// Validate reports everything that is wrong, by the names of the flags.
func (o Options) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if _, err := endpoint(o.URL); err != nil {
		bad("--llm-url (OPENAI_BASE_URL): %w", err)
	}
	if o.Model == "" {
		bad("--llm-model: missing; name the model as the server's /models lists it")
	}
	if o.Proxy != "" {
		if u, err := url.Parse(o.Proxy); err != nil || u.Host == "" {
			bad("--llm-proxy: not a URL with a host") // not repeated: it may hold a password
		}
	}
	for _, f := range []struct {
		name  string
		value float64
	}{
		{"--llm-timeout", float64(o.Timeout)}, {"--llm-max-retries", float64(o.MaxRetries)},
		{"--llm-concurrency", float64(o.Concurrency)},
		{"--llm-budget-tokens", float64(o.BudgetTokens)}, {"--llm-budget-usd", o.BudgetUSD},
		{"--llm-price-in", o.PriceIn}, {"--llm-price-out", o.PriceOut},
	} {
		if f.value < 0 {
			bad("%s: must not be negative", f.name)
		}
	}
	if o.BudgetUSD > 0 && o.PriceIn == 0 && o.PriceOut == 0 {
		bad("--llm-budget-usd: needs a price: give --llm-price-in and --llm-price-out in US dollars per million tokens")
	}
	return errors.Join(errs...)
}

// Wrap puts the shared limits of o around m. All callers that are to share them must
// use the one result.
func (o Options) Wrap(m Model) Model {
	if o.BudgetTokens > 0 || o.BudgetUSD > 0 {
		m = Budget(m, o.BudgetTokens, o.BudgetUSD)
	}
	if o.Concurrency > 0 {
		m = Limit(m, o.Concurrency)
	}
	return m
}

// endpoint is a base URL with the path that the API's routes are appended to.
func endpoint(base string) (*url.URL, error) {
	if base == "" {
		return nil, errors.New("missing; give the base URL of an OpenAI-compatible server, such as http://localhost:8000/v1")
	}
	u, err := url.Parse(base)
	if err != nil {
		return nil, errors.New("not a URL") // the parse error repeats the text, which may hold a password
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, errors.New("must begin with http:// or https:// and name a host")
	}
	u.Fragment = ""
	u.Path = strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/chat/completions")
	if u.Path == "" {
		u.Path = "/v1" // where every server has it; people leave it out
	}
	return u, nil
}

// transport is the HTTP side of o: proxy and trusted certificates.
func (o Options) transport() (*http.Transport, error) {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 256 // one host, many calls at once
	if o.Proxy != "" {
		u, err := url.Parse(o.Proxy)
		if err != nil {
			return nil, errors.New("--llm-proxy: not a URL")
		}
		t.Proxy = http.ProxyURL(u)
	}
	if o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("--llm-ca-file: %w", err)
		}
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--llm-ca-file %s: no PEM certificate in it", o.CAFile)
		}
		t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return t, nil
}
