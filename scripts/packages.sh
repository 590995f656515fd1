#!/usr/bin/env bash
# Builds the programs for every platform of a release, and makes the artifacts of them. The Makefile
# says what was pinned: VERSION, COMMIT, COMMIT_DATE, BUILDER. What it needs is built by `make web`
# before.
set -euo pipefail
cd "$(dirname "$0")/.."

go=${GO:-go}
make=${MAKE:-make}
keys=${KEYS:-bin/packages-keys}
stage=bin/stage
out=bin/packages

if [[ ! $COMMIT =~ ^[0-9a-f]{40}$ ]]; then
  echo "the commit is not known: make packages in a git checkout, or with COMMIT, COMMIT_DATE and VERSION" >&2
  exit 2
fi
if [[ $VERSION == *-dirty ]]; then
  echo "the tree has changes that are not committed: packages are made of a commit; commit or stash them" >&2
  exit 2
fi

umask 022
rm -rf "$stage" "$out"
mkdir -p "$stage" "$out"
(cd packaging && CGO_ENABLED=0 "$go" build -o ../bin/pack ./pack)
pack() {
  local command=$1
  shift
  bin/pack "$command" -tag "$VERSION" -commit "$COMMIT" -date "$COMMIT_DATE" -builder "$BUILDER" -stage "$stage" -out "$out" -keys "$keys" "$@"
}
build() { # os arch target...
  local os=$1 arch=$2
  shift 2
  GOOS=$os GOARCH=$arch "$make" --no-print-directory "$@" OUT="$stage/${os}_$arch" \
    VERSION="$VERSION" COMMIT="$COMMIT" COMMIT_DATE="$COMMIT_DATE" BUILDER="$BUILDER" SBOM="$sbom" CROSS_CC="$cc" >&2
}

# palyrad embeds the sandbox helper of its architecture, which lies in the checkout: that of this
# machine is there again at the end.
helper() { "$make" --no-print-directory init >&2; }
trap helper EXIT

helper # what palyrad embeds is there, for the list of what is linked
sbom=$(pack sbom)
cc=
for system in darwin windows linux; do
  for arch in arm64 amd64; do
    cc=
    if [[ $system == linux && $arch != $("$go" env GOHOSTARCH) ]]; then
      if [[ $arch == arm64 ]]; then cc=aarch64-linux-gnu-gcc; else cc=x86_64-linux-gnu-gcc; fi
    fi
    echo "building for $system/$arch"
    build "$system" "$arch" init programs
    if [[ $system == linux ]]; then build "$system" "$arch" worker; fi
  done
done
trap - EXIT
helper

pack check-sbom

# Manual pages and completions come from the programs of this machine; their text is the same
# everywhere.
host=$stage/$("$go" env GOHOSTOS)_$("$go" env GOHOSTARCH)
scripts/pages.sh "$host"
mv "$host/share" "$stage/share"
for arch in amd64 arm64; do
  cp -r "$stage/share" "$stage/linux_$arch/share"
  DESTDIR="$stage/linux_$arch.root" PREFIX=/usr scripts/install.sh "$stage/linux_$arch" >/dev/null
  rm -r "$stage/linux_$arch/share"
done

# install.sh has the public key.
if [[ ! -d $keys && -z ${SIGN_WITH:-} ]]; then
  echo "signing with new keys for tests in $keys; a release takes KEYS=folder" >&2
  pack keys
fi
pack artifacts -url "${URL:-}"
if [[ -n ${SIGN_WITH:-} || -f $keys/palyra.key ]]; then
  pack sign ${SIGN_WITH:+-sign-with "$SIGN_WITH"}
  pack verify
else
  echo "not signed: $keys has only public keys; \`make release\` on a machine with the private ones makes the same bytes" >&2
fi
