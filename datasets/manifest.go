package datasets

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"orchard/datasets/arrowio"
	"orchard/datasets/record"
	"orchard/internal/seal"
)

// Format is the manifest format that this build writes and reads. It rises only when
// old readers would go wrong without noticing; otherwise a feature is added.
const Format = 1

// features that this build understands; a manifest that names another is refused.
var features = []string{}

// Manifest describes one version.
type Manifest struct {
	Content
	// Run is what may differ between two runs of the same work; the digest leaves it out.
	Run Run `json:"run"`
	// Checksum is the sha256 of the manifest without this field, Run included.
	Checksum string `json:"checksum"`
}

// Content is the part of a manifest that its digest covers.
type Content struct {
	Format   int              `json:"format"`
	Features []string         `json:"features"`
	Schema   arrowio.Schema   `json:"schema"` // its name is the kind of the dataset
	Rows     int64            `json:"rows"`
	Bytes    int64            `json:"bytes"` // of all shards, as stored
	Shards   []Shard          `json:"shards"`
	Blobs    BlobList         `json:"blobs"`
	RowsIn   int64            `json:"rows_in"` // Rows plus everything in Dropped
	Dropped  map[string]int64 `json:"dropped"` // by reason
	Inputs   []Input          `json:"inputs"`
	Stage    Stage            `json:"stage"`
	Key      string           `json:"key"`
}

// Shard is one Arrow file; rows are sorted by id across all shards of a version.
type Shard struct {
	SHA256   string `json:"sha256"`
	Bytes    int64  `json:"bytes"`
	Rows     int64  `json:"rows"`
	FirstKey string `json:"first_key"`
	LastKey  string `json:"last_key"`
	// Stats is what is known of the values of scalar columns, by dotted path; a column
	// that is not there, or a shard without any, may hold anything. Volatile columns
	// are never there.
	Stats map[string]arrowio.Stat `json:"stats,omitempty"`
}

// BlobList says which blobs the rows name. The list itself, sorted sha256 one a line,
// is an object of its own, so that a manifest stays small and whoever follows blobs
// (verify, copy, garbage collection) reads no rows.
type BlobList struct {
	Count  int64  `json:"count"`
	SHA256 string `json:"sha256"` // of the list; "" when Count is 0
	Bytes  int64  `json:"bytes"`  // of the list
}

// Kinds of an input.
const (
	InputDataset = "dataset"
	InputFile    = "file"
)

// Input is something a version was made from.
type Input struct {
	Kind   string `json:"kind"`   // InputDataset or InputFile
	Name   string `json:"name"`   // of the dataset or file, without its folder
	Digest string `json:"digest"` // of the version, or the sha256 of the file
	Role   string `json:"role"`   // what the stage used it as, such as "tasks"
	URI    string `json:"-"`      // where it was; kept in Run, as the same data may lie elsewhere
}

// Stage is the work that made a version.
type Stage struct {
	Name    string          `json:"name"`
	Version int             `json:"version"` // rises when the stage's output changes
	Config  json.RawMessage `json:"config"`  // a JSON object: what decides the output, and nothing else
	Seed    int64           `json:"seed"`
	RunID   string          `json:"run_id"` // only of stages that ask a model, else ""
}

// Run is the circumstances of a version.
type Run struct {
	Started   time.Time    `json:"started"`
	Committed time.Time    `json:"committed"`
	Build     string       `json:"build"`
	Usage     record.Usage `json:"usage"`
	InputURIs []string     `json:"input_uris"` // of Inputs, in their order
}

// Key identifies work: whoever does the same with the same inputs has the same key.
func Key(s Stage, inputs []Input) (string, error) {
	digests := [][]string{}
	for _, in := range inputs {
		digests = append(digests, []string{in.Role, in.Digest})
	}
	if len(s.Config) == 0 {
		s.Config = json.RawMessage("{}")
	}
	key, err := seal.Sum([]any{s, digests})
	if err != nil {
		return "", fmt.Errorf("key of stage %s: %w", s.Name, err)
	}
	return key, nil
}

// encode is the manifest as stored, with its digest.
func (m *Manifest) encode() (raw []byte, digest string, err error) {
	m.Checksum = ""
	if m.Checksum, err = sumWithout(m, "checksum"); err != nil {
		return nil, "", err
	}
	if digest, err = sumWithout(m, "checksum", "run"); err != nil {
		return nil, "", err
	}
	raw, err = seal.Canonical(m)
	return append(raw, '\n'), digest, err
}

// sumWithout hashes a JSON object without some of its fields. It works on any object,
// so that fields which a later release added count as well.
func sumWithout(v any, fields ...string) (string, error) {
	raw, err := seal.Canonical(v)
	if err != nil {
		return "", err
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil {
		return "", err
	}
	for _, f := range fields {
		delete(object, f)
	}
	return seal.Sum(object)
}

// ParseManifest reads a stored manifest and checks it against itself. digest is what
// its folder must be called.
func ParseManifest(raw []byte) (m *Manifest, digest string, err error) {
	var head struct {
		Format   int      `json:"format"`
		Features []string `json:"features"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return nil, "", fmt.Errorf("is damaged: %w", err)
	}
	if head.Format > Format {
		return nil, "", fmt.Errorf("has format %d and this build reads up to %d: use a newer Orchard", head.Format, Format)
	}
	for _, f := range head.Features {
		if !slices.Contains(features, f) {
			return nil, "", fmt.Errorf("needs feature %q, which this build does not know: use a newer Orchard", f)
		}
	}
	canonical, err := seal.Canonical(json.RawMessage(raw))
	if err != nil {
		return nil, "", fmt.Errorf("is damaged: %w", err)
	}
	if !bytes.Equal(append(canonical, '\n'), raw) {
		return nil, "", errors.New("is damaged: not in canonical form")
	}
	m = &Manifest{}
	if err := json.Unmarshal(raw, m); err != nil {
		return nil, "", fmt.Errorf("is damaged: %w", err)
	}
	sum, err := sumWithout(json.RawMessage(raw), "checksum")
	if err != nil {
		return nil, "", fmt.Errorf("is damaged: %w", err)
	}
	if sum != m.Checksum {
		return nil, "", errors.New("is damaged: its checksum does not match")
	}
	if err := m.check(); err != nil {
		return nil, "", fmt.Errorf("is wrong: %w", err)
	}
	for i := range m.Inputs {
		m.Inputs[i].URI = m.Run.InputURIs[i]
	}
	digest, err = sumWithout(json.RawMessage(raw), "checksum", "run")
	return m, digest, err
}

// check is what must hold of every manifest, be it written or read.
func (m *Manifest) check() error {
	var rows, size, dropped int64
	var problems []error
	bad := func(format string, a ...any) { problems = append(problems, fmt.Errorf(format, a...)) }
	if m.Format < 1 {
		bad("format %d", m.Format)
	}
	last := ""
	for i, s := range m.Shards {
		if !digestPattern.MatchString(s.SHA256) || s.Rows <= 0 && len(m.Shards) > 1 || s.Bytes <= 0 {
			bad("shard %d: sha256 %q, %d rows, %d bytes", i, s.SHA256, s.Rows, s.Bytes)
		}
		if s.FirstKey > s.LastKey || i > 0 && s.FirstKey <= last {
			bad("shard %d: its ids %q to %q are out of order", i, s.FirstKey, s.LastKey)
		}
		last = s.LastKey
		rows += s.Rows
		size += s.Bytes
	}
	for reason, n := range m.Dropped {
		if n < 0 || reason == "" {
			bad("%d rows dropped for %q", n, reason)
		}
		dropped += n
	}
	if len(m.Shards) == 0 {
		bad("no shards")
	}
	if rows != m.Rows || size != m.Bytes {
		bad("shards have %d rows and %d bytes, the sum says %d and %d", rows, size, m.Rows, m.Bytes)
	}
	if m.RowsIn != m.Rows+dropped {
		bad("%d rows in are not %d rows out and %d dropped", m.RowsIn, m.Rows, dropped)
	}
	if b := m.Blobs; b.Count < 0 || b.Bytes != 65*b.Count || (b.Count > 0) != digestPattern.MatchString(b.SHA256) {
		bad("blob list of %d: sha256 %q, %d bytes", b.Count, b.SHA256, b.Bytes)
	}
	if len(m.Run.InputURIs) != len(m.Inputs) {
		bad("%d inputs have %d URIs", len(m.Inputs), len(m.Run.InputURIs))
	}
	if m.Stage.Name == "" || m.Schema.Name == "" {
		bad("stage %q, schema %q", m.Stage.Name, m.Schema.Name)
	}
	if !digestPattern.MatchString(m.Key) {
		bad("key %q", m.Key)
	}
	return errors.Join(problems...)
}
