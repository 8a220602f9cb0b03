// Package local runs sandboxes on this machine: the same agent as everywhere, as
// process 1 of fresh user, mount, PID, network, IPC and UTS namespaces over a private
// overlay, reached over a Unix socket that nothing inside can see or replace.
//
// What it holds to:
//
//   - A sandbox sees the machine's programs ("host") or an image's files, read-only under
//     its own overlay, and nothing else of the machine: no home folders, no /etc but a
//     made one, no processes, no network but its own loopback, none of the service's
//     environment or descriptors. Root inside is a high uid outside where the service is
//     root and may map one, and the service's own user otherwise.
//   - It ends with the service, however that ends: the kernel kills process 1 when the
//     thread that made it dies, and with process 1 everything in its PID namespace. What a
//     killed service leaves on disk and in cgroups the next one on the same state folder
//     removes; folders of a service that lives are locked and left alone.
//   - There is no silent unsafe mode. Without namespaces New fails with exit code 78 and
//     says what is missing; without writable cgroups State.Limits is "partial".
//   - Warm caches (images, Go's build cache) are shared and never written by a sandbox.
//
// There is no disk limit: a sandbox writes below the state folder, so give that a file
// system of its own where it matters. A network (Spec.OpenNetwork) is refused.
//
// Layout of the state folder: services/<id>/ belongs to one running service (lock, agent,
// host/, boxes/<uid>/); cache/images and cache/go are shared by all.
package local
