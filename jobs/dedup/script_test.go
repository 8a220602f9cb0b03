package dedup

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/urfave/cli/v2"

	"orchard/datasets/gentest/fixture"
	"orchard/datasets/record"
	"orchard/internal/exit/exittest"
	"orchard/internal/runner"
)

var update = flag.Bool("update", false, "rewrite the golden file")

// orchard is the program with this one command.
var orchard = exittest.Program(func() *cli.Command { return Command(runner.Deps{}) })

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"orchard": orchard, "fixture": fixture.Main})
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
