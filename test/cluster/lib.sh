# lib.sh is what the scripts of this folder share. It is sourced, never run.
#
# A component is a process of the cluster. define writes the command of one into
# $RUN/components/NAME, and start_component runs that file, so that a restart repeats the
# very same command. A process is known by its id and its start time: an id that was given
# to another process since is never signalled.
CACHE=${ORCHARD_CLUSTER_CACHE:-$HOME/.cache/orchard-cluster}
RUN=${ORCHARD_CLUSTER_RUN:-$CACHE/run}
bin=$CACHE/bin node=node1 node_ip=198.18.255.1
export PATH=$bin:/usr/sbin:/sbin:$PATH
# In the order of their start.
components=(etcd apiserver controller-manager scheduler containerd coredns kubelet kube-proxy kube-router workflow-controller minio)

die() {
  echo "${0##*/}: $*" >&2
  exit 1
}

# define NAME WORD...: the command of a component; words A=B before it are its environment.
define() {
  local name=$1
  shift
  { printf '#!/usr/bin/env bash\ncd %q && exec env' "$RUN" && printf ' %q' "$@" && echo; } >"$RUN/components/$name"
}

defined() { [[ -f $RUN/components/$1 ]]; }

# born PID: when the process started, in ticks since boot; empty when there is none. A
# zombie is none.
born() { sed -n 's/.*) \([^Z] .*\)/\1/p' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }

# pid_of NAME: the id of the component's process; false when it does not run.
pid_of() {
  local pid at
  read -r pid at 2>/dev/null <"$RUN/pids/$1" || return 1
  [[ -n $pid && $(born "$pid") == "$at" ]] && echo "$pid"
}

start_component() {
  pid_of "$1" >/dev/null && return
  # What the caller has open stays with the caller: a lock that a component had would outlive it. Machines
  # of tests have memory to spare rather than processors, so garbage is collected less often.
  GOGC=300 setsid bash -c 'for fd in /proc/$$/fd/*; do fd=${fd##*/}; ((fd < 3)) || exec {fd}>&-; done; exec bash "$0"' \
    "$RUN/components/$1" >>"$RUN/logs/$1.log" 2>&1 </dev/null &
  echo "$! $(born $!)" >"$RUN/pids/$1"
  disown
}

stop_component() {
  local pid
  if pid=$(pid_of "$1"); then
    kill "$pid" 2>/dev/null
    for _ in $(seq 100); do pid_of "$1" >/dev/null || break; sleep 0.1; done
    pid_of "$1" >/dev/null && kill -9 "$pid" 2>/dev/null
    while pid_of "$1" >/dev/null; do sleep 0.1; done
  fi
  rm -f "$RUN/pids/$1"
}

# healthy NAME: asks the component itself.
healthy() {
  local get=(curl -fsS -o /dev/null --max-time 3)
  local as_admin=(--cacert "$RUN/pki/ca.crt" --cert "$RUN/pki/admin.crt" --key "$RUN/pki/admin.key")
  pid_of "$1" >/dev/null || return 1
  case $1 in
  etcd) "${get[@]}" http://127.0.0.1:12379/health ;;
  apiserver) "${get[@]}" "${as_admin[@]}" https://127.0.0.1:16443/readyz ;;
  controller-manager) "${get[@]}" -k https://127.0.0.1:10257/healthz ;;
  scheduler) "${get[@]}" -k https://127.0.0.1:10259/healthz ;;
  containerd) timeout 5 ctr -a "$RUN/containerd.sock" version ;;
  coredns) "${get[@]}" http://127.0.0.1:11253/health ;;
  # A node that says it is ready and means it: its kubelet reported after it started.
  kubelet) "${get[@]}" http://127.0.0.1:11248/healthz && kubectl --kubeconfig "$RUN/admin.kubeconfig" wait --for=condition=Ready "node/$node" --timeout=1s ;;
  kube-proxy) "${get[@]}" http://127.0.0.1:11256/livez ;;
  kube-router) "${get[@]}" http://127.0.0.1:11244/healthz ;;
  workflow-controller) "${get[@]}" http://127.0.0.1:6060/healthz ;;
  minio) "${get[@]}" "http://$node_ip:9000/minio/health/live" ;;
  *) die "there is no component $1; there are ${components[*]}" ;;
  esac >/dev/null 2>&1
}

# await NAME: until it is healthy, for a minute.
await() {
  local end=$((SECONDS + 60))
  until healthy "$1"; do
    ((SECONDS < end)) || die "$1 is not healthy after a minute; down.sh and up.sh make a new cluster; its log ends: $(tail -n 5 "$RUN/logs/$1.log" 2>&1)"
    sleep 0.3
  done
}

# lock: one of these scripts at a time changes the cluster.
lock() {
  mkdir -p "$CACHE"
  exec 9>"$CACHE/lock"
  flock -w 300 9 || die "another script has changed the cluster for five minutes"
}
