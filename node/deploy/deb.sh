#!/bin/sh
# Packs a built program as a Debian package: deb.sh PROGRAM ARCH VERSION OUT.deb
# The same program, version and SOURCE_DATE_EPOCH give the same bytes. The package has no scripts:
# the unit makes its own user and folders. HOST_PROGRAM, a build for this machine (default PROGRAM),
# prints the reference and the completion. The configuration says little, so that releases do not change
# it: dpkg asks the operator about one that both sides changed.
set -eu
program=$1 arch=$2 version=$3 out=$4
here=$(cd "$(dirname "$0")" && pwd)
host=${HOST_PROGRAM:-$program}
: "${SOURCE_DATE_EPOCH:?is not set: the seconds that all files are dated with}"
export SOURCE_DATE_EPOCH
umask 022
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 0755 "$root"

install -D -m 0755 "$program" "$root/usr/bin/corenode"
install -D -m 0644 "$here/corenode.service" "$root/usr/lib/systemd/system/corenode.service"
install -D -m 0644 "$here/corenode.yaml" "$root/etc/corenode/corenode.yaml"
mkdir -p "$root/usr/share/doc/corenode" "$root/usr/share/bash-completion/completions" "$root/DEBIAN"
"$host" serve --print-config > "$root/usr/share/doc/corenode/corenode.yaml"
"$host" completion bash > "$root/usr/share/bash-completion/completions/corenode"
# Of files alone: what a folder takes is another number on each file system.
bytes=$(find "$root" -type f -exec cat {} + | wc -c)
echo /etc/corenode/corenode.yaml > "$root/DEBIAN/conffiles"
cat > "$root/DEBIAN/control" <<CONTROL
Package: corenode
Version: $version
Architecture: $arch
Maintainer: corenode
Section: net
Priority: optional
Installed-Size: $(((bytes + 1023) / 1024))
Description: language-model serving node
 Serves language models over the messages, chat completions and responses
 protocols, with accounts, limits, billing and Wasm modules, from one binary.
 systemctl enable --now corenode starts it with /etc/corenode/corenode.yaml.
CONTROL
find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
dpkg-deb --root-owner-group -Zxz -z"${DEB_LEVEL:-6}" --build "$root" "$out" > /dev/null
