package minio

import (
	"cmp"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"
)

// Config says which server to use and as whom. FromEnv fills it.
type Config struct {
	Endpoint   string // a URL; "" is Amazon's
	Region     string // "" is us-east-1
	Addressing string // where a URL names the bucket: "path", "virtual" (in the host name), or "" to decide by the endpoint
	CABundle   string // a PEM file of authorities to trust besides the system's; "" for none

	// The first that is there is used: this key, the profile of the file, then what the
	// environment of a Pod, container or machine of Amazon's hands out.
	AccessKey       string
	SecretKey       Secret
	SessionToken    Secret
	KeySource       string // what to call the key in errors
	CredentialsFile string // in the format of ~/.aws/credentials; "" for none
	Profile         string // "" is default
	NamedFile       bool   // the file or profile was asked for: that it is missing is an error
	Roles           bool   // a token file or a container endpoint is set in the environment
	STSEndpoint     string // which exchanges a token file's token; "" is Amazon's
	Metadata        bool   // ask the metadata service of an Amazon machine

	Idle time.Duration // a request that moves no byte for so long is given up; 0 is a minute
}

// Secret is a text that no format prints.
type Secret string

// Format prints dots.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, strings.Repeat(".", min(len(s), 3))) }

// FromEnv reads the variables that S3 programs share; docs/stores.md lists them.
func FromEnv(getenv func(string) string) Config {
	home := getenv("HOME")
	file := getenv("AWS_SHARED_CREDENTIALS_FILE")
	c := Config{
		Endpoint:        cmp.Or(getenv("AWS_ENDPOINT_URL_S3"), getenv("AWS_ENDPOINT_URL"), getenv("MINIO_ENDPOINT")),
		Region:          cmp.Or(getenv("AWS_REGION"), getenv("AWS_DEFAULT_REGION")),
		Addressing:      getenv("ORCHARD_S3_ADDRESSING"),
		CABundle:        getenv("AWS_CA_BUNDLE"),
		CredentialsFile: file,
		Profile:         getenv("AWS_PROFILE"),
		STSEndpoint:     getenv("AWS_ENDPOINT_URL_STS"),
		Roles: getenv("AWS_WEB_IDENTITY_TOKEN_FILE") != "" || getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") != "" ||
			getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI") != "",
	}
	c.NamedFile = file != "" || c.Profile != ""
	if file == "" && home != "" {
		c.CredentialsFile = filepath.Join(home, ".aws", "credentials")
	}
	c.Metadata = c.Endpoint == "" && !strings.EqualFold(getenv("AWS_EC2_METADATA_DISABLED"), "true")
	for _, pair := range [][2]string{
		{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}, {"AWS_ACCESS_KEY", "AWS_SECRET_KEY"},
		{"MINIO_ACCESS_KEY", "MINIO_SECRET_KEY"}, {"MINIO_ROOT_USER", "MINIO_ROOT_PASSWORD"},
	} {
		if id := getenv(pair[0]); id != "" || getenv(pair[1]) != "" {
			c.AccessKey, c.SecretKey, c.KeySource = id, Secret(getenv(pair[1])), pair[0]+" and "+pair[1]
			if strings.HasPrefix(pair[0], "AWS_") {
				c.SessionToken = Secret(getenv("AWS_SESSION_TOKEN"))
			}
			break
		}
	}
	return c
}

// endpoint is the host to call, and whether by TLS.
func (c Config) endpoint() (host string, secure bool, err error) {
	if c.Endpoint == "" {
		return "s3.amazonaws.com", true, nil
	}
	u, err := url.Parse(c.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", false, fmt.Errorf("AWS_ENDPOINT_URL_S3 (or AWS_ENDPOINT_URL, MINIO_ENDPOINT) must look like http://host:port or https://host, without a path or a password")
	}
	return u.Host, u.Scheme == "https", nil
}
