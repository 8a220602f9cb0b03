//go:build !linux

package doctor

import (
	"context"
	"runtime"
)

// machine says that this system is not Linux; everything else follows from it.
func machine(context.Context) []Finding {
	return []Finding{{
		Name: "system", Status: Fail, Found: runtime.GOOS,
		Means: "Local sandboxes are Linux namespaces: Linux is required.",
		Fix:   "Run orchard in a Linux machine or virtual machine, or give the stages a sandbox service elsewhere (SANDBOX_BASE_URL, SANDBOX_API_KEY).",
	}}
}

func disk(string) Finding {
	return Finding{Name: "disk", Status: Warn, Found: "not looked at on this system"}
}

func trial(context.Context, Options) []Finding { return nil }
