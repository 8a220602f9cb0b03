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
//     Pod's UID, so another Pod with a reused address is never taken for it. Nothing is sent
//     before the agent has proven over TLS to be that Pod's (identity.go), so whoever else has
//     the address reads nothing and answers nothing.
//   - "We could not ask" is an error, never an end: a Pod that the cache does not know is
//     asked for in the cluster before anybody is told that it is not there.
//   - Pods are closed: no service account, no capabilities, no privilege escalation, seccomp
//     RuntimeDefault, bounded disk, a deadline. The namespace's NetworkPolicy, which New
//     looks for, keeps the network shut.
//
// Pools are sandboxes that run before anybody asks for them:
//
//   - A pool is a ConfigMap with the names of its Pods, as many as it has slots. A Pod of
//     another name is never made, and a name is replaced only when its Pod was seen claimed,
//     so the slots bound the idle Pods whatever caches say (pool.go, poolkeep.go).
//   - The name of a Pod stays the only lock that an id has. A claim first makes a Pod of the
//     sandbox's name that never runs, the ticket, which names an idle Pod and holds what
//     the sandbox is to be; then one update of that Pod makes it the sandbox; then its agent
//     is told. Whoever meets a ticket completes it, or deletes it when its Pod can never be had
//     any more (poolclaim.go). A create that meets a ticket is as one that meets a Pod.
//   - The environment of a claimed sandbox is in the ticket's containers, where that of any
//     other is in the Pod's: in no annotation, and every replica compares it as ever.
//   - An idle Pod is claimed by sandboxes of its pool's owner only, unless the pool is
//     everybody's, and just after its agent has answered a signed request.
//
// Images can be pulled before a sandbox needs them: a pre-pull is a ConfigMap with the machines
// and the results, and each pull a Pod that is no sandbox. A result is written before its Pod is
// deleted, and Pods are listed before the record is read, so no replica begins a pull twice.
//
// A quota holds over all replicas by a book for each owner, a ConfigMap: what is about to be
// made is written there first, and its resourceVersion puts all writers in one order.
//
// Images run as their own user. One that runs as root is root without capabilities: it owns
// its files and binds ports from 1024, but cannot take over or give away files of other
// users, as package managers do, unless Options.Capabilities says so.
//
// The lifetime counts from the moment the kubelet took the Pod (activeDeadlineSeconds), and
// until then State.ExpiresAt is counted from the Pod's creation.
package kube
