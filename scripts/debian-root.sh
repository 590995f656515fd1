#!/usr/bin/env bash
# Makes a minimal Debian as a tar file, unless the file exists: debian-root.sh FILE. It has the
# packages of debootstrap's variant minbase. bubblewrap and sudo are not installed, but their
# packages lie in /var/cache/apt/archives for checks that install them. It needs root and a mirror.
set -euo pipefail

file=$1
suite=$(. /etc/os-release && if [[ ${ID:-} == debian ]]; then echo "$VERSION_CODENAME"; else echo bookworm; fi)
if [[ -s $file && -s $file.suite && $(<"$file.suite") == "$suite" ]]; then exit 0; fi

work=$(mktemp -d /var/tmp/palyra-debian.XXXXXX)
trap 'rm -rf --one-file-system "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
root=$work/root

echo "making a minimal Debian ($suite) for the checks"
mirror=$("$(dirname "$0")/debian-mirror.sh")
if ! debootstrap --variant=minbase --include=bubblewrap,sudo "$suite" "$root" ${mirror:+"$mirror"} >"$work/log" 2>&1; then
  tail -n 5 "$work/log" >&2
  echo "making a minimal Debian: debootstrap failed, with the lines above; check that the mirror has $suite" >&2
  exit 1
fi
find "$root/var/cache/apt/archives" -name '*.deb' ! -name 'bubblewrap_*' ! -name 'sudo_*' -delete
# sudo's own script refuses to leave a system without a password of root.
SUDO_FORCE_REMOVE=yes chroot "$root" dpkg --purge bubblewrap sudo >/dev/null
rm -rf "$root"/var/lib/apt/lists/* "$root"/dev/*

mkdir -p "$(dirname "$file")"
tar --numeric-owner --one-file-system -C "$root" -cf "$file.new" .
mv "$file.new" "$file"
echo "$suite" >"$file.suite"
