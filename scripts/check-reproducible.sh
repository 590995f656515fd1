#!/usr/bin/env bash
# Makes the packages of a copy of the sources in a directory of another name, without .git,
# with another user, time zone, language, umask and home, and at another time, and compares
# every artifact and every staged program with what `make packages` left here.
#
# Both builds take compiled packages from one cache, which -trimpath makes possible
# and is a minute instead of ten: what differs by directory, environment or time
# shows, a compiler that differs from run to run does not. FRESH=1 gives the second
# build a cache of its own.
set -euo pipefail

go=${GO:-go}
scripts=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/palyra-reproducible.XXXXXX")
keep=
cleanup() { if [[ -z $keep ]]; then chmod -R u+w "$work" && rm -rf "$work"; fi; }
trap cleanup EXIT

if ! compgen -G 'bin/packages/*.deb' >/dev/null; then
  echo "bin/packages has no artifacts; run \`make packages\` first" >&2
  exit 2
fi

copy="$work/another place/with-a-longer-name"
mkdir -p "$copy" "$work/home"
# What git knows or would take, as it is now; a deleted file is none.
git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
  if [[ -e $file || -L $file ]]; then printf '%s\0' "$file"; fi
done | tar --null --no-recursion -T - -cf - | tar -xf - -C "$copy"

cache=$("$go" env GOCACHE)
if [[ -n ${FRESH:-} ]]; then cache=$work/cache; fi
# In a user namespace the build has another uid, and can still read the caches.
another_user=()
if unshare --user --map-user=12345 --map-group=12345 true 2>/dev/null; then
  another_user=(unshare --user --map-user=12345 --map-group=12345)
else
  echo "user namespaces are not available: both builds have the same user" >&2
fi
keys=$(realpath "${KEYS:-bin/packages-keys}")
(
  umask 077
  modules=$("$go" env GOMODCACHE)
  # What is downloaded is pinned by lock files, wherever it comes from.
  packages=$(npm config get cache 2>/dev/null || true)
  debian=$(realpath .tools/debian)
  cd "$copy"
  mkdir -p .tools
  ln -s "$debian" .tools/debian
  env -i PATH="$PATH" HOME="$work/home" TMPDIR="$work" TZ=Pacific/Kiritimati LC_ALL=C \
    GOCACHE="$cache" GOMODCACHE="$modules" GOFLAGS="-mod=readonly" GOTOOLCHAIN=local \
    ${packages:+npm_config_cache="$packages"} ${NODE_EXTRA_CA_CERTS:+NODE_EXTRA_CA_CERTS="$NODE_EXTRA_CA_CERTS"} \
    "${another_user[@]}" make --no-print-directory packages GO="$go" VERSION="$VERSION" COMMIT="$COMMIT" COMMIT_DATE="$COMMIT_DATE" \
    BUILDER="$BUILDER" URL="$URL" KEYS="$keys" >&2
)

for folder in bin/packages bin/stage; do
  "$scripts/same-files.sh" $folder "$copy/$folder" || keep=1
  # And nothing here is missing there.
  "$scripts/same-files.sh" "$copy/$folder" $folder || keep=1
done
if [[ -n $keep ]]; then
  echo "the other build stays in $copy until you remove $work" >&2
  exit 1
fi
echo "two builds in two directories are the same bytes: $(find bin/packages -type f | wc -l) artifacts"
