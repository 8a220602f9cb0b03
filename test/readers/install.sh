#!/usr/bin/env bash
# Installs the readers of other projects, with which the tests here read exports, into the
# user's cache: once for each list of versions and each node. Needs nodejs and npm.
set -euo pipefail
cd "$(dirname "$0")"
major=$(node --version | cut -d. -f1)
sum=$(cat package.json package-lock.json | sha256sum | cut -c1-16)
dir=${XDG_CACHE_HOME:-$HOME/.cache}/orchard/readers-$major-$sum
mkdir -p "$dir"
exec 9>"$dir/lock"
flock 9
[[ -f $dir/done ]] && exit
cp package.json package-lock.json "$dir/"
npm ci --prefix "$dir" --ignore-scripts --no-audit --no-fund
touch "$dir/done"
