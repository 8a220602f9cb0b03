// Package rundir is what a pipeline run on this machine leaves for people: which
// pipeline with which parameters, what each step did and said, how it ended.
//
// The folders are this user's alone, since a step's log may hold anything.
//
// One folder a run, `<state>/runs/<id>/`: run.json, events.jsonl, steps/<node>/<attempt>/
// (log, out/), and a lock that the running process holds. Nothing here is needed to
// resume a run, since finished work lives in the datasets; deleting a folder loses only
// its logs.
package rundir

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"orchard/internal/exit"
	"orchard/internal/pipeline"
)

// Record is run.json.
type Record struct {
	ID       string            `json:"id"`
	Pipeline string            `json:"pipeline"`
	Params   map[string]string `json:"params"`
	PID      int               `json:"pid"`
	Started  time.Time         `json:"started"`
	Ended    *time.Time        `json:"ended,omitempty"`
	Phase    pipeline.Phase    `json:"phase"`
	ExitCode int               `json:"exit_code"`
	Error    string            `json:"error,omitempty"`
	Outputs  map[string]string `json:"outputs,omitempty"`
}

var idRule = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$`)

// CheckID says what is wrong with a run id, or nil. Run ids name sandboxes and
// Kubernetes objects, hence the rule.
func CheckID(id string) error {
	if !idRule.MatchString(id) {
		return exit.Configf("run id %q: must be 1 to 63 of a-z, 0-9, '-' and '.', starting and ending with a letter or digit", id)
	}
	return nil
}

// Dir is one run's folder, locked by this process until Close.
type Dir struct {
	Path string

	mu     sync.Mutex
	record Record
	lock   *os.File
	events *os.File
}

// Open makes or reopens the folder of run rec.ID below state and takes its lock; a run
// that another process is working on is an error with exit code 75.
func Open(state string, rec Record) (*Dir, error) {
	if err := CheckID(rec.ID); err != nil {
		return nil, err
	}
	path := filepath.Join(state, "runs", rec.ID)
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, exit.With(exit.Config, fmt.Errorf("run folder: %w", err))
	}
	lock, err := os.OpenFile(filepath.Join(path, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, exit.With(exit.Config, fmt.Errorf("run folder: %w", err))
	}
	if err := tryLock(lock); err != nil {
		lock.Close()
		old, _ := Read(state, rec.ID)
		return nil, exit.Retryf("run %s is going on (pid %d); see `orchard run status %s`, or give another --run-id", rec.ID, old.PID, rec.ID)
	}
	d := &Dir{Path: path, record: rec, lock: lock}
	if old, err := Read(state, rec.ID); err == nil && old.Pipeline != rec.Pipeline {
		lock.Close()
		return nil, exit.Configf("run id %s belongs to a run of pipeline %s; give another --run-id", rec.ID, old.Pipeline)
	}
	d.events, err = os.OpenFile(filepath.Join(path, "events.jsonl"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err == nil {
		err = d.write()
	}
	if err != nil {
		lock.Close()
		return nil, exit.With(exit.Config, fmt.Errorf("run folder: %w", err))
	}
	return d, nil
}

// Event appends a node's change to the log of the run.
func (d *Dir) Event(e pipeline.Event) error {
	raw, err := json.Marshal(e)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	_, err = d.events.Write(append(raw, '\n'))
	return err
}

// Finish writes how the run ended and gives the lock back.
func (d *Dir) Finish(now time.Time, res pipeline.Result, runErr error) error {
	d.record.Ended = &now
	d.record.Phase = res.Phase
	d.record.Outputs = res.Outputs
	if runErr != nil {
		d.record.ExitCode, d.record.Error = exit.Code(runErr), runErr.Error()
		if !d.record.Phase.Bad() {
			d.record.Phase = pipeline.Failed
		}
	}
	err := d.write()
	return errors.Join(err, d.events.Close(), d.lock.Close())
}

func (d *Dir) write() error {
	raw, err := json.MarshalIndent(d.record, "", "  ")
	if err != nil {
		return err
	}
	tmp := filepath.Join(d.Path, ".run.json")
	if err := os.WriteFile(tmp, append(raw, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(d.Path, "run.json"))
}

// StepDir is the folder of one attempt of a step, made empty.
func (d *Dir) StepDir(node string, attempt int) (string, error) {
	path := filepath.Join(d.Path, "steps", strings.ReplaceAll(node, "/", "_"), strconv.Itoa(attempt))
	if err := os.RemoveAll(path); err != nil {
		return "", err
	}
	return path, os.MkdirAll(filepath.Join(path, "out"), 0o755)
}

// Read is the record of a run; a run that is not there is an error that lists those that are.
func Read(state, id string) (Record, error) {
	raw, err := os.ReadFile(filepath.Join(state, "runs", id, "run.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, exit.Configf("no run %q under %s; `orchard run ls` lists the runs there are", id, state)
	}
	if err != nil {
		return Record{}, err
	}
	var r Record
	if err := json.Unmarshal(raw, &r); err != nil {
		return Record{}, fmt.Errorf("run %s: run.json: %w", id, err)
	}
	if r.Phase == pipeline.Running && !Active(state, id) {
		r.Phase, r.Error = pipeline.Error, "its process is gone; `orchard run retry "+id+"` goes on where it was"
	}
	return r, nil
}

// Active reports whether a process is working on the run now.
func Active(state, id string) bool {
	f, err := os.Open(filepath.Join(state, "runs", id, "lock"))
	if err != nil {
		return false
	}
	defer f.Close()
	return tryLock(f) != nil
}

// List is every run below state, newest first.
func List(state string) ([]Record, error) {
	entries, err := os.ReadDir(filepath.Join(state, "runs"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var runs []Record
	for _, e := range entries {
		if r, err := Read(state, e.Name()); err == nil {
			runs = append(runs, r)
		}
	}
	sort.Slice(runs, func(i, j int) bool { return runs[i].Started.After(runs[j].Started) })
	return runs, nil
}

// Nodes are the last event of each node of a run, in order of first appearance.
func Nodes(state, id string) ([]pipeline.Event, error) {
	f, err := os.Open(filepath.Join(state, "runs", id, "events.jsonl"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var nodes []pipeline.Event
	at := map[string]int{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e pipeline.Event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			continue // the last line of a killed process
		}
		if i, ok := at[e.Node]; ok {
			nodes[i] = e
			continue
		}
		at[e.Node] = len(nodes)
		nodes = append(nodes, e)
	}
	return nodes, lines.Err()
}

// Logs are the paths of a run's step logs whose node contains part, by name.
func Logs(state, id, part string) ([]string, error) {
	all, err := filepath.Glob(filepath.Join(state, "runs", id, "steps", "*", "*", "log"))
	if err != nil {
		return nil, err
	}
	part = strings.ReplaceAll(part, "/", "_")
	var found []string
	for _, path := range all {
		if strings.Contains(filepath.Base(filepath.Dir(filepath.Dir(path))), part) {
			found = append(found, path)
		}
	}
	return found, nil
}
