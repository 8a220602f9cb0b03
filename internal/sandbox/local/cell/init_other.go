//go:build !linux

package cell

// Init does nothing: there are no cells but on Linux.
func Init() {}
