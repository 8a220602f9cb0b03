package control

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"

	"orchard/internal/quantity"
)

// keyName is what an owner may be called: it becomes a label's value and a metric's.
var keyName = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)

// keyEntry is a key as the file has it.
type keyEntry struct {
	Name   string     `json:"name"`
	SHA256 string     `json:"sha256"` // of the key, in hex
	Admin  bool       `json:"admin"`
	Quota  quotaEntry `json:"quota"`
}

// quotaEntry bounds what a key holds; what is absent is not bounded.
type quotaEntry struct {
	Sandboxes        *int            `json:"sandboxes"`
	CPU              json.RawMessage `json:"cpu"`    // of all its sandboxes together
	Memory           json.RawMessage `json:"memory"` // the same
	CreatesPerMinute *int            `json:"creates_per_minute"`
	ExecsInFlight    *int            `json:"execs_in_flight"`
}

// structured begins what is a list of entries, and nobody's key.
var structured = regexp.MustCompile(`\A\s*(#.*\s*)*(---|\[|\{|-\s|[a-z0-9_]+:(\s|\z))`)

// parseKeyFile reads a file of keys: a list of entries in YAML or JSON, or the plain
// list that API_KEYS holds. The error names each entry that is wrong, and no key.
func parseKeyFile(raw []byte) (Keys, error) {
	if !structured.Match(raw) {
		return ParseKeys(string(raw)), nil
	}
	asJSON, err := yaml.YAMLToJSONStrict(raw)
	if err != nil {
		return Keys{}, fmt.Errorf("neither YAML nor JSON: %w", err)
	}
	var entries []json.RawMessage
	if err := json.Unmarshal(asJSON, &entries); err != nil {
		return Keys{}, errors.New("it must be a list of entries with name and sha256")
	}
	var keys Keys
	var errs []error
	for i, entry := range entries {
		key, err := parseKeyEntry(entry)
		if err != nil {
			errs = append(errs, fmt.Errorf("entry %d (%q): %w", i+1, key.user.name, err))
			continue
		}
		keys.list = append(keys.list, key)
	}
	if len(errs) > 0 {
		return Keys{}, errors.Join(errs...)
	}
	return Keys{}.and(keys)
}

func parseKeyEntry(raw json.RawMessage) (apiKey, error) {
	var named struct{ Name string }
	json.Unmarshal(raw, &named) // for the message, should the rest be wrong
	key := apiKey{user: caller{name: named.Name}}
	var e keyEntry
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return key, errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	var errs []error
	switch {
	case !keyName.MatchString(e.Name):
		errs = append(errs, errors.New("name must be 1 to 63 letters, digits, dots, hyphens and underscores, with a letter or digit first and last"))
	case e.Name == DefaultOwner:
		errs = append(errs, fmt.Errorf("the name %q is that of keys without one", DefaultOwner))
	}
	sum, err := hex.DecodeString(e.SHA256)
	if err != nil || len(sum) != sha256.Size {
		errs = append(errs, fmt.Errorf("sha256 must be the key's SHA-256 in %d hex digits", 2*sha256.Size))
	} else {
		key.sum = [sha256.Size]byte(sum)
	}
	quota, err := parseQuota(e.Quota)
	key.user = caller{name: e.Name, admin: e.Admin, quota: quota}
	return key, errors.Join(append(errs, err)...)
}

func parseQuota(e quotaEntry) (quota, error) {
	q := quota{sandboxes: e.Sandboxes, creates: e.CreatesPerMinute, execs: e.ExecsInFlight}
	var errs []error
	for _, n := range []struct {
		name  string
		value *int
	}{{"sandboxes", e.Sandboxes}, {"creates_per_minute", e.CreatesPerMinute}, {"execs_in_flight", e.ExecsInFlight}} {
		if n.value != nil && *n.value < 0 {
			errs = append(errs, fmt.Errorf("quota.%s: %d is below zero", n.name, *n.value))
		}
	}
	for _, a := range []struct {
		name  string
		raw   json.RawMessage
		value *float64
		text  *string
	}{{"cpu", e.CPU, &q.cpu, &q.cpuText}, {"memory", e.Memory, &q.memory, &q.memoryText}} {
		if len(a.raw) == 0 || string(a.raw) == "null" {
			continue
		}
		text, ok := scalar(a.raw)
		v, err := quantity.Parse(text)
		if !ok || err != nil {
			errs = append(errs, fmt.Errorf("quota.%s: %s is not a quantity above zero such as 2, 500m or 16Gi", a.name, a.raw))
			continue
		}
		*a.value, *a.text = v, text
	}
	return q, errors.Join(errs...)
}
