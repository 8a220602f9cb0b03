package imports

import (
	"fmt"
	"strings"
)

// Problem is what is wrong with one row. It is an error.
type Problem struct {
	Place string // "tasks.jsonl:12", or "tasks.parquet: row 12"
	ID    string // instance_id, "" when it is not known
	Field string // column, or "json" for a row that cannot be read at all
	What  string // what is wrong and how to put it right
}

func (p *Problem) Error() string {
	id := p.ID
	if id == "" {
		id = "(no instance_id)"
	}
	return fmt.Sprintf("%s: %s: %s: %s", p.Place, id, p.Field, p.What)
}

// Reason is the name under which a skipped row is counted.
func (p *Problem) Reason() string { return "bad_" + strings.ToLower(p.Field) }

// problemf is a Problem that does not know its place yet.
func problemf(field, format string, a ...any) *Problem {
	return &Problem{Field: field, What: fmt.Sprintf(format, a...)}
}

// shown is s as it can be put into a message: quoted, and short.
func shown(s string) string {
	if r := []rune(s); len(r) > 60 {
		s = string(r[:57]) + "..."
	}
	return fmt.Sprintf("%q", s)
}
