#!/usr/bin/env bash
# build.sh FOLDER: makes the images that the tests start sandboxes from; FOLDER is for scratch.
#
#   orchard-test/bash:1   bash, GNU tools and git, as this Debian has them
#   orchard-test/sh:1     a shell that is not bash, and nothing else
#   orchard-test/bare:1   one static program, no shell
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../../../..
work=$1

# bash: the programs of these packages with the libraries they are linked against.
rootfs=$work/bash/rootfs
mkdir -p "$rootfs"/usr/{bin,lib,lib64,share} "$rootfs"/{etc,root,tmp,var/tmp,home/user}
chmod 1777 "$rootfs/tmp" "$rootfs/var/tmp"
for d in bin lib lib64; do ln -s "usr/$d" "$rootfs/$d"; done
programs=$(dpkg -L bash coreutils dash diffutils findutils git grep procps sed tar | grep -E '^(/usr)?/bin/[^/]+$')
for p in $programs; do [[ ! -e $p ]] || cp -a "$p" "$rootfs/usr/bin/"; done
for p in $programs; do ldd "$p" 2>/dev/null || true; done | grep -oE '/[^ ]+\.so[^ ]*' | sort -u |
  while read -r lib; do install -D "$lib" "$rootfs/usr/${lib#/usr/}"; done
cp -a /usr/share/git-core "$rootfs/usr/share/"
printf 'root:x:0:0:root:/root:/bin/bash\nuser:x:1000:1000:user:/home/user:/bin/bash\n' >"$rootfs/etc/passwd"
printf 'root:x:0:\nuser:x:1000:\n' >"$rootfs/etc/group"
chown 1000:1000 "$rootfs/home/user"
printf 'FROM scratch\nCOPY rootfs /\nENV PATH=/usr/bin:/bin\nCMD ["bash"]\n' >"$work/bash/Dockerfile"

mkdir "$work/sh"
cp /bin/busybox "$work/sh/sh"
printf 'FROM scratch\nCOPY sh /bin/sh\nCMD ["sh"]\n' >"$work/sh/Dockerfile"

mkdir "$work/bare"
(cd "$root" && go build -ldflags '-s -w' -o "$work/bare/bare" ./test/e2e/kube/images/bare)
printf 'FROM scratch\nCOPY bare /bare\nENTRYPOINT ["/bare"]\n' >"$work/bare/Dockerfile"

for name in bash sh bare; do "$root/images/pack.sh" "localhost/orchard-test/$name:1" "$work/$name"; done
