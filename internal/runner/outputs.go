package runner

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"orchard/internal/exit"
	"orchard/internal/whole"
)

// saveOutputs writes what a later step of a workflow needs to know into small files,
// one a value, since that is what Argo reads output parameters from:
//
//	dataset      URI of the version, with its digest
//	rows         number of rows in it
//	files        what the URIs of the files beside it begin with; empty without any
//	shards.json  of --mode plan: the shards, as a JSON list
//	result.json  everything
func saveOutputs(dir string, r Result) error {
	if dir == "" {
		return nil
	}
	shards := r.Shards
	if shards == nil {
		shards = []string{}
	}
	list, err := json.Marshal(shards)
	if err != nil {
		return err
	}
	all, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	files := ""
	if len(r.Files) > 0 {
		files = strings.TrimSuffix(r.Files[0].URI, r.Files[0].Name)
	}
	for name, b := range map[string][]byte{
		"dataset": []byte(r.URI), "files": []byte(files), "rows": []byte(strconv.FormatInt(r.RowsOut, 10)), "shards.json": list, "result.json": append(all, '\n'),
	} {
		if err := SaveOutput(dir, name, b); err != nil {
			return err
		}
	}
	return nil
}

// SaveOutput puts one more file into the folder of Config.OutputDir, for a stage that has
// something of its own to show there; "" is no folder, and nothing is done.
func SaveOutput(dir, name string, b []byte) error {
	if dir == "" {
		return nil
	}
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		err = whole.WriteBytes(filepath.Join(dir, name), 0o644, b)
	}
	if err != nil {
		return exit.Configf("--output-dir %s: %w", dir, err)
	}
	return nil
}
