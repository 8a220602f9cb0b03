package compare

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"orchard/datasets"
	"orchard/datasets/arrowio"
	"orchard/internal/exit"
)

// merge walks both versions by id, leaving out the runs of shards that both have.
func merge(ctx context.Context, a, b *datasets.Version, common []arrowio.Field, tell func(Change) error, n *Rows) error {
	ma, mb := a.Manifest(), b.Manifest()
	shared := map[string]bool{}
	for _, s := range ma.Shards {
		shared[s.SHA256] = slices.ContainsFunc(mb.Shards, func(t datasets.Shard) bool { return t.SHA256 == s.SHA256 })
	}
	for _, s := range ma.Shards {
		if shared[s.SHA256] {
			n.Same += s.Rows
		}
	}
	m := &merger{common: common, tell: tell, n: n}
	columns := paths(common, "", nil)
	m.a.start(ctx, a, shared, columns)
	defer m.a.stop()
	m.b.start(ctx, b, shared, columns)
	defer m.b.stop()
	return m.run(ctx)
}

type merger struct {
	a, b   side
	common []arrowio.Field
	tell   func(Change) error
	n      *Rows
}

func (m *merger) run(ctx context.Context) error {
	for _, s := range []*side{&m.a, &m.b} {
		if err := s.next(); err != nil {
			return err
		}
	}
	for !m.a.over || !m.b.over {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := m.step(); err != nil {
			return err
		}
	}
	return nil
}

// step deals with the smaller id of the two.
func (m *merger) step() error {
	switch {
	case m.b.over || !m.a.over && m.a.id < m.b.id:
		m.n.Removed++
		if err := m.told(Change{ID: m.a.id, What: Removed}); err != nil {
			return err
		}
		return m.a.next()
	case m.a.over || m.b.id < m.a.id:
		m.n.Added++
		if err := m.told(Change{ID: m.b.id, What: Added}); err != nil {
			return err
		}
		return m.b.next()
	}
	columns := differ(m.common, m.a.row, m.b.row, "", nil)
	if len(columns) == 0 {
		m.n.Same++
	} else {
		m.n.Changed++
		for _, c := range columns {
			m.n.Columns[c]++
		}
		if err := m.told(Change{ID: m.a.id, What: Changed, Columns: columns}); err != nil {
			return err
		}
	}
	if err := m.a.next(); err != nil {
		return err
	}
	return m.b.next()
}

func (m *merger) told(c Change) error {
	if m.tell == nil {
		return nil
	}
	return m.tell(c)
}

// side is one version on its way through the merge.
type side struct {
	uri  string
	key  string // the column of ids
	pull func() (arrowio.Object, error, bool)
	stop func()
	row  arrowio.Object
	id   string
	over bool
}

// start reads the shards that are not shared, each run of them as a range of ids.
func (s *side) start(ctx context.Context, v *datasets.Version, shared map[string]bool, columns []string) {
	s.uri = v.Location().String()
	s.key = v.Manifest().Schema.Fields[0].Name
	var stop func()
	ranges := unshared(v.Manifest(), shared)
	s.stop = func() {
		if stop != nil {
			stop()
		}
	}
	var pull func() (arrowio.Object, error, bool)
	only := datasets.WithColumns(append([]string{s.key}, columns...)...) // the other's ids may be called otherwise
	s.pull = func() (arrowio.Object, error, bool) {
		for {
			if pull == nil {
				if len(ranges) == 0 {
					return nil, nil, false
				}
				pull, stop = rows(ctx, v, only, datasets.Where(s.key, ">=", ranges[0].first), datasets.Where(s.key, "<=", ranges[0].last))
				ranges = ranges[1:]
			}
			row, err, more := pull()
			if more {
				return row, err, true
			}
			stop()
			pull, stop = nil, nil
		}
	}
}

type idRange struct{ first, last string }

// unshared joins neighbours, so that a version without a shared shard is one range.
func unshared(m datasets.Manifest, shared map[string]bool) []idRange {
	var out []idRange
	open := false
	for _, s := range m.Shards {
		if shared[s.SHA256] || s.Rows == 0 {
			open = false
			continue
		}
		if !open {
			out = append(out, idRange{first: s.FirstKey})
			open = true
		}
		out[len(out)-1].last = s.LastKey
	}
	return out
}

func (s *side) next() error {
	row, err, more := s.pull()
	if err != nil || !more {
		s.over = true
		return err
	}
	id, ok := member(row, s.key).(string)
	if !ok || s.row != nil && id <= s.id {
		return exit.Inputf("%s: row %q comes after %q; ids are unique and in order", s.uri, id, s.id)
	}
	s.row, s.id = row, id
	return nil
}

// differ adds the columns in which two structs are not the same, by dotted path; a list
// is one column.
func differ(common []arrowio.Field, a, b arrowio.Object, path string, out []string) []string {
	for _, f := range common {
		x, y := member(a, f.Name), member(b, f.Name)
		xs, ok1 := x.(arrowio.Object)
		ys, ok2 := y.(arrowio.Object)
		if ok1 && ok2 {
			out = differ(f.Fields, xs, ys, path+f.Name+".", out)
		} else if !same(f, x, y) {
			out = append(out, path+f.Name)
		}
	}
	return out
}

func member(o arrowio.Object, name string) any {
	for _, m := range o {
		if m.Name == name {
			return m.Value
		}
	}
	return nil
}

// same compares two values as far as their common fields go.
func same(f arrowio.Field, a, b any) bool {
	switch a := a.(type) {
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, func(x, y any) bool { return same(f.Fields[0], x, y) })
	case arrowio.Object:
		b, ok := b.(arrowio.Object)
		return ok && len(differ(f.Fields, a, b, "", nil)) == 0
	case []byte:
		b, ok := b.([]byte)
		return ok && slices.Equal(a, b)
	case time.Time:
		b, ok := b.(time.Time)
		return ok && a.Equal(b)
	case float32:
		b, ok := b.(float32)
		return ok && (a == b || a != a && b != b)
	case float64:
		b, ok := b.(float64)
		return ok && (a == b || a != a && b != b)
	}
	if b, ok := b.([]byte); ok {
		return a == nil && b == nil
	}
	if _, ok := b.([]any); ok {
		return false
	}
	if _, ok := b.(arrowio.Object); ok {
		return false
	}
	return a == b
}

// String is a change as a line of text.
func (c Change) String() string {
	mark := map[string]string{Added: "+", Removed: "-", Changed: "~"}[c.What]
	if len(c.Columns) == 0 {
		return fmt.Sprintf("%s %s", mark, c.ID)
	}
	return fmt.Sprintf("%s %s  %s", mark, c.ID, strings.Join(c.Columns, ", "))
}
