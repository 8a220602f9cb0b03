package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"orchard/datasets"
	"orchard/datasets/arrowio"
	"orchard/internal/objstore"
)

func show(c *cli.Context, open datasets.Opener, args []string) error {
	v, err := datasets.Open(c.Context, open, args[0])
	if err != nil {
		return err
	}
	if c.Bool("json") {
		_, err := c.App.Writer.Write(v.RawManifest())
		return err
	}
	files, err := filesOf(c.Context, v)
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(c.App.Writer, 0, 0, 2, ' ', 0)
	describe(t, v, files)
	return t.Flush()
}

// file is one that a stage wrote beside a version.
type file struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

func filesOf(ctx context.Context, v *datasets.Version) (files []file, err error) {
	raw, _, err := objstore.ReadAll(ctx, v.Store(), datasets.FilesIndex(v.Location().Name, v.Manifest().Key), 16<<20)
	if errors.Is(err, objstore.ErrNotFound) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &files)
	}
	if err != nil {
		return nil, fmt.Errorf("list of files beside %s: %w", v.Location(), err)
	}
	return files, nil
}

// describe prints a manifest and the files beside the version, a topic a line.
func describe(w io.Writer, v *datasets.Version, files []file) {
	m := v.Manifest()
	line := func(topic, format string, a ...any) { fmt.Fprintf(w, topic+"\t"+format+"\n", a...) }
	line("name", "%s", v.Location().Name)
	line("version", "%s", v.Digest())
	line("where", "%s", v.Store())
	line("kind", "%s, schema version %d", m.Schema.Name, m.Schema.Version)
	line("rows", "%d of %d that came in", m.Rows, m.RowsIn)
	for _, reason := range slices.Sorted(maps.Keys(m.Dropped)) {
		line("dropped", "%d: %s", m.Dropped[reason], reason)
	}
	line("size", "%s in %s, and %s", size(m.Bytes), count(int64(len(m.Shards)), "shard"), count(m.Blobs.Count, "blob"))
	line("made by", "%s version %d, seed %d%s", m.Stage.Name, m.Stage.Version, m.Stage.Seed, prefixed(", run ", m.Stage.RunID))
	line("config", "%s", m.Stage.Config)
	for _, in := range m.Inputs {
		line("input", "%s: %s %s@%s%s", in.Role, in.Kind, in.Name, in.Digest[:min(12, len(in.Digest))], prefixed("  from ", in.URI))
	}
	if u := m.Run.Usage; u.ModelCalls > 0 || u.SandboxMS > 0 {
		line("usage", "%s, %s prompt tokens (%s cached), %s completion tokens, cost %s, sandboxes %s",
			count(u.ModelCalls, "model call"), number(u.PromptTokens), number(u.CachedTokens), number(u.CompletionTokens), money(u.CostUSD), time.Duration(u.SandboxMS)*time.Millisecond)
	}
	line("committed", "%s%s", when(m.Run.Committed), took(m.Run))
	line("build", "%s", m.Run.Build)
	line("key", "%s", m.Key)
	if len(files) > 0 {
		line("files", "%s/%s", v.Store(), datasets.FilesPrefix(v.Location().Name, m.Key))
	}
	for i, f := range files {
		if i == mostLines {
			line("", "… and %d more", len(files)-i)
			break
		}
		line("", "%s, %s", f.Name, size(f.Bytes))
	}
	for i, f := range m.Schema.Fields {
		topic := "columns"
		if i > 0 {
			topic = ""
		}
		line(topic, "%s\t%s", f.Name, typeName(f))
	}
}

// typeName is a type with the names inside it.
func typeName(f arrowio.Field) string {
	s := f.Type
	switch f.Type {
	case "list":
		s = "list of " + typeName(f.Fields[0])
	case "struct":
		var names []string
		for _, c := range f.Fields {
			names = append(names, c.Name)
		}
		s = "{" + strings.Join(names, ", ") + "}"
	}
	if f.Nullable {
		s += ", may be null"
	}
	if f.Volatile {
		s += ", may differ between runs"
	}
	return s
}

func count(n int64, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

func number(n *int64) string {
	if n == nil {
		return "unknown"
	}
	return fmt.Sprint(*n)
}

func money(usd *float64) string {
	if usd == nil {
		return "unknown"
	}
	return fmt.Sprintf("$%.2f", *usd)
}

func took(r datasets.Run) string {
	d := r.Committed.Sub(r.Started)
	if r.Started.IsZero() || d < 0 {
		return ""
	}
	round := 100 * time.Millisecond
	if d < time.Second {
		round = time.Millisecond
	}
	return ", after " + d.Round(round).String()
}
