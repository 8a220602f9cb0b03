package imports

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"unicode/utf8"
)

// Row is one row of a file before anybody asked what it means.
type Row struct {
	Place  string         // for messages
	File   string         // the file's path as given
	Values map[string]any // by column
	Raw    string         // the row as JSON, as close to the file as it gets
}

// decode is strict JSON into v: numbers keep their digits, nothing may follow.
func decode(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("something follows the JSON value")
	}
	return nil
}

// column is a thing to know about a task and the names it goes by, most telling first.
type column []string

var (
	colID         = column{"instance_id", "task_id"}
	colRepo       = column{"repo"}
	colBase       = column{"base_commit", "parent_commit"}
	colStatement  = column{"problem_statement"}
	colHints      = column{"hints_text"}
	colPatch      = column{"patch", "gold_patch"}
	colTestPatch  = column{"test_patch"}
	colVersion    = column{"version"}
	colCreated    = column{"created_at"}
	colF2P        = column{"FAIL_TO_PASS", "fail_to_pass"}
	colP2P        = column{"PASS_TO_PASS", "pass_to_pass"}
	colLanguage   = column{"language"}
	colTestCmds   = column{"test_cmds", "test_cmd"}
	colParser     = column{"log_parser"}
	colPre        = column{"pre_commands"}
	colPreInstall = column{"pre_install"}
	colWorkdir    = column{"workdir"}
	colImage      = column{"image_name", "docker_image", "image_url", "image"}
	colInstall    = column{"install_config"}
	colSource     = column{"source"}
	colBundle     = column{"repo_bundle"}
	colDir        = column{"repo_dir"}
	colFastImport = column{"repo_fast_import"}
)

// in is the column's value in values and the name it was found under; nil and the
// first name when it is absent or null.
func (c column) in(values map[string]any) (v any, name string) {
	for _, name := range c {
		if v := values[name]; v != nil {
			return v, name
		}
	}
	if len(c) == 0 {
		return nil, ""
	}
	return nil, c[0]
}

// reader takes columns out of a row and remembers the first thing that was wrong.
type reader struct {
	row     Row
	values  map[string]any
	problem *Problem
	// soft is for sources that know a task's base only as the parent of its fix, and its
	// tests only as a list of those that pass afterwards.
	soft bool
}

func read(row Row) *reader { return &reader{row: row, values: row.Values} }

// done is the problem, if any, with the place and id of the row.
func (r *reader) done(id string) *Problem {
	if r.problem != nil {
		r.problem.Place, r.problem.ID = r.row.Place, printable(id)
	}
	return r.problem
}

func (r *reader) fail(field, format string, a ...any) {
	if r.problem == nil {
		r.problem = problemf(field, format, a...)
	}
}

func (r *reader) text(c column) string {
	v, name := c.in(r.values)
	s, err := asText(v)
	if err == nil && !utf8.ValidString(s) {
		err = fmt.Errorf("invalid UTF-8 at byte %d; convert it to UTF-8", invalidAt([]byte(s)))
	}
	if err != nil {
		r.fail(name, "%v", err)
	}
	return s
}

// exact is text that need not be UTF-8: a row keeps such bytes in a blob.
func (r *reader) exact(c column) string {
	v, name := c.in(r.values)
	s, err := asText(v)
	if err != nil {
		r.fail(name, "%v", err)
	}
	return s
}

// need is text that must be there.
func (r *reader) need(c column) string {
	s := r.text(c)
	r.present(c, s)
	return s
}

func (r *reader) needExact(c column) string {
	s := r.exact(c)
	r.present(c, s)
	return s
}

func (r *reader) present(c column, s string) {
	if s == "" && r.problem == nil {
		if _, present := r.values[c[0]]; present {
			r.fail(c[0], "is empty; every task needs it")
		} else {
			r.fail(c[0], "the column is missing; every task needs it")
		}
	}
}

func (r *reader) object(c column) map[string]any {
	v, name := c.in(r.values)
	o, err := asObject(v)
	if err != nil {
		r.fail(name, "%v", err)
	}
	return o
}

func (r *reader) items(c column) []any {
	v, name := c.in(r.values)
	l, err := asItems(v)
	if err != nil {
		r.fail(name, "%v", err)
	}
	return l
}

func (r *reader) list(c column, plain bool) []string {
	v, name := c.in(r.values)
	l, err := asList(v, plain)
	if err != nil {
		r.fail(name, "%v", err)
		return []string{}
	}
	return l
}
