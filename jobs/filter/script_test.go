package filter

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
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

// orchard is the program with this one command.
func orchard() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
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

// fixture is the script command "fixture TYPE FILE DATASET": rows of a type, a JSON object
// each, as a dataset.
func fixture() {
	var err error
	switch os.Args[1] {
	case "task":
		err = rowsOf[record.Task](os.Args[2], os.Args[3])
	case "admission":
		err = rowsOf[record.Admission](os.Args[2], os.Args[3])
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
	store, err := datasets.Stores(ctx, "file://"+os.Getenv("WORK")+"/data")
	if err != nil {
		return err
	}
	w, err := datasets.NewWriter[R](store, name, datasets.WriterOptions{Sort: true})
	if err != nil {
		return err
	}
	defer w.Close()
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	n := int64(0)
	for d := json.NewDecoder(f); d.More(); n++ {
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
