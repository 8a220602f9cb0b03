package collect

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"orchard/datasets"
	"orchard/internal/objstore"
)

// sum is a sha256, kept short as there may be millions.
type sum [32]byte

func parseSum(s string) (out sum, ok bool) {
	if len(s) != 64 {
		return out, false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return out, false
		}
	}
	_, err := hex.Decode(out[:], []byte(s))
	return out, err == nil
}

// marks is what a root needs.
type marks struct {
	datasets map[string]bool
	versions map[string]bool // <name>/<digest>
	data     map[string]map[sum]bool
	blobs    map[sum]bool
	done     map[string]bool // <name>/<key> whose version is there
	work     map[string]bool // <name>/<key> of units that are young
}

// mark reads every manifest and list of blobs of a root, and the units of work that wrote
// one since cut.
func mark(ctx context.Context, store objstore.Store, cut time.Time) (*marks, error) {
	m := &marks{
		datasets: map[string]bool{}, versions: map[string]bool{}, data: map[string]map[sum]bool{},
		blobs: map[sum]bool{}, done: map[string]bool{}, work: map[string]bool{},
	}
	keys := map[string][]string{} // of each dataset that has claimed any
	for info, err := range store.List(ctx, "") {
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", store, err)
		}
		parts := strings.Split(info.Key, "/")
		if len(parts) < 3 || datasets.CheckName(parts[0]) != nil {
			continue
		}
		switch {
		case parts[1] == "versions" && len(parts) == 4 && parts[3] == "manifest.json":
			m.datasets[parts[0]] = true
		case parts[1] == "keys" && len(parts) == 3:
			keys[parts[0]] = append(keys[parts[0]], parts[2])
		case parts[1] == "units" && !info.Modified.Before(cut):
			m.work[parts[0]+"/"+parts[2]] = true
		}
	}
	for name := range m.datasets {
		if err := m.dataset(ctx, store, name); err != nil {
			return nil, err
		}
	}
	for name, list := range keys {
		for _, key := range list {
			digest, ok, err := datasets.FindKey(ctx, store, name, key)
			if err != nil {
				return nil, err
			}
			if ok && m.versions[name+"/"+digest] {
				m.done[name+"/"+key] = true
			}
		}
	}
	for work := range m.work {
		if err := m.units(ctx, store, work); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// dataset marks what the versions of a dataset need.
func (m *marks) dataset(ctx context.Context, store objstore.Store, name string) error {
	versions, err := openAll(ctx, store, name)
	if err != nil {
		return err
	}
	data := map[sum]bool{}
	m.data[name] = data
	for _, v := range versions {
		m.versions[name+"/"+v.Digest()] = true
		for _, s := range v.Manifest().Shards {
			if sha, ok := parseSum(s.SHA256); ok {
				data[sha] = true
			}
		}
		if sha, ok := parseSum(v.Manifest().Blobs.SHA256); ok {
			data[sha] = true
		}
		for blob, err := range v.BlobList(ctx) {
			if err != nil {
				return fmt.Errorf("it cannot be known which blobs are needed: %w", err)
			}
			if sha, ok := parseSum(blob); ok {
				m.blobs[sha] = true
			}
		}
	}
	return nil
}

// units marks the blobs that unfinished work names: whatever in its units looks like a
// name of one.
func (m *marks) units(ctx context.Context, store objstore.Store, work string) error {
	name, key, _ := strings.Cut(work, "/")
	prefix := datasets.UnitsPrefix(name, key)
	for info, err := range store.List(ctx, prefix) {
		if err != nil {
			return fmt.Errorf("list %s: %w", store, err)
		}
		if info.Key != prefix && !strings.HasPrefix(info.Key, prefix+"/") {
			continue
		}
		r, _, err := store.Open(ctx, info.Key, 0, -1)
		if errors.Is(err, objstore.ErrNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read %s/%s: %w", store, info.Key, err)
		}
		raw, err := io.ReadAll(r)
		r.Close()
		if err != nil {
			return fmt.Errorf("read %s/%s: %w", store, info.Key, err)
		}
		m.scan(raw)
		for _, found := range rowBlob.FindAllSubmatch(raw, -1) {
			row, err := datasets.ReadBlob(ctx, store, string(found[1]), maxRow)
			if err != nil {
				return fmt.Errorf("the row of unit %s cannot be read: %w", info.Key, err)
			}
			m.scan(row)
		}
	}
	return nil
}

// rowBlob is how a unit says that its row, which may name blobs, is one itself.
var rowBlob = regexp.MustCompile(`"row_blob":\s*"([0-9a-f]{64})"`)

// maxRow is beyond what any row has.
const maxRow = 1 << 30

// scan marks every run of hex digits that has the length of a name.
func (m *marks) scan(raw []byte) {
	start := 0
	for i := 0; i <= len(raw); i++ {
		if i < len(raw) && (raw[i] >= '0' && raw[i] <= '9' || raw[i] >= 'a' && raw[i] <= 'f') {
			continue
		}
		if i-start == 64 {
			if sha, ok := parseSum(string(raw[start:i])); ok {
				m.blobs[sha] = true
			}
		}
		start = i + 1
	}
}
