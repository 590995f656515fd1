#!/usr/bin/env bash
# Runs the checks of packaging/checks on the packages in a folder: check-packages.sh DIR [OLD].
# DIR is as `make packages` leaves it, which also leaves the stage in bin/stage. OLD has the packages
# of an earlier version; without it, the programs in the stage are packed as an earlier version.
#
# The checks run as root in namespaces of their own, without a network, so that their mounts and
# processes end with them. They change nothing outside of a temporary directory.
#
#   RUN       regular expression; only the tests whose names match run
#   VERBOSE   if not empty, the times of the cases are printed
set -euo pipefail
cd "$(dirname "$0")/.."

packages=$(realpath "$1")
old=${2:+$(realpath "$2")}

if [[ $(uname -s) != Linux ]]; then
  echo "not run  all cases: they need Linux"
  exit 1
fi
become=()
if ((EUID != 0)); then
  # Without a terminal, sudo fails at once where it would ask for a password.
  if ! command -v sudo >/dev/null || ! sudo env true; then
    echo "not run  all cases: they need root, for mounts and namespaces; run make check-packages as root"
    exit 1
  fi
  become=(sudo)
fi
scripts/deps.sh /usr/sbin/debootstrap=debootstrap unshare=util-linux ip=iproute2 rpm=rpm crun=crun \
  qemu-aarch64-static=qemu-user-static minisign=minisign openssl=openssl ruby=ruby dpkg-deb=dpkg xz=xz-utils curl=curl wget=wget sqlite3=sqlite3

work=$(mktemp -d /var/tmp/palyra-check.XXXXXX)
chmod 755 "$work"
trap '"${become[@]}" rm -rf --one-file-system "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

(cd packaging && CGO_ENABLED=0 "${GO:-go}" test -c -o "$work/checks" ./checks)
if [[ -z $old ]]; then
  old=$work/old
  # A version without a tag is lower than one with a tag, and than one of a later time.
  (cd packaging && CGO_ENABLED=0 "${GO:-go}" run ./pack linux -root .. -stage ../bin/stage -out "$old" \
    -commit 0000000000000000000000000000000000000000 -date 2000-01-01T00:00:00Z)
fi

root=.tools/debian-root.tar
"${become[@]}" scripts/debian-root.sh "$root"
mkdir "$work/base"
"${become[@]}" tar --numeric-owner -C "$work/base" -xf "$root"
"${become[@]}" install -m 755 "$work/checks" "$work/base/usr/bin/systemctl"

# bash is process 1 of the namespace, because it reaps processes whose parents ended.
"${become[@]}" env TMPDIR="$work" PACKAGES="$packages" OLD="$old" WORK="$work" SOURCE="$PWD" RUN="${RUN:-.}" VERBOSE="${VERBOSE:-}" \
  unshare --mount --propagation private --pid --fork --kill-child=KILL --ipc --net --mount-proc bash -euc '
    ip link set lo up
    # crun refuses to run where hierarchies of both versions are mounted.
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
    code=0
    "$WORK/checks" -test.timeout 20m ${VERBOSE:+-test.v} -test.run "$RUN" || code=$?
    exit "$code"
  '
