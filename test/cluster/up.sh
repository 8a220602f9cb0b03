#!/usr/bin/env bash
# up.sh: starts a real single-node Kubernetes on this machine: etcd, API server, controller
# manager, scheduler, containerd, CoreDNS, kubelet, kube-proxy, and kube-router, which enforces
# NetworkPolicy. The Argo Workflows controller and MinIO start too when build.sh has built
# them. Needs root, packages.sh and build.sh. Prints the line that exports KUBECONFIG. In a
# cluster that is up, what does not run is started; what a killed up.sh or another boot left is
# cleared first.
#
# Addresses: Pods 198.18.0.0/24, services 198.19.0.0/16, the node 198.18.255.1 (the range that
# RFC 2544 sets aside for test networks; nothing leaves this machine).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
api=https://127.0.0.1:16443
lock

# bucket: where datasets and the reports of workflows go. Orchard makes no buckets. A namespace's
# own ConfigMap artifact-repositories, which the chart makes, leads Argo to it.
bucket() {
  local answer
  answer=$(curl -sS -o /dev/null --max-time 10 -w '%{http_code}' -X PUT --aws-sigv4 aws:amz:us-east-1:s3 --user orchard:orchard-test-secret http://$node_ip:9000/orchard)
  [[ $answer == 200 || $answer == 409 ]] || die "MinIO makes no bucket: it answers $answer"
}

# A cluster of this boot that came up once: what does not run is started, nothing is lost.
if [[ $(cat "$RUN/complete" 2>/dev/null) == "$(cat /proc/sys/kernel/random/boot_id)" ]]; then
  for c in "${components[@]}"; do
    defined "$c" && { start_component "$c"; await "$c"; }
  done
  defined minio && bucket
  echo "export KUBECONFIG=$RUN/admin.kubeconfig"
  exit
fi
for c in etcd coredns pause kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy kube-router; do
  [[ -x $bin/$c ]] || die "$c is not built: run $here/build.sh"
done
"$here/down.sh" --locked
mkdir -p "$RUN"/{pki,logs,pids,components,etcd,cni,minio}
cd "$RUN"

# One certificate authority; a certificate a component.
openssl req -x509 -newkey rsa:2048 -nodes -keyout pki/ca.key -subj /CN=orchard-test-ca -days 30 -out pki/ca.crt 2>/dev/null
certificate() { # name subject [names]
  openssl req -newkey rsa:2048 -nodes -keyout "pki/$1.key" -subj "$2" -out "pki/$1.csr" 2>/dev/null
  openssl x509 -req -in "pki/$1.csr" -CA pki/ca.crt -CAkey pki/ca.key -CAcreateserial -days 30 \
    -out "pki/$1.crt" -extfile <(echo "subjectAltName=${3:-DNS:$1}") 2>/dev/null
}
certificate apiserver /CN=kube-apiserver "DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,IP:127.0.0.1,IP:198.19.0.1,IP:$node_ip"
certificate admin /O=system:masters/CN=admin
certificate controller-manager /O=system:masters/CN=system:kube-controller-manager
certificate scheduler /O=system:masters/CN=system:kube-scheduler
certificate proxy /O=system:masters/CN=system:kube-proxy
certificate kubelet "/O=system:nodes/CN=system:node:$node" "DNS:$node,IP:$node_ip"
openssl genrsa -out pki/sa.key 2048 2>/dev/null
openssl rsa -in pki/sa.key -pubout -out pki/sa.pub 2>/dev/null
for user in admin controller-manager scheduler proxy kubelet; do
  cat >"$user.kubeconfig" <<K
apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: "$api", certificate-authority: "$RUN/pki/ca.crt"}}]
users: [{name: $user, user: {client-certificate: "$RUN/pki/$user.crt", client-key: "$RUN/pki/$user.key"}}]
contexts: [{name: test, context: {cluster: test, user: $user}}]
current-context: test
K
done
export KUBECONFIG=$RUN/admin.kubeconfig

ip addr add $node_ip/32 dev lo
sysctl -qw net.ipv4.ip_forward=1 net.bridge.bridge-nf-call-iptables=1

define etcd etcd --data-dir etcd --unsafe-no-fsync --listen-client-urls http://127.0.0.1:12379 --advertise-client-urls http://127.0.0.1:12379 \
  --listen-peer-urls http://127.0.0.1:12380 --initial-advertise-peer-urls http://127.0.0.1:12380 --initial-cluster default=http://127.0.0.1:12380
define apiserver kube-apiserver --etcd-servers=http://127.0.0.1:12379 --secure-port=16443 --advertise-address=$node_ip \
  --tls-cert-file=pki/apiserver.crt --tls-private-key-file=pki/apiserver.key --client-ca-file=pki/ca.crt \
  --service-account-key-file=pki/sa.pub --service-account-signing-key-file=pki/sa.key --service-account-issuer=https://kubernetes.default.svc \
  --service-cluster-ip-range=198.19.0.0/16 --authorization-mode=Node,RBAC --allow-privileged=true \
  --kubelet-client-certificate=pki/admin.crt --kubelet-client-key=pki/admin.key --kubelet-preferred-address-types=InternalIP
define controller-manager kube-controller-manager --kubeconfig=controller-manager.kubeconfig --leader-elect=false \
  --service-account-private-key-file=pki/sa.key --root-ca-file=pki/ca.crt --allocate-node-cidrs=true \
  --cluster-cidr=198.18.0.0/17 --service-cluster-ip-range=198.19.0.0/16
define scheduler kube-scheduler --kubeconfig=scheduler.kubeconfig --leader-elect=false --kube-api-qps=500 --kube-api-burst=1000
define kube-proxy kube-proxy --kubeconfig proxy.kubeconfig --proxy-mode=nftables --hostname-override=$node --cluster-cidr=198.18.0.0/17 \
  --healthz-bind-address=127.0.0.1:11256 --metrics-bind-address=127.0.0.1:11249 --conntrack-max-per-core=0
# For each change of a Pod kube-router runs iptables some twenty times, which costs least in its older form.
older=()
if iptables-legacy -t filter -S >/dev/null 2>&1; then
  mkdir iptables
  for c in ip{,6}tables{,-save,-restore}; do ln -s "$(command -v "${c/tables/tables-legacy}")" "iptables/$c"; done
  older=("PATH=$RUN/iptables:$PATH")
fi
define kube-router "${older[@]}" kube-router --run-firewall=true --run-router=false --run-service-proxy=false --kubeconfig admin.kubeconfig \
  --hostname-override $node --service-cluster-ip-range 198.19.0.0/16 --health-port 11244 --metrics-port 0

cat >containerd.toml <<T
version = 2
root = "$RUN/containerd"
state = "$RUN/containerd-state"
[grpc]
  address = "$RUN/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/orchard-test/pause:1"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$RUN/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
T
define containerd containerd --config containerd.toml
cat >cni/10-pods.conflist <<T
{"cniVersion": "1.0.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "orchbr0", "isGateway": true, "hairpinMode": true,
   "ipam": {"type": "host-local", "dataDir": "$RUN/ipam", "ranges": [[{"subnet": "198.18.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
T
cat >Corefile <<T
.:53 {
  bind $node_ip
  health 127.0.0.1:11253
  errors
  kubernetes cluster.local {
    kubeconfig $RUN/admin.kubeconfig
    pods disabled
  }
  cache 5
}
T
define coredns coredns -conf Corefile
cat >kubelet.yaml <<T
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: cgroupfs
failSwapOn: false
failCgroupV1: false
containerRuntimeEndpoint: unix://$RUN/containerd.sock
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: "$RUN/pki/ca.crt"}}
authorization: {mode: Webhook}
tlsCertFile: $RUN/pki/kubelet.crt
tlsPrivateKeyFile: $RUN/pki/kubelet.key
readOnlyPort: 0
port: 11250
healthzPort: 11248
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%}
maxPods: 250
clusterDNS: [$node_ip]
clusterDomain: cluster.local
resolvConf: ""
T
define kubelet kubelet --config kubelet.yaml --kubeconfig kubelet.kubeconfig --hostname-override $node --node-ip $node_ip --root-dir "$RUN/kubelet"

start() { start_component "$1" && await "$1"; }
start_component containerd
start etcd
start apiserver
start_component controller-manager
start_component scheduler
start_component coredns
await containerd
"$here/image.sh" localhost/orchard-test/pause:1 "$bin/pause"
start_component kubelet
start_component kube-proxy
for c in controller-manager scheduler coredns kubelet kube-proxy; do await $c; done
start kube-router

# Argo Workflows and MinIO run outside the Pods, as a managed service would.
if [[ -x $bin/workflow-controller ]]; then
  executor=quay.io/argoproj/argoexec:$(argo version --short 2>/dev/null | sed 's/argo: //; s/+.*//')
  "$here/image.sh" "$executor" "$bin/argoexec" /bin/argoexec
  kubectl create namespace argo >/dev/null
  kubectl apply --server-side -f "$CACHE/argo-crds" >/dev/null
  # Its metrics stay off the port of the sandboxes' agents, which is 9090 too. Argo takes a
  # value of one line as it is into YAML, so it is a flow mapping.
  kubectl -n argo create configmap workflow-controller-configmap --from-literal=metricsConfig='{port: 9190}' >/dev/null
  # It watches all namespaces. One process needs no election. What it keeps of a workflow's
  # steps is compressed above 256 KiB; unless set, above 1 MiB.
  define workflow-controller DEFAULT_REQUEUE_TIME=1s LEADER_ELECTION_DISABLE=true MAX_WORKFLOW_SIZE=262144 \
    workflow-controller --kubeconfig "$KUBECONFIG" --namespace argo --executor-image "$executor"
  start workflow-controller
fi
if [[ -x $bin/minio ]]; then
  define minio MINIO_ROOT_USER=orchard MINIO_ROOT_PASSWORD=orchard-test-secret minio server "$RUN/minio" --address $node_ip:9000
  start minio
  bucket
fi
cat /proc/sys/kernel/random/boot_id >complete
echo "export KUBECONFIG=$KUBECONFIG"
