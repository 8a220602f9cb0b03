package llm

import (
	"fmt"
	"os"
	"strings"
)

// Secret is a key that prints as *** whatever it is printed with. Convert it to a
// string only to put it into a request.
type Secret string

// String is "***", or "" when there is no secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "***"
}

// GoString is String, so that %#v tells nothing either.
func (s Secret) GoString() string { return s.String() }

// MarshalText is String: a secret in a configuration that is logged or hashed stays one.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// minRedacted is the shortest key that is looked for in texts. Shorter ones are
// placeholders such as "EMPTY", which would garble every message that says the word.
const minRedacted = 8

// redact takes the key out of a text that somebody else wrote.
func (s Secret) redact(text string) string {
	if len(s) < minRedacted {
		return text
	}
	return strings.ReplaceAll(text, string(s), "***")
}

// readKey reads a key from a file; white space around it is not part of it.
func readKey(path string) (Secret, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("--llm-key-file: %w", err)
	}
	key := strings.TrimSpace(string(b))
	if key == "" {
		return "", fmt.Errorf("--llm-key-file %s: the file is empty", path)
	}
	if strings.ContainsAny(key, "\r\n") {
		return "", fmt.Errorf("--llm-key-file %s: more than one line", path)
	}
	return Secret(key), nil
}
