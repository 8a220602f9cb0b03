package command

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"orchard/datasets"
	"orchard/datasets/export/folder"
	"orchard/datasets/query"
	"orchard/internal/exit"
)

// asStored is the format that changes nothing.
const asStored = "store"

const aboutPull = `As it is stored (the default) the version is copied into DIR/NAME with its blobs, every
object compared with its hash, and can be opened there. As Parquet, JSON lines or Arrow
it becomes files under DIR/data that pandas, DuckDB and Hugging Face datasets read
(data/train-00000-of-00004.parquet), with a card and a list of checksums; then --columns
and --where choose what is written. The same version and flags give the same bytes.

Killed, the same command goes on where it was. A file that is not what this would write
is never replaced.

EXAMPLES
   orchard dataset pull --out data s3://team/datasets/rollouts
   orchard dataset pull --format parquet --out hf --where 'verdict.outcome=resolved' out/rollouts
   orchard dataset pull --format jsonl --compress zst --columns id,messages --out sft out/sft

` + aboutWhere

func pullFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "out", Value: ".", Usage: "write into `DIR`"},
		&cli.StringFlag{Name: "format", Value: asStored, Usage: "`FORMAT`: store, parquet, jsonl or arrow"},
		&cli.StringFlag{Name: "compress", Usage: "of jsonl: `zst` or gz"},
		&cli.StringFlag{Name: "file-size", Value: "256MB", Usage: "begin another file after this `SIZE`; not of store"},
		columnsFlag(), whereFlag(),
		&cli.BoolFlag{Name: "parents", Usage: "of store: also the versions that it was made from"},
		&cli.BoolFlag{Name: "files", Usage: "of store: also the files that its stage wrote beside it"},
		workersFlag(),
	}
}

func pull(c *cli.Context, open datasets.Opener, args []string) error {
	format, err := pullFormat(c)
	if err != nil {
		return err
	}
	if format == asStored {
		return pullStore(c, open, args[0])
	}
	v, err := datasets.Open(c.Context, open, args[0])
	if err != nil {
		return err
	}
	fileBytes, err := parseSize("--file-size", c.String("file-size"))
	if err != nil {
		return err
	}
	q, err := query.New(v.Manifest().Schema, columnsOf(c), whereOf(c))
	if err != nil {
		return err
	}
	m := newMeter(c.App.ErrWriter, v.Location().Name)
	o := folder.Options{Format: format, Query: q, FileBytes: fileBytes,
		Progress: func(rows int64) { m.set(rows, v.Manifest().Rows, 0, "rows") }}
	dir := c.String("out")
	r, err := folder.Write(c.Context, v, dir, o)
	m.end()
	if err != nil {
		return err
	}
	fmt.Fprintf(c.App.Writer, "%s  %s of %s in %s, %d written, %s\n", filepath.Join(dir, "data"), count(r.Rows, "row"), v.Location(), count(int64(r.Files), "file"), r.Written, size(r.Bytes))
	return nil
}

// pullFormat is the format with its compression, checked against the other flags.
func pullFormat(c *cli.Context) (string, error) {
	format := c.String("format")
	if format != asStored && (!slices.Contains(folder.Formats, format) || strings.Contains(format, ".")) {
		return "", exit.Configf("--format: %q; there is store, parquet, jsonl and arrow", format)
	}
	for _, flag := range []string{"columns", "where", "file-size"} {
		if format == asStored && c.IsSet(flag) {
			return "", exit.Configf("--%s: a version is copied whole; choose --format parquet, jsonl or arrow", flag)
		}
	}
	for _, flag := range []string{"parents", "files", "workers"} {
		if format != asStored && c.IsSet(flag) {
			return "", exit.Configf("--%s: is for --format store", flag)
		}
	}
	if packing := c.String("compress"); packing != "" {
		if format != "jsonl" {
			return "", exit.Configf("--compress: is for --format jsonl; the others are compressed")
		}
		if format += "." + packing; !slices.Contains(folder.Formats, format) {
			return "", exit.Configf("--compress: %q; there is zst and gz", packing)
		}
	}
	return format, nil
}

// pullStore copies into a folder, where what is there already is read as well: that is
// cheap, and nobody else looks after it.
func pullStore(c *cli.Context, open datasets.Opener, from string) error {
	o, err := copyOptions(c)
	if err != nil {
		return err
	}
	o.Check = true
	v, err := datasets.Open(c.Context, open, from)
	if err != nil {
		return err
	}
	dir, err := filepath.Abs(c.String("out"))
	if err != nil {
		return exit.With(exit.Config, err)
	}
	to, err := open(c.Context, "file://"+filepath.ToSlash(dir))
	if err != nil {
		return err
	}
	all, err := withParents(c, open, v)
	if err != nil {
		return err
	}
	for _, each := range all {
		o.Name = each.Location().Name
		if err := copyOne(c, each, to, o); err != nil {
			return err
		}
	}
	return nil
}
