package control

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

func hexSum(key string) string {
	s := sha256.Sum256([]byte(key))
	return hex.EncodeToString(s[:])
}

func TestParseKeyFile(t *testing.T) {
	t.Parallel()
	one, two := hexSum("one"), hexSum("two")
	for name, raw := range map[string]string{
		"plain":          "one two\n-three,[four",
		"yaml":           "# keys\n- name: a\n  sha256: " + one + "\n- name: b\n  sha256: " + two + "\n  admin: true\n  quota: {sandboxes: 0, cpu: 1500m, memory: 2Gi}\n",
		"json":           `[{"name":"a","sha256":"` + one + `"},{"name":"b","sha256":"` + strings.ToUpper(two) + `","admin":true,"quota":{"sandboxes":0,"cpu":"1.5","memory":2147483648}}]`,
		"yaml documents": "---\n- {name: a, sha256: " + one + "}\n- {name: b, sha256: " + two + ", admin: true, quota: {sandboxes: 0, cpu: 1.5, memory: 2Gi}}\n",
	} {
		keys, err := parseKeyFile([]byte(raw))
		a, okA := keys.find("one")
		b, okB := keys.find("two")
		if _, hash := keys.find(one); err != nil || !okA || !okB || hash {
			t.Errorf("%s: %v, found %v and %v", name, err, okA, okB)
			continue
		}
		if name == "plain" {
			if c, ok := keys.find("-three"); !ok || c.name != DefaultOwner || keys.Len() != 4 {
				t.Errorf("plain: %+v, %d keys", c, keys.Len())
			}
			continue
		}
		if a.name != "a" || a.admin || a.quota.bounds() || b.name != "b" || !b.admin || *b.quota.sandboxes != 0 || b.quota.cpu != 1.5 || b.quota.memory != 2<<30 {
			t.Errorf("%s: %+v, %+v", name, a, b)
		}
	}
	entry := func(more string) string { return `[{"name":"a","sha256":"` + one + `"` + more + `}]` }
	for raw, want := range map[string]string{
		entry(`,"foo":1`):                                                    `entry 1 ("a"): unknown field "foo"`,
		entry(`,"quota":{"pods":1}`):                                         `entry 1 ("a"): unknown field "pods"`,
		entry(`,"quota":{"sandboxes":-1}`):                                   `quota.sandboxes: -1 is below zero`,
		entry(`,"quota":{"cpu":"many"}`):                                     `entry 1 ("a"): quota.cpu: "many" is not a quantity`,
		entry(`,"quota":{"memory":0}`):                                       `quota.memory: 0 is not a quantity`,
		entry(`,"admin":"perhaps"`):                                          `entry 1 ("a"): `,
		`[{"name":"a","sha256":"abc"}]`:                                      `entry 1 ("a"): sha256 must be`,
		`[{"name":"a b","sha256":"` + one + `"}]`:                            `entry 1 ("a b"): name must be`,
		`[{"name":"default","sha256":"` + one + `"}]`:                        `the name "default" is that of keys without one`,
		"- {name: a, sha256: " + one + "}\n- {sha256: x}":                    `entry 2 (""): name must be`,
		"- {name: a, sha256: " + one + "}\n- {name: a, sha256: " + two + "}": `key "a" is there twice`,
		"- {name: a, sha256: " + one + "}\n- {name: b, sha256: " + one + "}": `keys "a" and "b" have the same sha256`,
		"- name: a\n  name: b\n":                                             `already set`,
		"keys: [a, b]":                                                       `it must be a list`,
		"- name: [\n":                                                        `neither YAML nor JSON`,
		"- just\n- words of keys":                                            `entry 1 (""): `,
	} {
		if _, err := parseKeyFile([]byte(raw)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n gives %v, want %s", raw, err, want)
		}
	}
	flat := ParseKeys("one")
	if _, err := flat.and(Keys{list: []apiKey{{flat.list[0].sum, caller{name: "a"}}}}); err == nil {
		t.Error("one key for two owners is taken")
	}
}

// A file that changes is read again; a bad one, or none, leaves the keys as they are.
func TestKeyringReads(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "keys")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now()
	var log bytes.Buffer
	ctx := zerolog.New(&log).WithContext(context.Background())
	write("- {name: a, sha256: " + hexSum("one") + "}")
	k, err := newKeyring(Settings{Keys: ParseKeys("flat"), KeysFile: path, RequireKey: true}, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	expect := func(when string, keys ...string) {
		t.Helper()
		known := map[string]bool{}
		for _, key := range keys {
			known[key] = true
		}
		for _, key := range []string{"flat", "one", "two"} {
			if _, ok := k.find(ctx, key); ok != known[key] {
				t.Errorf("%s: key %q is known: %v", when, key, ok)
			}
		}
	}
	expect("at first", "flat", "one")
	write("- {name: a, sha256: " + hexSum("two") + "}")
	now = now.Add(keyPoll - time.Millisecond)
	expect("before it is time", "flat", "one")
	now = now.Add(time.Millisecond)
	expect("a new file", "flat", "two")
	for what, bad := range map[string]string{"half a file": "- {name: a, sha", "a clash": "- {name: x, sha256: " + hexSum("flat") + "}"} {
		log.Reset()
		write(bad)
		now = now.Add(keyPoll)
		expect(what, "flat", "two")
		if !strings.Contains(log.String(), "the old keys stay") {
			t.Errorf("%s: the log says %s", what, log.String())
		}
	}
	log.Reset()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		now = now.Add(keyPoll)
		expect("no file", "flat", "two")
	}
	if n := strings.Count(log.String(), "cannot be read"); n != 1 {
		t.Errorf("%d lines for a file that is gone:\n%s", n, log.String())
	}
	write("")
	now = now.Add(keyPoll)
	expect("an empty file", "flat")
	if strings.Contains(log.String(), "flat") || strings.Contains(log.String(), hexSum("two")) {
		t.Errorf("a key is in the log: %s", log.String())
	}
}

// A bad file at the start is an error that says which and where.
func TestKeyringStarts(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "keys")
	set := Defaults()
	set.KeysFile = path
	if _, err := New(&memory{}, set); err == nil || !strings.Contains(err.Error(), "--api-keys-file") {
		t.Errorf("no such file: %v", err)
	}
	for text, want := range map[string]string{"- {name: a, sha256: 00}": fmt.Sprintf(`--api-keys-file %s: entry 1 ("a")`, path), " \n": "no key"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := New(&memory{}, set); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
