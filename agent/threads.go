package agent

import (
	"runtime"
	"sync"
)

// readyThreads is how many threads the agent makes at its start. The Go runtime makes
// one when all that it has are in system calls, and ends the process when the kernel
// refuses, as it does in a sandbox whose user code has taken the last process.
// Threads are never given back, so after this there are enough.
const readyThreads = 24

// makeThreads makes them, and returns when they are there: a goroutine that is locked to
// a thread shares it with none of the others, and all of them are held at the same time.
func makeThreads() {
	var begun, all sync.WaitGroup
	begun.Add(readyThreads)
	release := make(chan struct{})
	for range readyThreads {
		all.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			begun.Done()
			<-release
		})
	}
	begun.Wait()
	close(release)
	all.Wait()
}
