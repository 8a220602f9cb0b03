#!/usr/bin/env bash
# build.sh [NAME...]: makes images as archives in dist/images: controller, agent, and tests,
# which are those that the tests on a cluster run; without a name, all. The test cluster is
# handed them if it is up.
set -euo pipefail
cd "$(dirname "$0")/.."
export CGO_ENABLED=0
[[ $# -gt 0 ]] || set -- agent controller tests
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for name in "$@"; do
  case $name in
  agent | controller)
    go build -ldflags '-s -w' -o bin/ "./cmd/orchard-$name"
    mkdir "$work/$name"
    cp "images/$name/Dockerfile" "bin/orchard-$name" "$work/$name/"
    images/pack.sh "localhost/orchard/$name:dev" "$work/$name"
    ;;
  tests) test/e2e/kube/images/build.sh "$work" ;;
  *) echo "build.sh: there is no image $name; there are agent, controller and tests" >&2 && exit 1 ;;
  esac
done
. test/cluster/lib.sh
if healthy containerd; then test/cluster/image.sh dist/images/*.tar; fi
