package admit

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/exit/exittest"
	"orchard/internal/objstore/dir"
	"orchard/internal/sandbox/sandboxtest"
)

func TestScripts(t *testing.T) {
	t.Parallel()
	service := sandboxtest.New(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			for _, v := range service.Env() {
				name, value, _ := strings.Cut(v, "=")
				e.Setenv(name, value)
			}
			return nil
		},
		Cmds: func() map[string]func(*testscript.TestScript, bool, []string) {
			cmds := exittest.Cmds()
			cmds["given"] = given(t)
			return cmds
		}(),
	})
}

// given is the script command "given ROOT NAME TASK...": a dataset of planted tasks. Of the
// name "admission" it is one of another kind.
func given(t *testing.T) func(*testscript.TestScript, bool, []string) {
	m := newMaker(t)
	return func(ts *testscript.TestScript, _ bool, args []string) {
		root := ts.MkAbs(args[0])
		ts.Check(os.MkdirAll(root, 0o755))
		store, err := dir.Open(root)
		ts.Check(err)
		sha, err := datasets.PutBlob(context.Background(), store, m.bundle)
		ts.Check(err)
		if args[1] == "admission" {
			w, err := datasets.NewWriter[record.Admission](store, args[1], datasets.WriterOptions{})
			ts.Check(err)
			_, _, err = w.Commit(context.Background(), datasets.Meta{Stage: datasets.Stage{Name: "admit", Version: 1, Config: json.RawMessage("{}")}, Started: time.Unix(1, 0), Committed: time.Unix(1, 0)})
			ts.Check(err)
			return
		}
		var tasks []record.Task
		for _, name := range args[2:] {
			i := slices.IndexFunc(planted, func(p plant) bool { return p.name == name })
			if i < 0 {
				ts.Fatalf("no planted task %s", name)
			}
			tasks = append(tasks, m.task(name, planted[i].project))
		}
		if got := m.dataset(store, sha, args[1], tasks...); got != filepath.Join(root, args[1]) {
			ts.Fatalf("%s", fmt.Sprint("dataset at ", got))
		}
	}
}
