// Package buildinfo says which build this is, from what the Go toolchain stamped
// into the binary. Images and releases set both variables with -ldflags.
package buildinfo

import "runtime/debug"

// Version is the release, or "dev".
var Version = "dev"

// Revision is the commit of a program that was built without asking git, or "".
var Revision = ""

// Commit is the git commit of the build, with "+dirty" when the tree was, or ""
// outside a checkout (tests, go run of a file).
func Commit() string {
	if Revision != "" {
		return Revision
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	commit, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+dirty"
		}
	}
	if commit == "" {
		return ""
	}
	return commit + dirty
}
