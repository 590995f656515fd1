#!/usr/bin/env bash
# Builds a copy of the sources in a directory of another name, without .git, with
# another time zone, language, umask and home, and compares what `make build` left
# here with it.
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

copy="$work/another place/with-a-longer-name"
mkdir -p "$copy" "$work/home"
# What git knows or would take, as it is now; a deleted file is none.
git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
  if [[ -e $file || -L $file ]]; then printf '%s\0' "$file"; fi
done | tar --null --no-recursion -T - -cf - | tar -xf - -C "$copy"

cache=$("$go" env GOCACHE)
if [[ -n ${FRESH:-} ]]; then cache=$work/cache; fi
(
  umask 077
  modules=$("$go" env GOMODCACHE)
  # What is downloaded is pinned by lock files, wherever it comes from.
  packages=$(npm config get cache 2>/dev/null || true)
  cd "$copy"
  env -i PATH="$PATH" HOME="$work/home" TMPDIR="$work" TZ=Pacific/Kiritimati LC_ALL=C \
    GOCACHE="$cache" GOMODCACHE="$modules" GOFLAGS="-mod=readonly" GOTOOLCHAIN=local \
    ${packages:+npm_config_cache="$packages"} ${NODE_EXTRA_CA_CERTS:+NODE_EXTRA_CA_CERTS="$NODE_EXTRA_CA_CERTS"} \
    make --no-print-directory build GO="$go" VERSION="$VERSION" COMMIT="$COMMIT" COMMIT_DATE="$COMMIT_DATE" >&2
)

init=internal/exec/sandbox/jail/initbin
for folder in bin $init; do
  "$scripts/same-files.sh" $folder "$copy/$folder" || keep=1
done
if [[ -n $keep ]]; then
  echo "the other build stays in $copy until you remove $work" >&2
  exit 1
fi
echo "two builds in two directories are the same bytes"
