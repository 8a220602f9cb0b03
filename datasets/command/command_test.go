package command

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/urfave/cli/v2"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/objstore/dir"
	"orchard/internal/objstore/objtest/fakes3"
)

func TestMain(m *testing.M) {
	if args := os.Getenv(childArgs); args != "" {
		child(strings.Fields(args))
	}
	testscript.Main(m, map[string]func(){"orchard": orchard, "mkdata": mkdata, "mkother": mkother})
}

func TestScripts(t *testing.T) {
	t.Parallel()
	s3 := fakes3.Start(t, nil)
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			e.Setenv("AWS_ENDPOINT_URL", s3)
			e.Setenv("AWS_ACCESS_KEY_ID", "key")
			e.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
			e.Setenv("BUCKET", fakes3.Bucket)
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":   exits,
			"corrupt": corrupt,
			"newer":   newer,
			"prefix":  prefix,
			"garbage": garbage,
		},
	})
}

// orchard is the program with this one command.
func orchard() {
	app := &cli.App{Name: "orchard", Commands: []*cli.Command{Dataset()}, ExitErrHandler: func(*cli.Context, error) {}}
	err := app.RunContext(context.Background(), os.Args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "orchard:", err)
	}
	os.Exit(exit.Code(err))
}

// mkdata URI ROWS [INPUT] makes a version with tasks; as many rows always give the same.
func mkdata() {
	if err := makeTasks(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func makeTasks(ctx context.Context, args []string) error {
	loc, err := datasets.Parse(args[0])
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	store, err := datasets.Stores(ctx, loc.Root)
	if err != nil {
		return err
	}
	noon := time.Date(2026, 1, 2, 12, 0, n, 0, time.UTC)
	meta := datasets.Meta{
		Stage:   datasets.Stage{Name: "import", Version: 1, Seed: int64(n), Config: json.RawMessage(`{"limit":0}`)},
		Inputs:  []datasets.Input{{Kind: datasets.InputFile, Name: "tasks.jsonl", Digest: strings.Repeat("ab", 32), Role: "tasks"}},
		Dropped: map[string]int64{"no tests": 1}, RowsIn: int64(n) + 1,
		Started: noon.Add(-1500 * time.Millisecond), Committed: noon,
	}
	if len(args) > 2 {
		v, err := datasets.Open(ctx, datasets.Stores, args[2])
		if err != nil {
			return err
		}
		meta.Inputs = []datasets.Input{v.Input("tasks")}
		tokens := int64(1234)
		meta.Usage = record.Usage{ModelCalls: 7, PromptTokens: &tokens, SandboxMS: 61_500}
	}
	w, err := datasets.NewWriter[record.Task](store, loc.Name, datasets.WriterOptions{})
	if err != nil {
		return err
	}
	defer w.Close()
	for i := range n {
		patch, err := datasets.Keeper{Store: store, Limit: 100}.Keep(ctx, []byte(strings.Repeat(fmt.Sprintf("+line %d\n", i), 1+20*(i%2))))
		if err != nil {
			return err
		}
		row := record.Task{TaskID: fmt.Sprintf("task-%02d", i), Repo: "a/b", Statement: "It breaks.\n\nFix it. <b>", GoldPatch: patch, FailToPass: []string{"TestA", "TestB"}}
		if err := w.Write(ctx, row); err != nil {
			return err
		}
	}
	digest, _, err := w.Commit(ctx, meta)
	if err == nil {
		fmt.Println(digest)
	}
	return err
}

// exits CODE COMMAND... runs a command that must end with that code.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if err != nil {
		_, got, _ = strings.Cut(err.Error(), "exit status ")
	}
	if got != args[0] {
		ts.Fatalf("exit code %s (%v), want %s", got, err, args[0])
	}
}

// corrupt ROOT PREFIX [SUFFIX] flips a bit in the middle of the first object whose key
// has both.
func corrupt(ts *testscript.TestScript, _ bool, args []string) {
	suffix := ""
	if len(args) > 2 {
		suffix = args[2]
	}
	root := ts.MkAbs(args[0])
	s, err := dir.Open(root)
	ts.Check(err)
	for info, err := range s.List(context.Background(), args[1]) {
		ts.Check(err)
		if !strings.HasSuffix(info.Key, suffix) {
			continue
		}
		path := filepath.Join(root, info.Key)
		b, err := os.ReadFile(path)
		ts.Check(err)
		b[len(b)/2] ^= 1
		ts.Check(os.WriteFile(path, b, 0o644))
		return
	}
	ts.Fatalf("no object %s", args[1])
}

// newer DATASET gives the newest manifest a format that does not exist yet.
func newer(ts *testscript.TestScript, _ bool, args []string) {
	name := ts.MkAbs(args[0])
	digest, err := os.ReadFile(filepath.Join(name, "refs/latest"))
	ts.Check(err)
	path := filepath.Join(name, "versions", strings.TrimSpace(string(digest)), "manifest.json")
	b, err := os.ReadFile(path)
	ts.Check(err)
	ts.Check(os.WriteFile(path, bytes.Replace(b, []byte(`"format":1`), []byte(`"format":2`), 1), 0o644))
}

// prefix VAR FILE sets VAR to the first 12 bytes of a file.
func prefix(ts *testscript.TestScript, _ bool, args []string) {
	ts.Setenv(args[0], ts.ReadFile(args[1])[:12])
}

func TestSize(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1.0 kB", 9940: "9.9 kB", 9960: "10 kB", 999_400: "999 kB", 999_600: "1.0 MB", 1_500_000_000: "1.5 GB", 7e18: "7000 PB"} {
		if got := size(n); got != want {
			t.Errorf("size(%d) = %q, want %q", n, got, want)
		}
	}
}
