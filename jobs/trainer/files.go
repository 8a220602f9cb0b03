package trainer

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"orchard/datasets"
	"orchard/datasets/arrowio"
	"orchard/internal/exit"
	"orchard/internal/objstore"
	"orchard/internal/runner"
)

// files checks every file that the export left beside its version: the bytes against the
// sum of the list, and the content against the rows.
func (all *rows) files(ctx context.Context, v *datasets.Version) error {
	name, key := v.Location().Name, v.Manifest().Key
	raw, _, err := objstore.ReadAll(ctx, v.Store(), datasets.FilesIndex(name, key), 16<<20)
	var list []runner.File
	if err == nil {
		err = json.Unmarshal(raw, &list)
	}
	if err != nil {
		return exit.Inputf("the list of its files: %w; `orchard rl-export` makes them with the dataset", err)
	}
	dir, err := os.MkdirTemp("", "orchard-trainer-")
	if err != nil {
		return fmt.Errorf("temporary folder: %w", err)
	}
	defer os.RemoveAll(dir) // what is left of it goes with the Pod
	there := map[string]bool{}
	for _, f := range list {
		there[f.Name] = true
		if err := all.file(ctx, v.Store(), datasets.FilesPrefix(name, key)+f.Name, f, dir); err != nil {
			return fmt.Errorf("file %s: %w", f.Name, err)
		}
	}
	need := []string{"slime.jsonl", "verl.parquet", "rl-export.json"}
	if all.f.tokens < all.f.rows {
		need = append(need, "messages.jsonl")
	}
	for _, n := range need {
		if !there[n] {
			return exit.Inputf("the list of its files has no %s", n)
		}
	}
	return nil
}

// file copies a file here, with its sum, and looks into it.
func (all *rows) file(ctx context.Context, store objstore.Store, key string, f runner.File, dir string) (err error) {
	r, _, err := store.Open(ctx, key, 0, -1)
	if err != nil {
		if errors.Is(err, objstore.ErrNotFound) {
			err = exit.With(exit.Input, err)
		}
		return err
	}
	defer r.Close()
	here, err := os.CreateTemp(dir, "file-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, here.Close(), os.Remove(here.Name())) }()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(here, sum), r)
	if err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != f.SHA256 || n != f.Bytes {
		return exit.Inputf("is %d bytes of sha256 %s, and was written with %d of %s", n, got, f.Bytes, f.SHA256)
	}
	if _, err := here.Seek(0, io.SeekStart); err != nil {
		return err
	}
	switch f.Name {
	case "slime.jsonl":
		return exit.With(exit.Input, all.jsonLines(here, true))
	case "messages.jsonl":
		return exit.With(exit.Input, all.jsonLines(here, false))
	case "verl.parquet":
		return exit.With(exit.Input, all.parquet(ctx, here, n))
	case "rl-export.json":
		return exit.With(exit.Input, all.summary(here))
	}
	return nil
}

// jsonLines compares a file's lines with the rows that have tokens, or those that have none, in the
// order of their indexes.
func (all *rows) jsonLines(r io.Reader, tokens bool) error {
	in, next := bufio.NewReaderSize(r, 1<<20), 0
	for n := 1; ; n++ {
		text, err := in.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return err
		}
		for next < len(all.lines) && all.lines[next].tokens != tokens {
			next++
		}
		switch {
		case len(text) == 0 && next == len(all.lines):
			return nil
		case len(text) == 0:
			return fmt.Errorf("ends before the line of row %s, index %d", all.lines[next].id, next)
		case next == len(all.lines):
			return fmt.Errorf("line %d is of no row", n)
		case sha256.Sum256(text) != all.lines[next].sum:
			return fmt.Errorf("line %d does not say what row %s, index %d, says", n, all.lines[next].id, next)
		}
		next++
	}
}

// parquet compares ids and lengths of a table with the rows that have tokens.
func (all *rows) parquet(ctx context.Context, r io.ReaderAt, size int64) error {
	next := 0
	for row, err := range arrowio.ReadParquet(ctx, r, size) {
		if err != nil {
			return err
		}
		for next < len(all.lines) && !all.lines[next].tokens {
			next++
		}
		if next == len(all.lines) || row["id"] != all.lines[next].id {
			return fmt.Errorf("row %v stands where another should, or is one too many", row["id"])
		}
		next++
		length := func(name string) int {
			list, _ := row[name].([]any)
			return len(list)
		}
		response := length("responses")
		if response == 0 || length("response_mask") != response || length("attention_mask") != length("prompts")+response {
			return fmt.Errorf("row %v: masks of %d and %d for a prompt of %d and a response of %d", row["id"], length("attention_mask"), length("response_mask"), length("prompts"), response)
		}
		for _, name := range []string{"old_log_probs", "advantages"} {
			if n := length(name); n != 0 && n != response {
				return fmt.Errorf("row %v: %d %s for a response of %d", row["id"], n, name, response)
			}
		}
	}
	for ; next < len(all.lines); next++ {
		if all.lines[next].tokens {
			return fmt.Errorf("has no row %s", all.lines[next].id)
		}
	}
	return nil
}

// summary compares the export's own count.
func (all *rows) summary(r io.Reader) error {
	var s struct {
		Groups  struct{ Out int64 }
		Samples struct{ Out int64 }
	}
	if err := json.NewDecoder(r).Decode(&s); err != nil {
		return err
	}
	if s.Samples.Out != all.f.rows || s.Groups.Out != int64(len(all.groups)) {
		return fmt.Errorf("counts %d samples of %d groups, and there are %d of %d", s.Samples.Out, s.Groups.Out, all.f.rows, len(all.groups))
	}
	return nil
}
