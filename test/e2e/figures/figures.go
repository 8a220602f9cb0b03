// Package figures is where soak tests say what they measured: in the test's log and, as a line
// each, in the file that ORCHARD_SOAK_REPORT names. It judges nothing.
package figures

import (
	"fmt"
	"os"
	"testing"
)

// Tell writes one line.
func Tell(t testing.TB, format string, a ...any) {
	t.Helper()
	line := fmt.Sprintf(format, a...)
	t.Log(line)
	report := os.Getenv("ORCHARD_SOAK_REPORT")
	if report == "" {
		return
	}
	f, err := os.OpenFile(report, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := fmt.Fprintln(f, line); err != nil {
		t.Fatal(err)
	}
}
