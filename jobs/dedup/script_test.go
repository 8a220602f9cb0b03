package dedup

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/urfave/cli/v2"

	"orchard/datasets"
	"orchard/datasets/record"
	"orchard/internal/exit"
	"orchard/internal/exit/exittest"
	"orchard/internal/logx"
	"orchard/internal/runner"
)

var update = flag.Bool("update", false, "rewrite the golden file")

// orchard is the program with this one command.
func orchard() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	log, err := logx.New(os.Stderr, "info")
	if err != nil {
		panic(err)
	}
	app := &cli.App{Name: "orchard", Commands: []*cli.Command{Command(runner.Deps{})}, ExitErrHandler: func(*cli.Context, error) {}}
	err = app.RunContext(log.WithContext(ctx), os.Args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "orchard:", err)
	}
	os.Exit(exit.Code(err))
}

// fixture is the script command "fixture TYPE FILE DATASET": rows, a JSON object each, as a
// dataset.
func fixture() {
	var err error
	switch os.Args[1] {
	case "task":
		err = rowsOf[record.Task](os.Args[2], os.Args[3])
	case "rollout":
		err = rowsOf[record.Rollout](os.Args[2], os.Args[3])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func rowsOf[R record.Row](file, name string) error {
	ctx := context.Background()
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	where, err := datasets.Parse("data/" + name)
	if err != nil {
		return err
	}
	store, err := datasets.Stores(ctx, where.Root)
	if err != nil {
		return err
	}
	w, err := datasets.NewWriter[R](store, name, datasets.WriterOptions{Sort: true})
	if err != nil {
		return err
	}
	defer w.Close()
	n := int64(0)
	for d := json.NewDecoder(bytes.NewReader(b)); d.More(); n++ {
		var row R
		if err := d.Decode(&row); err != nil {
			return err
		}
		if err := w.Write(ctx, row); err != nil {
			return err
		}
	}
	now := time.Unix(1, 0).UTC()
	_, _, err = w.Commit(ctx, datasets.Meta{RowsIn: n, Stage: datasets.Stage{Name: "made", Version: 1}, Started: now, Committed: now})
	return err
}

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"orchard": orchard, "fixture": fixture})
}

func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{Dir: "testdata/script", Cmds: exittest.Cmds()})
}

// What the stage writes for the same tasks changes only with its Version. It is the same in
// every build, with SIMD or without.
func TestGolden(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 7))
	var rows []record.Task
	for i := range 80 {
		words := strings.Fields(statement)
		for range r.IntN(5) {
			words[r.IntN(len(words))] = fmt.Sprint("x", r.IntN(9))
		}
		rows = append(rows, task(fmt.Sprintf("t%02d", i), strings.Join(words, " "), fmt.Sprintf(`{"popularity":%d}`, r.IntN(5))))
	}
	got := fmt.Sprintf("version %d\n", Version)
	for _, approximate := range []string{ApproximateNever, ApproximateAlways} {
		c := given(t, rows)
		c.Order, c.Tau, c.Jaccard, c.Approximate = "-row.popularity", 0.96, 0.9, approximate
		res, err := Run(t.Context(), c, quiet())
		if err != nil {
			t.Fatal(err)
		}
		ids, list, f := output(t, res)
		recall, err := json.Marshal(f.Recall)
		if err != nil {
			t.Fatal(err)
		}
		got += fmt.Sprintf("%s: %s\n%s\n%s", approximate, strings.Join(ids, " "), recall, list)
	}
	const golden = "testdata/output.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || string(want) != got {
		t.Errorf("the output is not that of %s (%v); when it is meant to change, raise Version and run with -update. Now:\n%s", golden, err, got)
	}
}
