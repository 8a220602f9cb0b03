#!/usr/bin/env bash
# image.sh IMAGE PROGRAM [PATH]: makes an image of one static program and hands it to the cluster.
# image.sh ARCHIVE.tar...: hands images to it that were pushed to docker-archives. An image
# that the cluster has already is not sent again; one whose name moved is.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
ctr=(ctr -a "$RUN/containerd.sock" -n k8s.io)

# load ARCHIVE: unless what it holds is known under its names.
load() {
  local sum mark
  sum=$(sha256sum "$1" | cut -c1-64)
  mark=$RUN/images/$(basename "$1")
  mkdir -p "$RUN/images"
  [[ $(cat "$mark" 2>/dev/null) == "$sum" ]] && return
  "${ctr[@]}" images import "$1" >/dev/null
  echo "$sum" >"$mark"
}

[[ -S $RUN/containerd.sock ]] || die "the cluster is not up"
if [[ ${1:-} == *.tar ]]; then
  for archive in "$@"; do load "$archive"; done
  exit
fi
[[ $# == 2 || $# == 3 ]] || die "want IMAGE PROGRAM [PATH], or archives"
image=$1 path=${3:-/$(basename "$2")}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$2" "$work/program"
printf 'FROM scratch\nCOPY program %s\nENTRYPOINT ["%s"]\n' "$path" "$path" >"$work/Dockerfile"
buildah bud --isolation chroot -q -t "$image" "$work" >/dev/null
buildah push -q "$image" "docker-archive:$work/image.tar:$image"
buildah rmi "$image" >/dev/null
"${ctr[@]}" images import "$work/image.tar" >/dev/null
