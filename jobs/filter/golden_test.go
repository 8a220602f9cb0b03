package filter

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"orchard/jobs/filter/gen"
)

// What the stage makes of the same inputs changes only together with Version: raise it, and
// then these.
func TestOutputIsPinned(t *testing.T) {
	t.Parallel()
	const want = `version 1
dataset 6929b7d422a5d7bd6580ba52e87885a20ffe6178da656b2b71545907663fa846
contamination.jsonl 37839d0f2e6f09f5ac7e4ff56c4bd98013366a5c24f8d7c0eb1e34d4e192ae5b
dropped.jsonl 8bf0ac0d4f98f1e1a77984a770fff1418c8bcbd6cdff73015ad50200b0680b16
funnel.json 7d4aa7c50bbbc15bb6cab12cbf07f48d9f6aef3390c2553864ff43f64114bb91
funnel.md df653863070e7cf19fdb6d0035adc2f828fca9e1e6aa3479fd21b803181831cd
funnel.svg db0bc4d0ad40480bfdd67b84551ee8a6ec94442497b712115ca9e67c2b57c5cf
`
	c, _ := world(t, gen.Funnel{EvalOverlap: 40, Child: 10, Voyager: 6, Unpopular: 12, Unique: 10, Duplicates: 15})
	r, err := Run(t.Context(), c, quiet())
	if err != nil {
		t.Fatal(err)
	}
	lines := []string{fmt.Sprintf("version %d\ndataset %s", Version, r.Digest)}
	for _, f := range r.Files {
		lines = append(lines, f.Name+" "+f.SHA256)
	}
	slices.Sort(lines[1:])
	if got := strings.Join(lines, "\n") + "\n"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	// A second pass over another copy gives the same bytes.
	again, _ := world(t, gen.Funnel{EvalOverlap: 40, Child: 10, Voyager: 6, Unpopular: 12, Unique: 10, Duplicates: 15})
	second, err := Run(t.Context(), again, quiet())
	if err != nil || second.Digest != r.Digest || second.Key != r.Key {
		t.Errorf("%v: %s, then %s", err, r.Digest, second.Digest)
	}
}
