package collect

import (
	"strings"

	"orchard/datasets"
)

// Kind is what an object is, in the order in which garbage is deleted.
type Kind int

// The kinds. A Foreign object is none of a dataset's.
const (
	Foreign Kind = iota
	Card         // beside a manifest that is not there
	Key          // names a version that is not there
	Ref
	Manifest
	Unit
	File // an export beside a version
	List // of blobs
	Shard
	Blob
)

var kinds = [...]string{"foreign", "card", "key", "ref", "manifest", "unit", "file", "list", "shard", "blob"}

func (k Kind) String() string { return kinds[k] }

// look says what an object is and whether it is needed.
func (m *marks) look(key string) (Kind, bool) {
	parts := strings.Split(key, "/")
	if len(parts) == 2 && parts[0] == "blobs" {
		sha, ok := parseSum(parts[1])
		if !ok {
			return Foreign, true
		}
		return Blob, m.blobs[sha]
	}
	if len(parts) < 3 || datasets.CheckName(parts[0]) != nil {
		return Foreign, true
	}
	name, rest := parts[0], parts[2]
	switch parts[1] {
	case "versions":
		if _, ok := parseSum(rest); !ok || len(parts) != 4 {
			return Foreign, true
		}
		if parts[3] == "manifest.json" {
			return Manifest, true
		}
		return Card, m.versions[name+"/"+rest]
	case "data":
		return m.lookData(name, parts[2:])
	case "keys":
		if _, ok := parseSum(rest); ok && len(parts) == 3 {
			return Key, m.done[name+"/"+rest]
		}
	case "refs":
		return Ref, true
	case "units":
		// Work goes on as long as one of its units is young.
		return Unit, m.work[name+"/"+rest]
	case "files":
		work := name + "/" + strings.TrimSuffix(rest, ".json")
		return File, m.done[work] || m.work[work]
	}
	return Foreign, true
}

func (m *marks) lookData(name string, rest []string) (Kind, bool) {
	if len(rest) != 1 {
		return Foreign, true
	}
	for suffix, kind := range map[string]Kind{".arrow": Shard, ".blobs": List} {
		hash, ok := strings.CutSuffix(rest[0], suffix)
		if sha, valid := parseSum(hash); ok && valid {
			return kind, m.data[name][sha]
		}
	}
	return Foreign, true
}
