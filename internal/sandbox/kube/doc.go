// Package kube runs sandboxes as Pods of one namespace: the same agent as everywhere,
// brought into any image by an init container and run there as process 1.
//
// What it holds to:
//
//   - The cluster is the only state. A sandbox is its Pod; how one ended is a tombstone, a
//     ConfigMap that lives an hour. What a Runtime keeps in memory can be lost at any
//     moment, so any number of replicas may serve the same namespace, none of them leads.
//   - An end is known once: the replica that first makes the tombstone, whose name is the
//     Pod's UID, decides the reason, and the others take it from there. The tombstone is
//     written before the Pod is deleted, and a Pod is deleted by UID only. Whatever a
//     killed replica left between two steps the next sweep of any replica finishes.
//   - A sandbox is ready when its agent has answered a request that was signed for that
//     Pod's UID, so another Pod with a reused address is never taken for it.
//   - "We could not ask" is an error, never an end: a Pod that the cache does not know is
//     asked for in the cluster before anybody is told that it is not there.
//   - Pods are closed: no service account, no capabilities, no privilege escalation, seccomp
//     RuntimeDefault, bounded disk, a deadline. The namespace's NetworkPolicy, which New
//     looks for, keeps the network shut.
//
// Images run as their own user. One that runs as root is root without capabilities: it owns
// its files and binds ports from 1024, but cannot take over or give away files of other
// users, as package managers do, unless Options.Capabilities says so.
//
// The lifetime counts from the moment the kubelet took the Pod (activeDeadlineSeconds), and
// until then State.ExpiresAt is counted from the Pod's creation.
package kube
