package agent

import (
	"os"
	"testing"
)

// The threads are there when makeThreads returns, and stay.
func TestMakeThreads(t *testing.T) {
	makeThreads()
	entries, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Skipf("no threads to count: %v", err)
	}
	if len(entries) < readyThreads {
		t.Errorf("%d threads, want at least %d", len(entries), readyThreads)
	}
}
