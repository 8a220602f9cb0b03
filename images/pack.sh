#!/usr/bin/env bash
# pack.sh IMAGE FOLDER: makes dist/images/NAME.tar, a docker-archive of the image that FOLDER's
# Dockerfile describes. No registry and no daemon takes part. Nothing is done when neither
# the folder's bytes nor their modes changed since. Prints the image and the sum of what it is made of.
set -euo pipefail
image=$1 folder=$2
out=$(cd "$(dirname "$0")/.." && pwd)/dist/images
archive=$out/$(basename "${image%:*}").tar
mkdir -p "$out"
sum=$(echo "$image" | cat - <(tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C "$folder" -c .) | sha256sum | cut -c1-12)
if [[ ! -f $archive || $(cat "$archive.sum" 2>/dev/null) != "$sum" ]]; then
  # A half-written archive has no sum beside it.
  rm -f "$archive" "$archive.sum"
  buildah bud --isolation chroot --timestamp 0 -q -t "$image" "$folder" >/dev/null
  buildah push -q "$image" "docker-archive:$archive:$image"
  buildah rmi "$image" >/dev/null
  echo "$sum" >"$archive.sum"
fi
echo "$image $sum"
