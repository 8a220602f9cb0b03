package folder

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"orchard/datasets"
	"orchard/internal/exit"
)

// loaders is what Hugging Face datasets calls the formats.
var loaders = map[string]string{"parquet": "parquet", "arrow": "arrow", "jsonl": "json", "jsonl.zst": "json", "jsonl.gz": "json"}

// card writes README.md: which files make which split, and how to read them. One that is
// there is left alone, as somebody may have written it.
func (e *export) card() error {
	path := filepath.Join(e.dir, "README.md")
	switch _, err := os.Lstat(path); {
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return exit.Configf("write %s: %w", path, err)
	}
	return replace(path, e.text())
}

// text is the card of the version with what this folder has of it.
func (e *export) text() []byte {
	names := make([]string, len(e.state.Files))
	rows := int64(0)
	for i, f := range e.state.Files {
		names[i] = f.Name
		rows += f.Rows
	}
	b := bytes.NewBuffer(datasets.Card(e.v.Manifest(), names...))
	p := func(format string, a ...any) { fmt.Fprintf(b, format+"\n", a...) }
	p("\n## This folder\n")
	p("%d of the rows, written as %s. `%s` lists every file with its sha256.", rows, e.o.Format, stateName)
	p("Text that was too long for a row stays in the store, as the blob that the row names.")
	if c := e.state.Columns; len(c) > 0 {
		p("\nOnly the columns `%s`.", strings.Join(c, "`, `"))
	}
	for _, w := range e.state.Where {
		p("\nOnly rows with `%s`.", w)
	}
	p("\n```python\nfrom datasets import load_dataset\nrows = load_dataset(%q, data_files=\"data/train-*.%s\", split=\"train\")\n```", loaders[e.o.Format], e.o.Format)
	return b.Bytes()
}
