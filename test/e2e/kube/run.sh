#!/usr/bin/env bash
# run.sh [go test arguments]: installs the chart in the test cluster and runs the tests
# that need it. Brings the cluster up if it is not, and then down again (ORCHARD_E2E_KEEP=1: not).
# What controllers and components logged is shown when something fails.
set -euo pipefail
cd "$(dirname "$0")/../../.."
. test/cluster/lib.sh
export CGO_ENABLED=0 ORCHARD_E2E=1 ORCHARD_E2E_RELEASE=e2e ORCHARD_E2E_NAMESPACE=orchard-e2e ORCHARD_E2E_SANDBOX_NAMESPACE=orchard-e2e-sandboxes
release=$ORCHARD_E2E_RELEASE namespace=$ORCHARD_E2E_NAMESPACE

mkdir -p "$CACHE"
exec 8>"$CACHE/e2e.lock"
flock -n 8 || die "another run of these tests has the cluster"

say() { echo "e2e: $* (${SECONDS} s)"; }
logs() {
  echo "=== Pods and events"
  kubectl get pods -A -o wide
  kubectl -n "$namespace" get events --sort-by=.lastTimestamp | tail -n 20
  kubectl -n "$namespace" get workflows
  echo "=== controllers"
  kubectl -n "$namespace" logs -l app.kubernetes.io/component=controller --prefix --tail=60
  for c in "${components[@]}"; do
    [[ -f $RUN/logs/$c.log ]] && echo "=== $c" && tail -n 8 "$RUN/logs/$c.log"
  done
}
finish() {
  code=$?
  trap - EXIT
  if [[ -n ${beside:-} ]]; then # it was interrupted
    kill -- "-$beside" 2>/dev/null || true
    cat "$RUN/beside.log" || true
  fi
  [[ $code == 0 ]] || logs >&2 2>&1 || true
  if [[ $was_up == no && ${ORCHARD_E2E_KEEP:-} != 1 ]]; then
    test/cluster/down.sh
  else
    remove || true
  fi
  exit $code
}
# remove also clears what a killed run left.
remove() {
  helm uninstall "$release" -n "$namespace" --ignore-not-found --wait --timeout 2m >/dev/null
  kubectl delete namespace "$namespace" --ignore-not-found --timeout=1m >/dev/null
}

test/cluster/packages.sh
test/cluster/build.sh
say "the cluster's programs are built"
was_up=no
trap finish EXIT
[[ -f $RUN/complete ]] && was_up=yes
images/build.sh 8>&- & # meanwhile, for a cluster that starts mostly waits
images=$!
test/cluster/up.sh >/dev/null 8>&-
wait $images
export KUBECONFIG=$RUN/admin.kubeconfig
test/cluster/image.sh dist/images/*.tar
say "the cluster is up and has the images"

remove
rm -f "$RUN/parts-tried"
# The store of the test cluster; the password is a test's. Each run has a folder of its own in the bucket.
store=http://$node_ip:9000 bucket=orchard-e2e
code=$(curl -sS -o /dev/null -w '%{http_code}' --aws-sigv4 aws:amz:us-east-1:s3 --user orchard:orchard-test-secret -X PUT "$store/$bucket")
[[ $code == 200 || $code == 409 ]] || die "the store at $store does not make the bucket $bucket: HTTP $code"
helm install "$release" charts/orchard -n "$namespace" --create-namespace --wait --timeout 3m \
  --set workflows.enabled=true --set workflows.checkSeconds=40 --set "s3.endpoint=$store" --set "s3.bucket=$bucket" --set "s3.prefix=run-$(date +%s)" \
  --set credentials.accessKeyId=orchard --set credentials.secretAccessKey=orchard-test-secret --set scriptedModel.enabled=true \
  --set nightlyEval.enabled=true --set nightlyEval.tasks=examples --set 'nightlyEval.schedule=0 0 29 2 *' \
  --set "credentials.webhookUrl=http://$node_ip:18480/" \
  --set scriptedModel.resources.requests.cpu=10m --set scriptedModel.resources.requests.memory=32Mi \
  --set "sandbox.namespace=$ORCHARD_E2E_SANDBOX_NAMESPACE" --set sandbox.defaultCPU=50m --set sandbox.defaultMemory=64Mi --set nodeAccess=true \
  --set 'network.allowEgress={198.18.254.0/24}' --set egress.resources.requests.cpu=10m --set egress.resources.requests.memory=32Mi \
  --set resources.requests.cpu=20m --set resources.requests.memory=32Mi >/dev/null
say "the chart is installed"
# Tests mostly wait, so more of them than processors. The lock is not for what they start, which may outlive them.
tests() { go test -count=1 -parallel 10 -timeout 15m "$@" 8>&-; }
packages=$(grep -rl --include='*_test.go' '"orchard/test/e2e/suite"' . | xargs -n1 dirname | sort -u)
if (($#)) || [[ ${ORCHARD_SOAK:-} == 1 ]]; then
  # Of packages with unit tests too, which `make test` has run, only the tests on the cluster.
  names=$(grep -rohE '^func Test[A-Za-z0-9_]+' test/e2e/{kube,argo,scale} | sed 's/func //' | sort -u | paste -sd'|')
  tests -p 1 -run "^(TestCluster.*|$names)\$" "$@" $packages
  exit
fi
# Two at a time, for tests mostly wait. What stops parts of the cluster comes first, with nothing beside it but
# the store's tests; then the sandbox service and the pipelines, which use the release and so take turns, and
# beside them what does not use it.
code=0
set -m # a process group of its own, to end it by
{
  tests -run '^TestCluster' ./internal/objstore/minio || code=1
  until [[ -f $RUN/parts-tried ]]; do sleep 1; done
  tests -p 1 -run '^TestCluster' $(grep -v -e '^./test/' -e '^./internal/objstore/minio$' <<<"$packages") || code=1
  tests -run '^TestSecond' ./test/e2e/kube || code=1
  exit $code
} >"$RUN/beside.log" 2>&1 8>&- &
beside=$!
set +m
tests -run '^TestPart' ./test/e2e/kube || code=1
touch "$RUN/parts-tried"
say "the parts of the cluster are tried"
tests -skip '^Test(Part|Second)' ./test/e2e/kube || code=1
say "the sandbox service is tried"
tests ./test/e2e/argo || code=1
say "the pipelines are tried"
wait $beside || code=1
beside=
cat "$RUN/beside.log"
say "what needs no release is tried"
exit $code
