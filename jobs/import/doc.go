// Package importer is the stage import: task files in the wild become a dataset of
// tasks that runs anywhere.
//
// It reads files, never the network, and asks no model. What a row means is decided in
// datasets/imports; this package decides which rows to keep, refuses a set with a row
// it does not understand, and packs the repositories that rows name into blobs beside
// the tasks. Every row read is imported or counted as dropped under a reason.
package importer
