// Package image makes root file systems of OCI images without a daemon: it finds an
// image in a docker archive, an OCI layout or a registry, unpacks it once, and keeps
// it by the digest of its configuration.
//
// An image is data from strangers. Whatever its archives name, nothing outside the
// folder that is being unpacked is read or written: symbolic links are followed as the
// image would follow them, device nodes and extended attributes are left out. A folder
// under its final name is whole and every layer in it has the digest that the image
// says; an interrupted unpacking leaves only what the next one removes. Nobody writes
// to a folder after that: sandboxes see it through an overlay.
package image
