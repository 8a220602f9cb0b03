package datasets

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"orchard/datasets/arrowio"
	"orchard/internal/seal"
)

// Card is a dataset card: what a version is, for people, as Markdown whose head is the
// YAML that Hugging Face reads. files are the paths of its rows from the card's folder,
// in order; with them the folder loads as it is. The card follows from the part of a
// manifest that its digest covers, so the same version has the same card.
func Card(m Manifest, files ...string) []byte {
	var b strings.Builder
	line := func(format string, a ...any) { fmt.Fprintf(&b, format+"\n", a...) }
	line("---\npretty_name: %s\nsize_categories:\n- %s\ntags:\n- orchard", quote(m.Schema.Name), quote(sizeCategory(m.Rows)))
	if len(files) > 0 {
		line("configs:\n- config_name: default\n  data_files:\n  - split: train\n    path:")
		for _, f := range files {
			line("    - %s", quote(f))
		}
	}
	line("---\n\n# Rows of kind %s\n", code(m.Schema.Name))
	line("%d rows of schema %s version %d, made by the stage %s (version %d).", m.Rows, code(m.Schema.Name), m.Schema.Version, code(m.Stage.Name), m.Stage.Version)
	line("`manifest.json` beside the rows says all of this for programs, and also when the version was made and what it cost.\n")
	line("| | |\n|---|---|")
	if digest, err := sumWithout(m, "checksum", "run"); err == nil {
		line("| digest | %s |", code(digest))
	}
	line("| key | %s |", code(m.Key))
	line("| rows | %d of %d read |", m.Rows, m.RowsIn)
	line("| stored | %d bytes in %d shards, %d blobs |", m.Bytes, len(m.Shards), m.Blobs.Count)
	line("| seed | %d |", m.Stage.Seed)
	if settings, err := seal.Canonical(m.Stage.Config); err == nil {
		line("| settings | %s |", code(string(settings)))
	}

	line("\n## Columns\n\n| column | type | |\n|---|---|---|")
	cardColumns(line, "", m.Schema.Fields)
	if len(m.Dropped) > 0 {
		line("\n## Left out\n\n| reason | rows |\n|---|---|")
		for _, reason := range slices.Sorted(maps.Keys(m.Dropped)) {
			line("| %s | %d |", code(reason), m.Dropped[reason])
		}
	}
	if len(m.Inputs) > 0 {
		line("\n## Made from\n\n| input | role | digest |\n|---|---|---|")
		for _, in := range m.Inputs {
			line("| %s %s | %s | %s |", in.Kind, code(in.Name), code(in.Role), code(in.Digest))
		}
	}
	return []byte(b.String())
}

func cardColumns(line func(string, ...any), path string, fields []arrowio.Field) {
	for _, f := range fields {
		typ, item := "", f
		for item.Type == "list" {
			typ, item = typ+"list of ", item.Fields[0]
		}
		typ += item.Type
		var notes []string
		for note, is := range map[string]bool{"may be null": f.Nullable, "may differ between two runs": f.Volatile, "names a blob": f.Blob} {
			if is {
				notes = append(notes, note)
			}
		}
		slices.Sort(notes)
		line("| %s | %s | %s |", code(path+f.Name), typ, strings.Join(notes, ", "))
		if item.Type == "struct" {
			cardColumns(line, path+f.Name+".", item.Fields)
		}
	}
}

// sizeCategory is the name that Hugging Face gives a number of rows.
func sizeCategory(rows int64) string {
	names := []string{"1K", "10K", "100K", "1M", "10M", "100M", "1B", "10B", "100B", "1T"}
	limit := int64(1000)
	for i, name := range names {
		if rows < limit {
			if i == 0 {
				return "n<1K"
			}
			return names[i-1] + "<n<" + name
		}
		limit *= 10
	}
	return "n>1T"
}

// quote is text as YAML and JSON both read it.
func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return `""` // text always marshals
	}
	return string(b)
}

// code is text in a cell of a table, as it is.
func code(s string) string {
	s = strings.NewReplacer("|", `\|`, "`", "'", "\n", " ", "\r", " ").Replace(s)
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}
