package rule

import (
	"cmp"
	"slices"
	"strings"

	"orchard/datasets/record"
)

// Flaky is the tests whose status is not the same in all runs of an arm whose tests came to
// their end: required ones first, then by name.
func Flaky(gold, empty []Run) []record.FlakyTest {
	g, e := tables(ended(gold)), tables(ended(empty))
	tests := map[test]bool{}
	for _, table := range slices.Concat(g, e) {
		for t := range table {
			tests[t] = true
		}
	}
	list := []record.FlakyTest{}
	for t := range tests {
		f := record.FlakyTest{Name: t.name, Kind: t.kind, Gold: statuses(g, t), Empty: statuses(e, t)}
		if !alike(f.Gold) || !alike(f.Empty) {
			list = append(list, f)
		}
	}
	slices.SortFunc(list, func(a, b record.FlakyTest) int {
		return cmp.Or(rank(a.Kind)-rank(b.Kind), strings.Compare(a.Name, b.Name), strings.Compare(a.Kind, b.Kind))
	})
	return list
}

func ended(runs []Run) []Run {
	return slices.DeleteFunc(slices.Clone(runs), func(r Run) bool { return !r.ended() })
}

type test struct{ name, kind string }

// tables is the statuses of each run. Of a required test the grader's word counts, which
// knows when a name stands for several tests; the others have no kind.
func tables(runs []Run) []map[test]string {
	var list []map[test]string
	for _, r := range runs {
		table, required := map[test]string{}, map[string]bool{}
		for _, t := range r.Required {
			table[test{t.Name, t.Kind}], required[t.Name] = t.Status, true
		}
		for name, status := range r.All {
			if !required[name] {
				table[test{name, ""}] = status
			}
		}
		list = append(list, table)
	}
	return list
}

func statuses(tables []map[test]string, t test) []string {
	list := []string{}
	for _, table := range tables {
		list = append(list, cmp.Or(table[t], record.TestMissing))
	}
	return list
}

func alike(list []string) bool {
	return !slices.ContainsFunc(list, func(s string) bool { return s != list[0] })
}

func rank(kind string) int {
	if kind == "" {
		return 1
	}
	return 0
}

// Differs is for each run of an arm the names of the tests with another status than in the
// first run whose tests came to their end.
func Differs(runs []Run) [][]string {
	all := Flaky(runs, nil)
	lists := make([][]string, len(runs))
	n := -1 // of the runs that ended
	for i, r := range runs {
		lists[i] = []string{}
		if !r.ended() {
			continue
		}
		n++
		for _, t := range all {
			if t.Gold[n] != t.Gold[0] {
				lists[i] = append(lists[i], t.Name)
			}
		}
		lists[i] = slices.Compact(lists[i]) // one that is required in both kinds
	}
	return lists
}
