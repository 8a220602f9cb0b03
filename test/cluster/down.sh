#!/usr/bin/env bash
# down.sh: stops what up.sh started and removes what it leaves behind: containers, mounts,
# network namespaces, the bridge, addresses, firewall tables. Safe when nothing is up.
set -uo pipefail
. "$(dirname "$0")/lib.sh"
[[ ${1:-} == --locked ]] || lock
for ((i = ${#components[@]} - 1; i >= 0; i--)); do
  # containerd ends the containers first, while etcd and the API server may go.
  [[ ${components[i]} == containerd ]] && continue
  stop_component "${components[i]}"
done
# Containers live on without containerd, as they should; here they end with it. Those of a
# containerd that was killed are found by runc's own records and by the socket they were given.
for id in $(runc --root /run/containerd/runc/k8s.io list -q 2>/dev/null); do
  [[ $(runc --root /run/containerd/runc/k8s.io state "$id" 2>/dev/null) == *"$RUN/"* ]] && runc --root /run/containerd/runc/k8s.io delete -f "$id"
done
stop_component containerd
for shim in /proc/[0-9]*; do
  cmdline=$(tr '\0' ' ' 2>/dev/null <"$shim/cmdline")
  [[ $cmdline == *containerd-shim*" -address $RUN/containerd.sock "* ]] && kill -9 "${shim#/proc/}"
done
awk -v run="$RUN/" 'index($2, run) == 1 {print $2}' /proc/mounts | sort -r | while read -r m; do umount -l "$m"; done
for ns in /run/netns/cni-*; do [[ -e $ns ]] && ip netns delete "${ns##*/}"; done
ip link delete orchbr0 2>/dev/null
ip addr del $node_ip/32 dev lo 2>/dev/null
for family in ip ip6; do nft delete table $family kube-proxy 2>/dev/null; done
for iptables in ip{,6}tables{,-legacy}; do
  for table in filter mangle; do
    rules=$($iptables-save -t $table 2>/dev/null) || continue
    grep -q KUBE- <<<"$rules" && grep -v -E 'KUBE-' <<<"$rules" | $iptables-restore -T $table
  done
done
ipset list -n 2>/dev/null | grep -E '^(inet6:)?(KUBE|kube-router)' | while read -r s; do ipset destroy "$s" 2>/dev/null; done
rm -rf "$RUN"
