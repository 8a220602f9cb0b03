package admit

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"orchard/datasets"
	"orchard/datasets/record"
)

// maxNamed is how many quarantined tasks the page for people names.
const maxNamed = 1000

// summary is what a version says as a whole.
type summary struct {
	Tasks       int64            `json:"tasks"`
	Admitted    int64            `json:"admitted"`
	Quarantined map[string]int64 `json:"quarantined"` // by reason
	Unfinished  int64            `json:"unfinished"`  // tasks without a row, since they could not be graded
	WithFlaky   int64            `json:"with_flaky"`  // tasks with a flaky test, admitted or not
	NetworkHint int64            `json:"network_hint"`
	TestsMaxMS  int64            `json:"tests_max_ms"` // of all tasks
	PeakBytes   *int64           `json:"peak_bytes"`
}

// files writes admission.json and admission.md beside a version.
func files(ctx context.Context, v *datasets.Version, put func(name string, b []byte) error) error {
	s := summary{Quarantined: map[string]int64{}, Unfinished: v.Manifest().RowsIn - v.Manifest().Rows}
	var lines []string
	for a, err := range datasets.Rows[record.Admission](ctx, v) {
		if err != nil {
			return err
		}
		s.add(a)
		if !a.Admitted {
			lines = append(lines, fmt.Sprintf("| %s | %s | %s |\n", cell(a.TaskID), a.Reason, cell(a.Detail)))
		}
	}
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	if err := put("admission.json", append(b, '\n')); err != nil {
		return err
	}
	slices.Sort(lines)
	return put("admission.md", []byte(s.page(lines)))
}

func (s *summary) add(a record.Admission) {
	s.Tasks++
	if a.Admitted {
		s.Admitted++
	} else {
		s.Quarantined[a.Reason]++
	}
	if a.FlakyCount > 0 {
		s.WithFlaky++
	}
	if a.NetworkHint != "" {
		s.NetworkHint++
	}
	if a.TestsMaxMS != nil {
		s.TestsMaxMS = max(s.TestsMaxMS, *a.TestsMaxMS)
	}
	if a.PeakBytes != nil && (s.PeakBytes == nil || *a.PeakBytes > *s.PeakBytes) {
		s.PeakBytes = a.PeakBytes
	}
}

func (s summary) page(lines []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Admission\n\n%d of %d tasks are admitted.\n", s.Admitted, s.Tasks)
	if s.Unfinished > 0 {
		fmt.Fprintf(&b, "%d more could not be graded, for reasons that are not theirs, and have no row.\n", s.Unfinished)
	}
	fmt.Fprintf(&b, "%d have a flaky test; the longest tests took %v.\n", s.WithFlaky, time.Duration(s.TestsMaxMS)*time.Millisecond)
	if s.PeakBytes != nil {
		fmt.Fprintf(&b, "The most memory that a sandbox had is %.0f MiB.\n", float64(*s.PeakBytes)/(1<<20))
	}
	if len(s.Quarantined) == 0 {
		return b.String()
	}
	b.WriteString("\n| reason | tasks |\n|---|---|\n")
	reasons := slices.SortedFunc(maps.Keys(s.Quarantined), func(x, y string) int {
		return cmp.Or(cmp.Compare(s.Quarantined[y], s.Quarantined[x]), strings.Compare(x, y))
	})
	for _, r := range reasons {
		fmt.Fprintf(&b, "| %s | %d |\n", r, s.Quarantined[r])
	}
	b.WriteString("\n| task | reason | detail |\n|---|---|---|\n")
	for _, l := range lines[:min(len(lines), maxNamed)] {
		b.WriteString(l)
	}
	if more := len(lines) - maxNamed; more > 0 {
		fmt.Fprintf(&b, "\nand %d more; the rows have them all.\n", more)
	}
	return b.String()
}

// cell is text in one cell of a Markdown table: what others wrote is text and no markup.
func cell(s string) string {
	const limit = 300
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + "…"
	}
	s = strings.Join(strings.Fields(s), " ")
	return strings.NewReplacer(`\`, `\\`, "|", `\|`, "`", "\\`", "<", "&lt;", "*", `\*`, "_", `\_`, "[", `\[`).Replace(s)
}
