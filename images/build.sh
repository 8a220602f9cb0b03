#!/usr/bin/env bash
# build.sh [NAME...]: makes images as archives in dist/images: stage, controller, agent, toolchain, and
# tests, which are those that the tests on a cluster run; without a name, all. The test cluster is
# handed them if it is up. Nothing is written anew that is there already.
#
# build.sh --push REGISTRY/PREFIX [NAME...]: pushes stage, controller, agent and toolchain, or those
# named, and prints each by its digest. PLATFORMS=linux/amd64,linux/arm64 pushes both under one digest.
#
# VERSION is their version and tag (dev). REVISION is the commit that they say they are of: nothing
# unless given, or what git says when they are pushed.
set -euo pipefail
cd "$(dirname "$0")/.."
export CGO_ENABLED=0
version=${VERSION:-dev} revision=${REVISION:-}

if [[ ${1:-} == --push ]]; then
  [[ -n ${2:-} ]] || { echo "build.sh: --push wants REGISTRY/PREFIX, such as registry.example/team/orchard" >&2 && exit 1; }
  registry=$2 && shift 2
  [[ $# -gt 0 ]] || set -- stage controller agent toolchain
  if [[ -z $revision ]] && revision=$(git rev-parse HEAD 2>/dev/null) && [[ -n $(git status --porcelain) ]]; then
    revision+=+dirty
  fi
  exec go run ./images/build -version "$version" -revision "$revision" -push "$registry" ${PLATFORMS:+-platforms "$PLATFORMS"} "$@"
fi

[[ $# -gt 0 ]] || set -- stage controller agent toolchain tests
names=() tests=
for name in "$@"; do
  if [[ $name == tests ]]; then tests=yes; else names+=("$name"); fi
done
[[ ${#names[@]} == 0 ]] || go run ./images/build -version "$version" -revision "$revision" "${names[@]}"
[[ -z $tests ]] || go run ./test/e2e/kube/images
. test/cluster/lib.sh
if healthy containerd; then test/cluster/image.sh dist/images/*.tar; fi
