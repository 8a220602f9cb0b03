//go:build tools

// Package tools names what build.sh compiles, so that go.mod pins it.
package tools

import _ "helm.sh/helm/v3/cmd/helm"
