// Package egress is the one way out of a sandbox for what is granted by name or for a
// time: what a grant says, how it is signed, and the HTTP proxy that keeps to it.
//
// A controller seals a Grant for one sandbox with its private key and leaves it where
// the proxy finds it (on Kubernetes: at the Pod). The proxy knows only the public key.
// It needs no controller: a rule that is over is refused, and a connection under it is
// cut, by the proxy's own clock.
//
// It never dials an address that a name resolves to when that is special (loopback,
// private, link-local, the cluster's own), unless a rule lists those very addresses;
// it resolves a name once and dials what it has judged.
package egress
