// Package datasets is versioned, immutable datasets in an object store.
//
// A version is Arrow files (shards) and a manifest that is written last. Objects are
// only ever added, under names that follow from their content, so a writer killed
// anywhere leaves nothing that a reader could take for a version, and whoever does the
// same work again writes the same bytes or finds them there:
//
//	blobs/<sha256>                          long or binary content, shared by all datasets of the root
//	<name>/data/<sha256>.arrow              shards
//	<name>/data/<sha256>.blobs              the list of blobs that a version names
//	<name>/versions/<digest>/manifest.json  what the version is, create-if-absent
//	<name>/versions/<digest>/README.md      the same for people (Card)
//	<name>/keys/<key>                       which version is the result of a piece of work
//	<name>/refs/latest                      the newest version
//	<name>/units/…                          checkpoints of the stage that writes it (internal/runner)
//	<name>/files/…                          exports beside its versions (internal/runner)
//
// digest identifies a version: a hash of its manifest without times and usage. key
// identifies the work that makes one: a hash of stage, configuration, inputs and seed.
// Of two writers of the same key the first to claim it wins; the other adopts.
//
// Whatever is read is checked against a hash that comes from the manifest, whose own
// digest is its name. docs/dataset-format.md describes all of it for other programs.
package datasets
