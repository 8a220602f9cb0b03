// Package doctor looks whether this machine can run Orchard and explains what it finds:
// what was looked at, what was found, what it means and what to do about it.
//
// It never changes the machine: what it makes (namespaces, a cgroup, one sandbox) is
// gone when it returns. A check that fails means that local sandboxes, or Orchard at
// all, will not work; one that warns names something that works less well or that only
// some tasks need.
package doctor

import (
	"context"
	"fmt"
	"io"
	"slices"

	"orchard/internal/exit"
)

// Status is what came of a check.
type Status string

// The three ends of a check.
const (
	OK   Status = "ok"
	Warn Status = "warn"
	Fail Status = "fail"
)

// Finding is a check and what came of it. Means and Fix are "" when Status is OK.
type Finding struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	Found  string `json:"found"`
	Means  string `json:"means,omitempty"`
	Fix    string `json:"fix,omitempty"`
}

// Options say what to look at.
type Options struct {
	StateDir  string // where sandboxes would be kept; made when absent
	AgentPath string // "" looks where every other command looks
}

// Examine makes every check, in an order in which the first failure is mostly the cause
// of later ones.
func Examine(ctx context.Context, o Options) []Finding {
	findings := machine(ctx)
	findings = append(findings, programs(ctx)...)
	findings = append(findings, disk(o.StateDir))
	agent, path := agent(ctx, o.AgentPath)
	findings = append(findings, agent)
	// A trial says nothing new where its parts fail.
	if failed(findings) == nil {
		o.AgentPath = path
		findings = append(findings, trial(ctx, o)...)
	}
	return findings
}

// failed is nil, or an error of exit code 78 that names the checks that failed.
func failed(findings []Finding) error {
	names := ""
	for _, f := range findings {
		if f.Status == Fail {
			names += ", " + f.Name
		}
	}
	if names == "" {
		return nil
	}
	return exit.Configf("this machine does not run local sandboxes: see %s", names[2:])
}

// Print writes findings for people.
func Print(w io.Writer, findings []Finding) error {
	width := 0
	for _, f := range findings {
		width = max(width, len(f.Name))
	}
	for _, f := range findings {
		if _, err := fmt.Fprintf(w, "%-4s  %-*s  %s\n", f.Status, width, f.Name, f.Found); err != nil {
			return err
		}
		for _, text := range slices.DeleteFunc([]string{f.Means, f.Fix}, func(s string) bool { return s == "" }) {
			if _, err := fmt.Fprintf(w, "%-4s  %-*s    %s\n", "", width, "", text); err != nil {
				return err
			}
		}
	}
	return nil
}
