#!/usr/bin/env bash
# Makes the artifacts of a release from a clean tag in a clean clone, and prints their names, sizes
# and digests. It uploads nothing.
#
# RELEASE is the version; the tag is vVERSION. KEYS is the folder of the keys; SIGN_WITH a command that
# signs in the place of the private ones. BUILDER names who builds, URL where the artifacts will be.
set -euo pipefail
cd "$(dirname "$0")/.."

version=${RELEASE:-}
go=${GO:-go}
if [[ ! $version =~ ^[0-9]+\.[0-9]+\.[0-9]+(-(alpha|beta|rc)\.?[0-9]+)?$ ]]; then
  echo "VERSION is \"$version\"; give one such as 1.2.3 or 1.2.3-rc.1: make release VERSION=1.2.3 KEYS=folder" >&2
  exit 2
fi
tag=v$version

refuse() {
  echo "$1" >&2
  exit 2
}
commit=$(git rev-parse --verify --quiet "refs/tags/$tag^{commit}") || refuse "there is no tag $tag: git tag -s $tag"
[[ $commit == "$(git rev-parse HEAD)" ]] || refuse "the tag $tag is not the commit that is checked out: git checkout $tag"
changes=$(git status --porcelain)
[[ -z $changes ]] || refuse "the tree has changes that are not committed; the tag $tag would not be what is built: commit or stash them"

# heading prints the heading of a section of the changelog, section its text.
heading() { git show "$commit:CHANGELOG.md" | grep -E "^## \\[?${1//./\\.}\\]?( |\$)" | head -n 1; }
section() { git show "$commit:CHANGELOG.md" | awk -v heading="$(heading "$1")" '/^## / { on = $0 == heading; next } on'; }
if [[ -z $(heading "$version") ]] || ! section "$version" | grep -q '^- '; then
  refuse "CHANGELOG.md has no entries for $version: a release says what changed; name the section of its entries \"## $version - DATE\", commit, and tag that"
fi
if [[ $(heading "$version") != *[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]* ]]; then
  refuse "CHANGELOG.md has no date for $version (\"$(heading "$version")\"): write it, commit, and tag that"
fi

keys=${KEYS:-}
[[ -n $keys ]] || refuse "KEYS is empty: a release is signed by keys that its users know; give the folder with palyra.pub, minisign.pub and the private keys, or SIGN_WITH=command"
for public in palyra.pub minisign.pub; do
  [[ -f $keys/$public ]] || refuse "$keys/$public is absent: the folder KEYS has both public keys"
done
keys=$(realpath "$keys")
if [[ ${SIGN_WITH:-} == ./* ]]; then SIGN_WITH=$PWD/$SIGN_WITH; fi

out=bin/release/$version
[[ ! -e $out ]] || refuse "$out exists: artifacts of a release are not replaced; remove it to make them again"

clone=$(mktemp -d "${TMPDIR:-/tmp}/palyra-release.XXXXXX")
trap 'chmod -R u+w "$clone" && rm -rf "$clone"' EXIT
git clone --quiet --no-local --no-checkout . "$clone/palyra"
git -C "$clone/palyra" checkout --quiet --detach "$commit" # a branch may have the name of the tag
mkdir -p .tools "$clone/palyra/.tools"
# What was downloaded is pinned by digests and need not be downloaded again.
for kept in node debian; do
  if [[ -d .tools/$kept ]]; then ln -s "$PWD/.tools/$kept" "$clone/palyra/.tools/$kept"; fi
done
"${MAKE:-make}" --no-print-directory -C "$clone/palyra" packages GO="$go" VERSION="$tag" COMMIT="$commit" \
  BUILDER="${BUILDER:-}" URL="${URL:-}" KEYS="$keys" SIGN_WITH="${SIGN_WITH:-}" >&2
mkdir -p bin/release
mv "$clone/palyra/bin/packages" "$out"
section "$version" >"bin/release/$version-notes.md" # outside: the list does not have it
"$clone/palyra/bin/pack" list -out "$out"
echo "nothing is uploaded; the artifacts are in $out, the entries of the changelog in $out-notes.md"
