package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
)

// limitMemory makes the garbage collector keep below the memory of the Pod, which a
// workflow tells in bytes, with a tenth left for what is not on the heap.
func limitMemory(bytes string) {
	if n, err := strconv.ParseInt(bytes, 10, 64); err == nil && n > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(n / 10 * 9)
	}
}

// lastWords leaves the error where Kubernetes takes a Pod's last message from, so that
// whoever lists a workflow's steps reads it there. Kubernetes keeps 4,096 bytes.
func lastWords(file string, err error) {
	if file == "" {
		return
	}
	text := []byte(err.Error())
	if most := 4000; len(text) > most {
		text = append(text[:most:most], " …"...)
	}
	if werr := os.WriteFile(file, text, 0o644); werr != nil {
		fmt.Fprintln(os.Stderr, "orchard: ORCHARD_TERMINATION_LOG:", werr)
	}
}
