#!/usr/bin/env bash
# build.sh [NAME...]: compiles programs of the test cluster from their published Go modules
# into $CACHE/bin; without a name, all that `make e2e` needs. A program that is there is
# kept, so only the first run is slow (docs/cluster.md has the times). Each folder here
# with a go.mod pins one program's modules, apart from those of Orchard itself.
#
#   kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy kubectl
#   etcd coredns pause kube-router helm
#   argo (workflow-controller, argoexec, argo)  minio     what `make e2e` needs, down to here
#   kwok                                                  what `make soak` needs as well
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
K8S=v1.34.4 ARGO=v3.7.18 MINIO=v0.0.0-20260212201848-7aac2a2c5b7c KWOK=v0.8.0 HELM=v3.22.0
src=$CACHE/src
mkdir -p "$bin" "$src"
export CGO_ENABLED=0 GOFLAGS=-mod=mod

# compile NAME FOLDER PACKAGE [LINKER FLAG...]
compile() {
  local name=$1 dir=$2 package=$3 begin=$SECONDS
  shift 3
  # Half a program under its name would be kept forever.
  (cd "$dir" && go build -ldflags "-s -w $*" -o "$bin/.$name" "$package" && mv "$bin/.$name" "$bin/$name")
  echo "built $name in $((SECONDS - begin)) s"
}

# module_copy MODULE VERSION: a copy of a module, as the proxy serves it, that can be
# written to; prints its folder.
module_copy() {
  local dst dir
  dst=$src/$(basename "${1%/v[0-9]}")-$2
  if [[ ! -d $dst ]]; then
    dir=$(cd "$src" && go mod download -json "$1@$2" | sed -n 's/^\t"Dir": "\(.*\)",*$/\1/p')
    rm -rf "$dst.new" && cp -r "$dir" "$dst.new" && chmod -R u+w "$dst.new" && mv "$dst.new" "$dst"
  fi
  echo "$dst"
}

# Argo's module leaves out a symbolic link and the built web pages. Any page will do here.
build_argo() {
  local d c
  d=$(module_copy github.com/argoproj/argo-workflows/v3 "$ARGO")
  cp "$d/workflow/executor/osspecific/signal_darwin.go" "$d/workflow/executor/osspecific/signal_linux.go"
  mkdir -p "$d/ui/dist/app" && echo '<html></html>' >"$d/ui/dist/app/index.html"
  mkdir -p "$CACHE/argo-crds" && cp "$d"/manifests/base/crds/minimal/argoproj.io_*.yaml "$CACHE/argo-crds/"
  for c in workflow-controller argoexec argo; do
    have $c || compile $c "$d" "./cmd/$c" -X "github.com/argoproj/argo-workflows/v3.version=$ARGO"
  done
}

build_kwok() {
  local d f
  d=$(module_copy sigs.k8s.io/kwok "$KWOK")
  for f in "$d"/kustomize/stage/node/fast/node-*.yaml "$d"/kustomize/stage/pod/fast/pod-*.yaml; do cat "$f" && printf '\n---\n'; done >"$CACHE/kwok-stages.yaml"
  compile kwok "$d" ./cmd/kwok
}

have() { [[ -x $bin/$1 ]]; }

build() {
  case $1 in
  argo) have workflow-controller && have argoexec && have argo || build_argo && return ;;
  kubectl) command -v kubectl >/dev/null && return ;;
  esac
  have "$1" && return
  case $1 in
  kube-* | kubelet | kubectl)
    [[ $1 == kube-router ]] && { compile kube-router "$here/kube-router" github.com/cloudnativelabs/kube-router/v2/cmd/kube-router && return; }
    local v=k8s.io/component-base/version
    compile "$1" "$here/kubernetes" "k8s.io/kubernetes/cmd/$1" \
      -X $v.gitVersion=$K8S -X $v.gitMajor=1 -X $v.gitMinor=34 -X k8s.io/client-go/pkg/version.gitVersion=$K8S
    ;;
  etcd | coredns | pause) compile "$1" "$here/$1" . ;;
  helm) compile helm "$here/helm" helm.sh/helm/v3/cmd/helm -X helm.sh/helm/v3/internal/version.version=$HELM \
    -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=34 ;;
  minio) compile minio "$(module_copy github.com/minio/minio "$MINIO")" . ;;
  kwok) build_kwok ;;
  *) die "there is no program $1; see the head of this script" ;;
  esac
}

[[ $# -gt 0 ]] || set -- etcd coredns pause kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy kubectl kube-router helm argo minio
for name in "$@"; do build "$name"; done
