package command

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"orchard/datasets"
	"orchard/internal/exit"
	"orchard/internal/seal"
)

const aboutLineage = `A dataset is looked for beside its child first, then where it was when it was used. One
that is gone is shown with the reason, and so are files, which are not kept.

EXAMPLES
   orchard dataset lineage out/sft
   orchard dataset lineage --svg lineage.svg s3://team/datasets/sft`

// origin is a version or file in a lineage, with what it was made from.
type origin struct {
	Kind    string    `json:"kind"` // dataset or file
	Name    string    `json:"name"`
	Digest  string    `json:"digest"`
	Role    string    `json:"role,omitempty"` // what its child used it as
	URI     string    `json:"uri,omitempty"`
	Rows    int64     `json:"rows"`
	Stage   string    `json:"stage,omitempty"`
	Problem string    `json:"problem,omitempty"` // why it could not be opened
	Again   bool      `json:"again,omitempty"`   // its inputs are where it was named first
	Inputs  []*origin `json:"inputs"`
}

// trace is the lineage of a version as a tree.
func trace(c *cli.Context, open datasets.Opener, v *datasets.Version) *origin {
	top := opened(v)
	path := []*origin{top} // by depth
	seen := map[string]bool{v.Digest(): true}
	for _, a := range datasets.Lineage(c.Context, open, v) {
		o := &origin{Kind: a.Kind, Name: a.Name, Digest: a.Digest, URI: a.URI, Inputs: []*origin{}}
		if a.Version != nil {
			o = opened(a.Version)
			o.Again = seen[o.Digest]
			seen[o.Digest] = true
		}
		o.Role = a.Role
		if a.Err != nil {
			o.Problem = a.Err.Error()
		}
		above := path[a.Depth-1]
		above.Inputs = append(above.Inputs, o)
		path = append(path[:a.Depth], o)
	}
	return top
}

func opened(v *datasets.Version) *origin {
	m := v.Manifest()
	return &origin{Kind: datasets.InputDataset, Name: v.Location().Name, Digest: v.Digest(), URI: v.Location().String(), Rows: m.Rows, Stage: m.Stage.Name, Inputs: []*origin{}}
}

func lineage(c *cli.Context, open datasets.Opener, args []string) error {
	v, err := datasets.Open(c.Context, open, args[0])
	if err != nil {
		return err
	}
	top := trace(c, open, v)
	if file := c.String("svg"); file != "" {
		if err := os.WriteFile(file, drawing(top), 0o644); err != nil {
			return exit.Configf("--svg: %w", err)
		}
	}
	if c.Bool("json") {
		raw, err := seal.JSON(top)
		if err == nil {
			_, err = c.App.Writer.Write(append(raw, '\n'))
		}
		return err
	}
	var b bytes.Buffer
	top.print(&b, "", "")
	_, err = c.App.Writer.Write(b.Bytes())
	return err
}

// print is a line each; first begins this one's and rest those below it.
func (o *origin) print(w io.Writer, first, rest string) {
	fmt.Fprintf(w, "%s%s\n", first, o.line())
	for i, in := range o.Inputs {
		if i == len(o.Inputs)-1 {
			in.print(w, rest+"└─ ", rest+"   ")
		} else {
			in.print(w, rest+"├─ ", rest+"│  ")
		}
	}
}

func (o *origin) line() string {
	parts := []string{fmt.Sprintf("%s@%s", o.Name, o.Digest[:min(12, len(o.Digest))])}
	if o.Role != "" {
		parts[0] = o.Role + ": " + parts[0]
	}
	switch {
	case o.Problem != "":
		parts = append(parts, "NOT READ: "+o.Problem)
	case o.Kind == datasets.InputFile:
		parts = append(parts, "a file")
	default:
		parts = append(parts, count(o.Rows, "row"), "by "+o.Stage)
	}
	if o.Again {
		parts = append(parts, "as above")
	}
	return strings.Join(parts, "  ")
}
