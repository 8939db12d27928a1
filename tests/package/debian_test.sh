#!/usr/bin/env bash
# Makes the Debian package, installs it in a fresh debootstrap and runs it there from its installed data.
#   debian_test.sh BUILD [TARBALL]
# TARBALL keeps the packages that debootstrap downloads (made when it is not there), so that a second run is quick.
# Needs root, debootstrap, and Debian's mirror; ends with 77 (skipped) where one of the first two is missing.
set -euo pipefail
build=$(readlink -f "$1") tarball=${2:-}
suite=bookworm mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
skip() { echo "skipped: $*"; exit 77; }
[ "$(id -u)" -eq 0 ] || skip "only root can make a fresh system"
command -v debootstrap >/dev/null || skip "no debootstrap"

work=$(mktemp -d)
root=$work/root
finish() {
  mountpoint -q "$root/proc" && umount "$root/proc"
  rm -rf --one-file-system "$work"
}
trap finish EXIT
part() { printf '%4d s  %s\n' "$SECONDS" "$*"; }
quietly() { "$@" >"$work/log" 2>&1 || { tail -n 30 "$work/log"; exit 1; }; }

part "the package"
(cd "$work" && quietly cpack -G DEB --config "$build/CPackConfig.cmake" -B "$work/package")
deb=$(echo "$work"/package/*.deb)
maintainer=$(dpkg-deb -f "$deb" Maintainer)
[[ $maintainer =~ ^.+\ \<.+@.+\..+\>$ ]] || { echo "Maintainer: $maintainer is no name and address"; exit 1; }

part "a fresh $suite"
if [ -n "$tarball" ]; then
  tarball=$(realpath -m "$tarball")
  [ -s "$tarball" ] || quietly debootstrap --variant=minbase "--make-tarball=$tarball" "$suite" "$work/download" "$mirror"
  quietly debootstrap --variant=minbase "--unpack-tarball=$tarball" "$suite" "$root" "$mirror"
else
  quietly debootstrap --variant=minbase "$suite" "$root" "$mirror"
fi
mount -t proc proc "$root/proc"
cp /etc/resolv.conf "$root/etc/resolv.conf"
cp "$deb" "$root/tmp/"
inside() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"; }

part "apt-get install"
quietly inside apt-get update -q
quietly inside apt-get install -y -q --no-install-recommends "/tmp/${deb##*/}"

part "tracecast predict llama3-405b-16k"
inside tracecast --version | head -n 1
inside tracecast predict llama3-405b-16k | tee "$work/page" | sed -n 1,6p
grep -q 'step time' "$work/page"
grep -q '16,384' "$work/page"
said=$(inside tracecast predict llama3-405b-16k --set parallel.tp=12 2>&1 || true)
grep -q /usr/share/tracecast/scenarios <<<"$said" || { echo "not its installed data: $said"; exit 1; }
inside tracecast goodput llama3-405b-16k --no-best --histories 64 | grep -q goodput
inside tracecast schedule --schedule zb-h1 --stages 4 --microbatches 8 --html /tmp/page.html >/dev/null
[ -s "$root/tmp/page.html" ]
inside tracecast serve --port 0 --seconds 1 | grep -q 'http://127.0.0.1:'
[ -s "$root/usr/share/man/man1/tracecast.1" ] || [ -s "$root/usr/share/man/man1/tracecast.1.gz" ]
[ -s "$root/usr/share/bash-completion/completions/tracecast" ]

part "removed without a trace"
quietly inside apt-get purge -y -q tracecast
[ ! -e "$root/usr/share/tracecast" ] && [ ! -e "$root/usr/bin/tracecast" ]
part "the package installs, runs and goes"
