// Package workflows holds the Argo Workflows YAML that users submit, embedded so that
// `orchard run` runs the very same files on one machine. There is no code here.
package workflows

import "embed"

// FS is templates/ (leaf templates that every pipeline shares), pipelines/, and cron/ (what
// starts pipelines by the clock).
//
//go:embed templates pipelines cron
var FS embed.FS
