package charts_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// random are the values of keys that each install makes for itself.
var random = regexp.MustCompile(`(?m)^(  (?:api-keys|signing-key|SANDBOX_API_KEY): ).*$`)

// plain is a file of workflows/, which is there for people to read already.
var plain = regexp.MustCompile(`(?s)^(# Source: orchard/templates/workflows/templates\.yaml\n).*?\n(kind: \w+\nmetadata:\n  name: [-a-z0-9]+\n).*$`)

// Golden files show what a change of the chart changes for its users: write them anew with
// `go test ./charts -run Golden -update` and read the difference.
func TestGolden(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"default":   nil,
		"pipelines": {"-f", pipelinesFile, withArgo},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, errs, err := template(t.Context(), t, args...)
			if err != nil {
				t.Fatalf("%v\n%s", err, errs)
			}
			compare(t, name+".golden", masked(out))
		})
	}
}

func masked(out string) string {
	docs := strings.Split(random.ReplaceAllString(out, "${1}RANDOM"), "\n---\n")
	for i, doc := range docs {
		docs[i] = strings.TrimSpace(plain.ReplaceAllString(strings.TrimSpace(doc), "${1}# as in workflows/\n${2}"))
	}
	return strings.Join(docs, "\n---\n") + "\n"
}

func compare(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-golden +chart), if this is meant, go test ./charts -run Golden -update:\n%s", path, diff)
	}
}
