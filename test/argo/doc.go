// Package argo holds no code, only tests: what Argo Workflows itself says of workflows/,
// and what it does not say.
//
// Argo's own parser, validator and expression evaluator judge the YAML here without a
// cluster; around them stand the checks that Argo's validator leaves out, each with a
// fault planted into the real files that it must find. It is a module of its own, since
// Argo's seven hundred packages would raise the versions of libraries that the programs
// are built with.
package argo
