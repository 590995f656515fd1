#!/usr/bin/env bash
# Installs the packages that the package-lock.json of a folder pins into the folder itself or
# into another directory. Does nothing when they are there: the digest of the lock file and the
# version of Node are kept beside them. No script of a package is run. A package that does not
# support this Node or npm is an error: npm would leave out native bindings without a message.
set -euo pipefail

from=${1:?usage: npm.sh FOLDER [DIRECTORY]}
dir=${2:-$from}
mkdir -p "$dir"
# npm takes a directory behind a symbolic link for a package that the lock file does not have.
dir=$(realpath "$dir")
if ! version=$(node --version) || ! command -v npm >/dev/null; then
  echo "installing the packages of $from: node or npm is missing; \`make deps-node\` installs both" >&2
  exit 1
fi
lock="$(sha256sum "$from/package-lock.json" | cut -d ' ' -f 1) $version"
kept=$dir/node_modules/.lock
if [[ -f $kept && $(<"$kept") == "$lock" ]]; then
  exit 0
fi
echo "installing the packages of $from"
if [[ $dir != "$(realpath "$from")" ]]; then
  cp "$from/package.json" "$from/package-lock.json" "$dir/"
fi
messages=$(mktemp)
trap 'rm -f "$messages"' EXIT
code=0
npm ci --prefix "$dir" --engine-strict --ignore-scripts --no-audit --no-fund --prefer-offline --loglevel=warn 2>"$messages" || code=$?
# A deprecated package is a matter of the next update of the lock file.
grep -v '^npm warn deprecated ' "$messages" >&2 || true
if grep -qE 'EBADENGINE|Unsupported engine|does not support Node' "$messages"; then
  echo "installing the packages of $from: Node $version does not fit (see above); run it by make, which installs a Node that does" >&2
  rm -rf "$dir/node_modules"
  exit 1
fi
if ((code != 0)); then
  echo "installing the packages of $from: npm failed; it needs a registry, or a cache that has the packages" >&2
  exit 1
fi
node "$(dirname "$0")/node/bindings.mjs" "$dir"
echo "$lock" >"$kept"
