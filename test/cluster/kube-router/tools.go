//go:build tools

// Package tools names what build.sh compiles, so that go.mod pins it.
package tools

import _ "github.com/cloudnativelabs/kube-router/v2/cmd/kube-router"
