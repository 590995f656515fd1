#!/usr/bin/env bash
# Installs what the package-lock.json of a folder pins into a directory, unless it is
# there already: the digest of the lock is kept beside it. Nothing of a package is run.
set -euo pipefail

from=${1:?usage: npm.sh FOLDER DIRECTORY}
dir=${2:?usage: npm.sh FOLDER DIRECTORY}
lock=$(sha256sum "$from/package-lock.json" | cut -d ' ' -f 1)
if [[ -f $dir/lock && $(<"$dir/lock") == "$lock" ]]; then
  exit 0
fi
echo "installing the packages of $from"
mkdir -p "$dir"
cp "$from/package.json" "$from/package-lock.json" "$dir/"
if ! npm ci --prefix "$dir" --ignore-scripts --no-audit --no-fund --prefer-offline; then
  echo "npm could not install the packages of $from: it takes a registry, or a cache that has them" >&2
  exit 1
fi
echo "$lock" >"$dir/lock"
