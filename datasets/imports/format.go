package imports

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"orchard/datasets/record"
	"orchard/internal/exit"
)

// Format is one schema that task sets or sets of trajectories have in the wild.
type Format struct {
	Name string
	// Rollouts is set when a row is a rollout, not a task.
	Rollouts bool

	needs []string // columns that a file must have; "a|b" is either
	never []string // columns that it must not have
	only  bool     // no column besides needs
	rank  int      // of two formats that a file has, the higher one counts
	// tells says more than the columns can: it must hold for some row. Nil holds.
	tells func(Row) bool

	adapt   func(*reader)                // rewrites a row into the columns of tasks, before it is read as one
	task    func(*reader) record.Task    // reads a task that has a Goal
	rollout func(*reader) record.Rollout // reads a rollout
}

// Tasks is the format of orchard's own task files: the core of SWE-bench, and columns
// for tests and repositories.
var Tasks = &Format{Name: "tasks", needs: []string{"instance_id|task_id", "repo", "base_commit|parent_commit", "problem_statement", "patch|gold_patch"}}

// Formats is every format, in the order of the documentation.
func Formats() []*Format {
	return slices.Concat([]*Format{Tasks}, sweFormats, otherSWEFormats, folderFormats, webFormats, promptFormats, traceFormats)
}

// FormatNames is the names of all formats.
func FormatNames() []string {
	var out []string
	for _, f := range Formats() {
		out = append(out, f.Name)
	}
	return out
}

// FormatByName is the format of this name, or an error marked exit.Config.
func FormatByName(name string) (*Format, error) {
	for _, f := range Formats() {
		if f.Name == name {
			return f, nil
		}
	}
	return nil, exit.Configf("--format: there is no format %q; known are %s", name, strings.Join(FormatNames(), ", "))
}

// Parse says what a row of this format means. source names the set of rows that do not
// name it. The problem, if any, has place and id.
func (f *Format) Parse(row Row, source string) (Parsed, *Problem) {
	r := read(row)
	p := Parsed{Place: row.Place, File: row.File, Row: row.Values}
	if f.Rollouts {
		out := f.rollout(r)
		if out.Source == "" {
			out.Source = source
		}
		out.Raw = &row.Raw
		p.Rollout = &out
		return p, r.done(out.TaskID)
	}
	var t record.Task
	switch {
	case f.task != nil:
		t = f.task(r)
		r.checkID(t.TaskID)
	default:
		if f.adapt != nil {
			r.values = maps.Clone(r.values)
			f.adapt(r)
		}
		t, p.Repo = parseTask(r)
	}
	if t.Source == "" {
		t.Source = source
	}
	t.Raw = row.Raw
	p.Task = t
	if problem := r.done(t.TaskID); problem != nil {
		return Parsed{}, problem
	}
	return p, nil
}

// The rows that a format is told from.
const (
	sampleRows  = 64
	sampleBytes = 32 << 20
)

// sample is what the first rows of a file show.
type sample struct {
	columns map[string]bool
	told    map[*Format]bool
	rows    int
	bytes   int
}

// Detect tells the format of a file or folder by its first rows.
func Detect(ctx context.Context, path string) (*Format, error) {
	s := sample{columns: map[string]bool{}, told: map[*Format]bool{}}
	enough := errors.New("enough rows")
	all := Formats()
	err := Read(ctx, path, func(row Row, problem *Problem) error {
		if problem != nil {
			return nil
		}
		for name := range row.Values {
			s.columns[name] = true
		}
		for _, f := range all {
			if f.tells != nil && !s.told[f] {
				s.told[f] = f.tells(row)
			}
		}
		s.rows++
		if s.bytes += len(row.Raw); s.rows == sampleRows || s.bytes > sampleBytes {
			return enough
		}
		return nil
	})
	if err != nil && !errors.Is(err, enough) {
		return nil, err
	}
	if s.rows == 0 { // every row is broken: whoever reads them says how
		return Tasks, nil
	}
	return s.format(path, all)
}

func (s sample) format(path string, all []*Format) (*Format, error) {
	var found []*Format
	for _, f := range all {
		if !s.fits(f) {
			continue
		}
		if len(found) > 0 && found[0].rank > f.rank {
			continue
		}
		if len(found) > 0 && found[0].rank < f.rank {
			found = nil
		}
		found = append(found, f)
	}
	columns := strings.Join(slices.Sorted(maps.Keys(s.columns)), ", ")
	switch len(found) {
	case 0:
		return nil, exit.Inputf("%s: the format is not known: it has the columns %s; known are %s (--format NAME takes it for one)",
			path, columns, strings.Join(FormatNames(), ", "))
	case 1:
		return found[0], nil
	}
	return nil, exit.Inputf("%s: the format is not clear: with the columns %s it may be %s or %s; say which with --format",
		path, columns, found[0].Name, found[1].Name)
}

func (s sample) fits(f *Format) bool {
	known := 0
	for _, need := range f.needs {
		has := 0
		for name := range strings.SplitSeq(need, "|") {
			if s.columns[name] {
				has++
			}
		}
		if has == 0 {
			return false
		}
		known += has
	}
	if f.only && known < len(s.columns) || slices.ContainsFunc(f.never, func(c string) bool { return s.columns[c] }) {
		return false
	}
	return f.tells == nil || s.told[f]
}

// ID is the id of the row that this becomes.
func (p *Parsed) ID() string {
	if p.Rollout != nil {
		return p.Rollout.RolloutID
	}
	return p.Task.TaskID
}

// Name is the id in the source's own words, for messages.
func (p *Parsed) Name() string {
	if p.Rollout != nil {
		return p.Rollout.TaskID
	}
	return p.Task.TaskID
}

// Same is what two rows with one id must agree in to be duplicates.
func (p *Parsed) Same() any {
	if p.Rollout != nil {
		bare := *p.Rollout
		bare.Raw, bare.Source = nil, ""
		return bare
	}
	bare := p.Task
	bare.Raw, bare.Source = "", ""
	return []any{bare, p.Repo}
}

// Texts is the texts of the row, which may be long, or not UTF-8.
func (p *Parsed) Texts() []*record.Text {
	if p.Rollout != nil {
		return []*record.Text{&p.Rollout.Trajectory.Diff, &p.Rollout.Trajectory.Submission, &p.Rollout.Verdict.Log}
	}
	out := []*record.Text{&p.Task.GoldPatch, &p.Task.TestPatch}
	if p.Task.Goal != nil {
		for i := range p.Task.Goal.Files {
			out = append(out, &p.Task.Goal.Files[i].Content)
		}
	}
	return out
}

func needs(names string) []string { return strings.Fields(names) }

func (f *Format) String() string {
	if f.Rollouts {
		return fmt.Sprintf("%s (rollouts)", f.Name)
	}
	return f.Name
}
