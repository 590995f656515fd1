#!/usr/bin/env bash
# Runs the checks of packaging/checks on the packages in a folder: check-packages.sh DIR [OLD].
# DIR is as `make packages` leaves it, which also leaves the stage in bin/stage. OLD has the packages
# of an earlier version; without it, the programs in the stage are packed as an earlier version.
#
# The checks run as root in namespaces of their own, without a network: what they mount and start
# ends with them. They change nothing outside of a temporary directory.
#
#   RUN       regular expression; only the tests whose names match run
#   VERBOSE   if not empty, the times of the cases are printed
set -euo pipefail
cd "$(dirname "$0")/.."

packages=$(realpath "$1")
old=${2:+$(realpath "$2")}

if [[ $(uname -s) != Linux ]]; then
  echo "not run  all cases: they need Linux"
  exit 0
fi
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null || ! sudo -n true 2>/dev/null; then
    echo "not run  all cases: they need root, for mounts and namespaces; run make check-packages as root or with sudo"
    exit 0
  fi
  exec sudo -n env RUN="${RUN:-}" GO="${GO:-go}" PATH="$PATH" scripts/check-packages.sh "$packages" ${old:+"$old"}
fi
scripts/deps.sh /usr/sbin/debootstrap=debootstrap unshare=util-linux ip=iproute2 rpm=rpm crun=crun \
  qemu-aarch64-static=qemu-user-static minisign=minisign openssl=openssl ruby=ruby dpkg-deb=dpkg xz=xz-utils curl=curl wget=wget sqlite3=sqlite3

work=$(mktemp -d /var/tmp/palyra-check.XXXXXX)
trap 'rm -rf --one-file-system "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

scripts/debian-root.sh .tools/debian-root.tar
mkdir "$work/base"
tar --numeric-owner -C "$work/base" -xf .tools/debian-root.tar
(cd packaging && CGO_ENABLED=0 "${GO:-go}" test -c -o "$work/checks" ./checks)
if [[ -z $old ]]; then
  old=$work/old
  # A version without a tag is lower than one with a tag, and than one of a later time.
  (cd packaging && CGO_ENABLED=0 "${GO:-go}" run ./pack linux -root .. -stage ../bin/stage -out "$old" \
    -commit 0000000000000000000000000000000000000000 -date 2000-01-01T00:00:00Z)
fi
install -m 755 "$work/checks" "$work/base/usr/bin/systemctl"

# bash is process 1 of the namespace, because it reaps processes whose parents ended.
TMPDIR=$work PACKAGES=$packages OLD=$old WORK=$work SOURCE=$PWD unshare --mount --propagation private --pid --fork --kill-child=KILL \
  --ipc --net --mount-proc bash -euc '
    ip link set lo up
    # crun refuses to run where hierarchies of both versions are mounted.
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
    code=0
    "$WORK/checks" -test.timeout 20m ${VERBOSE:+-test.v} -test.run "${RUN:-.}" || code=$?
    exit "$code"
  '
