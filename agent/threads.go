package agent

import (
	"sync"
	"syscall"
	"time"
)

// readyThreads is how many threads the agent makes at its start. The Go runtime makes
// one when all that it has are in system calls, and ends the process when the kernel
// refuses, as it does in a sandbox whose user code has taken the last process.
// Threads are never given back, so after this there are enough.
const readyThreads = 24

// makeThreads makes them: each of so many system calls at the same time needs its own.
func makeThreads() {
	var all sync.WaitGroup
	for range readyThreads {
		all.Go(func() {
			pause := syscall.NsecToTimespec(int64(5 * time.Millisecond))
			_ = syscall.Nanosleep(&pause, nil) // cut short is fine too
		})
	}
	all.Wait()
}
