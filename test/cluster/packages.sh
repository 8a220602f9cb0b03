#!/usr/bin/env bash
# packages.sh: installs the Debian packages that the cluster and its images need and this
# machine lacks. busybox-static is for the image of the tests that has only sh.
set -euo pipefail
packages=(containerd runc containernetworking-plugins iptables nftables ipset conntrack iproute2 buildah openssl curl procps util-linux busybox-static)
dpkg -s "${packages[@]}" >/dev/null 2>&1 && exit
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
